#!/usr/bin/env python3
"""A recording that fills a small disk: on every size of disk that has room for the model, training ends with
its model and a checkpoint that can be gone on from, exit status 3 says that recording stopped, and no room stays taken.
On smaller disks training is refused before it begins."""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

from driver import SANITIZED, run_all

PROGRAM = os.environ["TAPEDECK"]
# The model has 50 KB, a checkpoint 150 KB; a step records 260 KB.
EXPERIMENT = """
name: run
threads: 1
data: {generate: {two_moons: {examples: 64}}, batch: 16}
model: [{dense: {name: hidden, units: 100, activation: tanh}}, {dense: {name: more, units: 100}},
        {dense: {name: logits, units: 2}}]
train:
  loss: sparse_categorical_crossentropy
  from_logits: true
  optimizer: adam
  epochs: 8
  checkpoint: {every: 3 steps, keep: 2}
record:
  - {what: loss, to: [csv]}
  - {what: "*", form: tensor, to: [npy]}
  - {what: "*.kernel", form: image, to: [png]}
"""


def can_mount():
    folder = tempfile.mkdtemp(prefix="tapedeck-disk-")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True,
                             check=False).returncode == 0
    if mounted:
        subprocess.run(["umount", folder], check=True)
    os.rmdir(folder)
    return mounted


def train(folder, *arguments):
    return subprocess.run([PROGRAM, "train", *arguments], cwd=folder, capture_output=True, text=True, timeout=300,
                          check=False)


def load(path):
    """The tensors' names of a safetensors file that is all there."""
    with open(path, "rb") as file:
        data = file.read()
    head = int.from_bytes(data[:8], "little")
    tensors = json.loads(data[8:8 + head])
    end = max(about["data_offsets"][1] for name, about in tensors.items() if name != "__metadata__")
    assert len(data) == 8 + head + end, path
    return tensors


def filled(kilobytes):
    base = tempfile.mkdtemp(prefix="tapedeck-disk-")
    disk = os.path.join(base, "disk")
    os.mkdir(disk)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", disk], check=True)
    try:
        with open(os.path.join(base, "e.yaml"), "w", encoding="utf-8") as file:
            file.write(EXPERIMENT)
        done = train(base, "e.yaml", "--out", disk)
        run = os.path.join(disk, "run")
        if done.returncode == 1:
            assert not os.path.exists(run), done.stderr
            assert kilobytes < 400, f"refused: {done.stderr}"
            return "refused"
        assert done.returncode in (0, 3), f"{done.returncode} {done.stderr}"
        assert done.returncode == 0 or "but not everything was recorded" in done.stderr, done.stderr
        listed = json.loads(subprocess.run([PROGRAM, "runs", disk, "--json"], capture_output=True, text=True, check=True).stdout)
        if kilobytes >= 300:  # below, there is no room for run.db's own
            assert [one["state"] for one in listed] == ["finished"], listed
            assert done.returncode == 0 or listed[0]["dropped"] > 0, listed
        assert "hidden.kernel" in load(os.path.join(run, "model.safetensors"))
        assert not glob.glob(os.path.join(run, "**", ".*.room"), recursive=True, include_hidden=True)
        checkpoints = sorted(glob.glob(os.path.join(run, "checkpoints", "step-*.safetensors")))
        if not checkpoints:
            assert kilobytes < 700, "no checkpoint"
            return done.returncode
        assert "training/counters" in load(checkpoints[-1])
        assert checkpoints[-1].endswith("step-000000032.safetensors"), checkpoints
        return done.returncode
    finally:
        subprocess.run(["umount", disk], check=True)
        shutil.rmtree(base)


if __name__ == "__main__":
    if not can_mount():
        print("NOT TESTED: disks of many sizes; mounting a tmpfs needs root", file=sys.stderr)
        sys.exit(0)
    sizes = [*range(100, 1500, 100 if SANITIZED else 20), 2000, 3000, 5000, 8000]
    sys.exit(run_all(filled, sizes) > 0)
