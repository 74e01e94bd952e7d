"""Time to 99 % on MNIST, Tapedeck beside PyTorch: ./dev bench mnist [--epochs 3] [--threads N] [--steps N]

The network, batches, optimizer and schedule of examples/mnist/mnist.yaml on both sides, shuffled each epoch,
tested after each epoch; data in memory, nothing recorded. examples/mnist/fetch.sh fetches the data. Seconds
are wall time, in brackets CPU time: on a machine that is not idle compare those, with --threads 1. With
--steps the two train that many steps only. bench/engine.py (M3) compares steps of this network in turns.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, os.pardir, "examples", "mnist")
PROGRAM = os.path.join(HERE, os.pardir, "build", "tapedeck")
BATCH, RATE = 64, 0.002


def report(name, seconds, cpu, accuracy):
    print(f"{name:10} {seconds:8.1f} s ({cpu:7.1f} s)   {100 * accuracy:6.2f} %", flush=True)


def cpu_seconds(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def run_tapedeck(options):
    with tempfile.TemporaryDirectory() as folder:
        settings = [f"threads={options.threads}", f"train.epochs={options.epochs}", "record=[]"]
        if options.steps:
            settings.append(f"train.steps={options.steps}")
        before = cpu_seconds(resource.RUSAGE_CHILDREN)
        begin, reached = time.perf_counter(), None
        process = subprocess.Popen(
            [PROGRAM, "train", os.path.join(EXAMPLE, "mnist.yaml"), "--out", folder, "--json",
             *(part for setting in settings for part in ("--set", setting))],
            stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            event = json.loads(line)
            last = time.perf_counter() - begin
            if reached is None and event["val_accuracy"] >= 0.99:
                reached = last
        if process.wait() != 0:
            sys.exit(process.returncode)
        report("tapedeck", last, cpu_seconds(resource.RUSAGE_CHILDREN) - before,
               event["val_accuracy"])
        return reached


def read_idx(name, head):
    return numpy.fromfile(os.path.join(EXAMPLE, "data", name), "uint8")[head:]


def run_torch(options):
    import torch
    from torch import nn
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    parts = {}
    for part in ("train", "t10k"):
        images = read_idx(part + "-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)
        labels = read_idx(part + "-labels-idx1-ubyte", 8).astype("int64")
        parts[part] = (torch.from_numpy(images), torch.from_numpy(labels))
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.3), nn.Linear(1600, 128), nn.ReLU(),
        nn.Linear(128, 10)).to(memory_format=torch.channels_last)
    for layer in model:
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    images, labels = parts["train"]
    per_epoch = (len(images) + BATCH - 1) // BATCH
    steps = options.steps or options.epochs * per_epoch
    optimizer = torch.optim.Adam(model.parameters(), RATE, eps=1e-7)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    loss = nn.CrossEntropyLoss()

    def batch(part, rows):
        return parts[part][0][rows].to(torch.float32).mul_(1 / 255), parts[part][1][rows]

    def accuracy():
        model.eval()
        right = 0
        with torch.no_grad():
            for rows in torch.arange(10000).split(256):
                x, y = batch("t10k", rows)
                right += int((model(x).argmax(1) == y).sum())
        model.train()
        return right / 10000

    before, begin, reached, step, found = cpu_seconds(resource.RUSAGE_SELF), time.perf_counter(), None, 0, 0
    while step < steps:
        for rows in torch.randperm(len(images)).split(BATCH)[:steps - step]:
            x, y = batch("train", rows)
            optimizer.zero_grad(set_to_none=True)
            loss(model(x), y).backward()
            optimizer.step()
            schedule.step()
            step += 1
        found = accuracy()
        last = time.perf_counter() - begin
        if reached is None and found >= 0.99:
            reached = last
    report("pytorch", last, cpu_seconds(resource.RUSAGE_SELF) - before, found)
    return reached


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if not os.path.exists(os.path.join(EXAMPLE, "data", "t10k-labels-idx1-ubyte")):
        print("mnist: no data; examples/mnist/fetch.sh fetches it")
        return
    print(f"{options.threads} threads; time, CPU time, test accuracy")
    reached = {"tapedeck": run_tapedeck(options), "pytorch": run_torch(options)}
    for name, seconds in reached.items():
        print(f"{name:10} " + (f"99 % after {seconds:.1f} s" if seconds else "99 % not reached"))


if __name__ == "__main__":
    main()
