#!/usr/bin/env python3
"""The power fails in the middle of a training, and what was not synced is lost in part: the run can be read and gone on
with, and ends in the same model, bit for bit.

    TD_KILLS   how many failures, where set"""
import glob
import os
import random
import shutil
import subprocess
import sys
import tempfile

from driver import BUILD, SANITIZED, run_all
from test_training import EXPERIMENT

PROGRAM = os.environ["TAPEDECK"]
SHIM = os.path.join(BUILD, "tests/helpers/libcrash_power.so")


def program(folder, *arguments, **shim):
    environment = dict(os.environ, ASAN_OPTIONS="verify_asan_link_order=0")
    if shim:
        environment["LD_PRELOAD"] = SHIM
        environment.update({f"POWER_{key}": str(value) for key, value in shim.items()})
    return subprocess.run([PROGRAM, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300,
                          check=False, errors="replace")


class Folder:
    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="tapedeck-power-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        with open(os.path.join(self.path, "e.yaml"), "w", encoding="utf-8") as file:
            file.write(EXPERIMENT)
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            shutil.rmtree(self.path)

    def has(self, *parts):
        return os.path.exists(os.path.join(self.path, "runs", "run", *parts))

    def checkpoints(self):
        return glob.glob(os.path.join(self.path, "runs", "run", "checkpoints", "step-*.safetensors"))

    def model(self):
        with open(os.path.join(self.path, "runs", "run", "model.safetensors"), "rb") as file:
            return file.read()


def weights(data):
    """Without the header, which has the time."""
    return data[8 + int.from_bytes(data[:8], "little"):]


def failed_at(case):
    call, seed = case
    with open(EXPECTED, "rb") as file:
        expected = file.read()
    with Folder() as folder:
        done = program(folder.path, "train", "e.yaml", "--quiet", AT=call, SEED=seed)
        assert done.returncode == -9, f"{done.returncode} {done.stderr}"
        if not folder.has("run.db"):
            return
        listed = program(folder.path, "runs")
        assert listed.returncode in (0, 1) and "Sanitizer" not in listed.stderr, listed.stderr
        resumed = program(folder.path, "train", "e.yaml", "--quiet", "--resume", "runs/run")
        assert resumed.returncode in (0, 1, 3), f"{resumed.returncode} {resumed.stderr}"
        if "all 12 steps are done" in resumed.stderr:
            assert weights(folder.model()) == expected, "another model"
        elif resumed.returncode == 1:  # nothing to go on from had reached the disk yet
            assert "checkpoint" in resumed.stderr and not folder.checkpoints(), resumed.stderr
        else:
            assert weights(folder.model()) == expected, f"another model; {resumed.stderr}"


if __name__ == "__main__":
    with Folder() as whole, tempfile.NamedTemporaryFile() as kept:
        counted = os.path.join(whole.path, "calls")
        finished = program(whole.path, "train", "e.yaml", "--quiet", AT=0, COUNT=counted)
        assert finished.returncode == 0, finished.stderr
        with open(counted, encoding="utf-8") as file:
            total = int(file.read())
        assert total > 50, total
        kept.write(weights(whole.model()))
        kept.flush()
        EXPECTED = kept.name
        tries = int(os.environ.get("TD_KILLS", 40 if SANITIZED else 200))
        generator = random.Random(1)
        sys.exit(run_all(failed_at, [(generator.randrange(1, total), seed) for seed in range(tries)]) > 0)
