"""What executing recorded steps again costs, and saves.

    ./dev bench replay

Disk: 50 steps of a convolution's tensors recorded by a replay, beside the same tensors recorded throughout the run.
Time: origin of a NaN near the end of 100 000 small steps, and diff of two such runs that part there. The flight
recorder: instructions of a step with and without it, where valgrind is installed."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "build", "tapedeck")
DIGITS = os.path.join(HERE, "..", "examples", "data", "digits.csv.gz")

IMAGES = f"""
name: images
seed: 1
data: {{train: {DIGITS}, label: last, input: [8, 8, 1], scale: 0.0625, validation: 0.1, batch: 32}}
model:
  - conv2d: {{name: conv1, filters: 16, kernel: 3, padding: same, activation: relu}}
  - conv2d: {{name: conv2, filters: 16, kernel: 3, padding: same, activation: relu}}
  - flatten:
  - dense: {{name: logits, units: 10}}
train: {{loss: sparse_categorical_crossentropy, from_logits: true, optimizer: {{adam: {{}}}}, steps: 1000}}
"""
SMALL = """
name: small
seed: 1
threads: 1
data: {generate: {two_moons: {examples: 256, noise: 0.1}}, batch: 8}
model: [{dense: {name: hidden, units: 8, activation: tanh}}, {dense: {name: logits, units: 2}}]
train:
  loss: sparse_categorical_crossentropy
  from_logits: true
  optimizer: {sgd: {learning_rate: 0.01}}
  steps: 100000
record: [{what: loss, every: 1000 steps, to: [csv]}]
"""
M1 = """
name: m1
threads: 1
data: {train: x1.npy, labels: y1.npy, batch: 32}
model: [{dense: {name: a, units: 10, activation: relu}}, {dense: {name: b, units: 5}}]
train: {loss: mse, optimizer: {sgd: {}}, steps: STEPS}
record: [{what: loss, every: 1000 steps, to: [csv]}]
"""
M3 = """
name: m3
threads: 1
data: {train: x3.npy, labels: y3.npy, batch: 64}
model:
  - conv2d: {filters: 32, kernel: 3, activation: relu}
  - max_pool2d: {size: 2}
  - conv2d: {filters: 64, kernel: 3, activation: relu}
  - max_pool2d: {size: 2}
  - flatten:
  - dense: {units: 128, activation: relu}
  - dense: {units: 10}
train: {loss: sparse_categorical_crossentropy, from_logits: true, optimizer: {adam: {}}, steps: STEPS}
record: [{what: loss, every: 10 steps, to: [csv]}]
"""


def run(folder, *arguments, good=(0,)):
    began = time.monotonic()
    done = subprocess.run([PROGRAM, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in good:
        sys.exit(f"{arguments}: {done.stdout}{done.stderr}")
    return done.stdout, time.monotonic() - began


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def size(folder):
    return sum(os.path.getsize(os.path.join(root, file)) for root, _, files in os.walk(folder) for file in files)


def measure_disk(folder):
    write(folder, "images.yaml", IMAGES)
    run(folder, "train", "images.yaml", "--quiet")
    before = size(os.path.join(folder, "runs", "images"))
    out, seconds = run(folder, "replay", "runs/images", "--steps", "700..749", "--record", "conv2.*", "--form", "tensor", "--to", "npy")
    replayed = size(os.path.join(folder, "runs", "images")) - before
    write(folder, "all.yaml", IMAGES.replace("name: images", "name: all") +
          "record: [{what: 'conv2.*', every: 1 step, form: tensor, to: [npy]}]\n")
    run(folder, "train", "all.yaml", "--quiet")
    throughout = size(os.path.join(folder, "runs", "all")) - before
    print(f"50 of 1000 steps of conv2.*: replay {replayed / 1e6:.1f} MB in {seconds:.2f} s, throughout {throughout / 1e6:.1f} MB "
          f"(1/{throughout / replayed:.0f})")
    print("  " + out.splitlines()[-2])


def measure_time(folder):
    write(folder, "small.yaml", SMALL)
    _, training = run(folder, "train", "small.yaml", "--quiet")
    # Two ends: one with another momentum from step 90 000 on, one whose weights overflow after step 95 000.
    run(folder, "train", "--from", "runs/small@90000", "--set", "train.optimizer.sgd.momentum=0.5", "--quiet")
    run(folder, "train", "--from", "runs/small@95000", "--set", "train.optimizer.sgd.learning_rate=1.0e+38", "--quiet", good=(0, 1))
    print(f"100 000 steps: training {training:.1f} s")
    out, seconds = run(folder, "origin", "runs/small-3", "--json")
    found = json.loads(out)
    print(f"  origin {seconds:.2f} s: {found['text']}")
    out, seconds = run(folder, "diff", "runs/small", "runs/small-2", "--json", good=(1,))
    print(f"  diff of a branch {seconds:.2f} s: step {json.loads(out)['step']}, {json.loads(out)['cause']}")
    # The same without a branch: the run itself goes on with other settings.
    write(folder, "half.yaml", SMALL.replace("name: small", "name: half").replace("steps: 100000", "steps: 50000"))
    run(folder, "train", "half.yaml", "--quiet")
    run(folder, "train", "--resume", "runs/half", "--set", "train.steps=100000", "--set", "train.optimizer.sgd.learning_rate=0.02",
        "--quiet")
    out, seconds = run(folder, "diff", "runs/small", "runs/half", "--json", good=(1,))
    print(f"  diff of a resumed run {seconds:.2f} s: step {json.loads(out)['step']}, {json.loads(out)['cause']}")


def measure_flight(folder):
    """M1 and M3 of bench/engine.py, as `train` runs them: what the flight recorder is of a step's instructions."""
    if not shutil.which("valgrind"):
        print("flight recorder: valgrind is not installed")
        return
    generator = np.random.default_rng(1)
    np.save(os.path.join(folder, "x1.npy"), generator.normal(size=(3200, 5)).astype(np.float32))
    np.save(os.path.join(folder, "y1.npy"), generator.normal(size=(3200, 5)).astype(np.float32))
    np.save(os.path.join(folder, "x3.npy"), generator.normal(size=(640, 28, 28, 1)).astype(np.float32))
    np.save(os.path.join(folder, "y3.npy"), generator.integers(0, 10, size=640).astype(np.int32))
    for name, text, steps in (("M1", M1, 4000), ("M3", M3, 24)):
        write(folder, "flight.yaml", text.replace("STEPS", str(steps)))
        log = os.path.join(folder, "callgrind.out")
        subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={log}", PROGRAM, "train", "flight.yaml", "--quiet",
                        "--out", "flight"], cwd=folder, env=dict(os.environ, TAPEDECK_CPU="portable"),
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        listed = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", log], stdout=subprocess.PIPE, text=True,
                                check=True).stdout
        counts = {key: int(number.replace(",", "")) for number, key in
                  re.findall(r"^\s*([0-9,]+) \([^)]*\)\s+\S*?:(\w+)", listed, re.M)}
        step, flight = counts["td__step_run"], counts["td__flight_take"]
        print(f"flight recorder, {name}: {flight // steps} of {step // steps} instructions of a step ({100 * flight / step:.3f} %)")


def main():
    with tempfile.TemporaryDirectory() as folder:
        measure_disk(folder)
        measure_time(folder)
        measure_flight(folder)


if __name__ == "__main__":
    main()
