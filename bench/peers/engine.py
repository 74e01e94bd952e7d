"""PyTorch's training step for the networks of the engine benchmark.

    engine.py NETWORK THREADS LAYOUT      LAYOUT, of images and convolutions: nchw or nhwc

A worker, which answers lines on standard input. It prints `ready`; `run N` trains N steps and answers milliseconds per step, `memory` answers
the peak resident size in KiB, the end of input ends it. build/bench/engine speaks the same lines.

The networks, for whoever implements them again. Adam (0.001, 0.9, 0.999, 1e-7) everywhere, one fixed
batch of random inputs and targets, every weight layer with a bias. A step is: forward, loss,
gradients of all parameters (not of the input batch), update.

    M1   batch 32: 5, dense 10 relu, dense 5; mean squared error
    M2   batch 10: 10, dense 64 relu, dense 1; mean squared error
    M3   batch 64: 28x28x1, conv 32 3x3 valid relu, max pool 2, conv 64 3x3 valid relu, max pool 2,
         flatten (1600), dense 128 relu, dense 10; sparse cross-entropy from logits
    M4   batch 128: 784, dense 512 relu, dense 512 relu, dense 10; sparse cross-entropy from logits
    M5a  batch 32: 64 positions of width 128, twice the block
             x = x + dense128(attention(layer_norm(x)))    4 heads of 32; dense128 for query, key and
                                                           value each; scores / sqrt(32), softmax,
                                                           no mask, no dropout
             x = x + dense128(relu(dense512(layer_norm(x))))
         no norm at the end; mean squared error against random targets of the same shape
    M5b  batch 32: 32x32x3, conv 32 3x3 same relu, two residual blocks of 32 channels,
         conv 64 3x3 stride 2 (32x32 to 16x16) relu, two residual blocks of 64 channels,
         global average pool, dense 10; sparse cross-entropy from logits. No normalisation. A block:
             x = relu(x + conv3x3_same(relu(conv3x3_same(x))))
"""
import math
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.inputs = nn.Linear(width, 3 * width)  # query, key and value in one product
        self.output = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        size = width // self.heads
        q, k, v = self.inputs(x).view(batch, length, 3, self.heads, size).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(size), -1)
        return self.output((weights @ v).transpose(1, 2).reshape(batch, length, width))


class TransformerBlock(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(width), Attention(width, heads))
        self.feed_forward = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, hidden),
                                          nn.ReLU(inplace=True), nn.Linear(hidden, width))

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.feed_forward(x)


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(inplace=True),
                                  nn.Conv2d(channels, channels, 3, padding=1))

    def forward(self, x):
        return F.relu_(x + self.body(x))


def relu():
    return nn.ReLU(inplace=True)


NETWORKS = {
    "M1": lambda: nn.Sequential(nn.Linear(5, 10), relu(), nn.Linear(10, 5)),
    "M2": lambda: nn.Sequential(nn.Linear(10, 64), relu(), nn.Linear(64, 1)),
    "M3": lambda: nn.Sequential(nn.Conv2d(1, 32, 3), relu(), nn.MaxPool2d(2),
                                nn.Conv2d(32, 64, 3), relu(), nn.MaxPool2d(2), nn.Flatten(),
                                nn.Linear(1600, 128), relu(), nn.Linear(128, 10)),
    "M4": lambda: nn.Sequential(nn.Linear(784, 512), relu(), nn.Linear(512, 512), relu(),
                                nn.Linear(512, 10)),
    "M5a": lambda: nn.Sequential(*[TransformerBlock(128, 4, 512) for _ in range(2)]),
    "M5b": lambda: nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), relu(),
                                 ResidualBlock(32), ResidualBlock(32),
                                 nn.Conv2d(32, 64, 3, stride=2, padding=1), relu(),
                                 ResidualBlock(64), ResidualBlock(64),
                                 nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
}
INPUTS = {"M1": (32, 5), "M2": (10, 10), "M3": (64, 1, 28, 28), "M4": (128, 784),
          "M5a": (32, 64, 128), "M5b": (32, 3, 32, 32)}
CLASSES = {"M3": 10, "M4": 10, "M5b": 10}  # the others regress


def make_step(network, layout, watch=None):
    """A function that trains one step. watch is given the model first, and returns a function to call
    after each step."""
    torch.manual_seed(1)
    model = NETWORKS[network]()
    after = watch(model) if watch else lambda: None
    inputs = torch.randn(INPUTS[network])
    if layout == "nhwc":
        model = model.to(memory_format=torch.channels_last)
        inputs = inputs.to(memory_format=torch.channels_last)
    if network in CLASSES:
        targets = torch.randint(0, CLASSES[network], (len(inputs),))
        loss_of = F.cross_entropy
    else:
        targets = torch.randn(model(inputs).shape)
        loss_of = F.mse_loss
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, eps=1e-7)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(inputs), targets).backward()
        optimizer.step()
        after()

    return step


def milliseconds(step, count):
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) * 1e3 / count


def answer(step):
    print("ready", flush=True)
    for line in sys.stdin:
        command = line.split()
        if command[0] == "run":
            print(milliseconds(step, int(command[1])), flush=True)
        elif command[0] == "memory":
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)
        else:
            sys.exit(f"unknown command: {line}")


def main():
    network, threads, layout = sys.argv[1:]
    torch.set_num_threads(int(threads))
    torch.set_flush_denormal(True)
    answer(make_step(network, layout))


if __name__ == "__main__":
    main()
