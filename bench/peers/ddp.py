"""PyTorch's DistributedDataParallel with gloo, on the networks of bench/cluster.py: prints milliseconds per step, of rank 0.

    ddp.py NETWORK BATCH STEPS THREADS     under torchrun, or alone: one process without DDP
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn


def network(name):
    if name == "dense":
        return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)), (784,)
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(1600, 128), nn.ReLU(), nn.Linear(128, 10)), (1, 28, 28)


def main():
    name, batch, steps, threads = sys.argv[1], *map(int, sys.argv[2:])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model, shape = network(name)
    size = int(os.environ.get("WORLD_SIZE", 1))
    if size > 1:
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, eps=1e-7, fused=True)
    x, y = torch.randn(batch // size, *shape), torch.randint(0, 10, (batch // size,))
    for step in range(steps + steps // 4):
        if step == steps // 4:
            began = time.monotonic()
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    if size == 1 or dist.get_rank() == 0:
        print(1000 * (time.monotonic() - began) / steps)
    if size > 1:
        dist.destroy_process_group()


main()
