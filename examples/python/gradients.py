"""Gradients with respect to a convolution's output, kernel and bias, of an intermediate layer too, in one backward pass; and
their size over time."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

import tapedeck

folder = sys.argv[1] if len(sys.argv) > 1 else "runs/gradients"
torch.manual_seed(0)
model = nn.Sequential()
for name, module in (
    ("conv1", nn.Conv2d(1, 8, 3)), ("relu1", nn.ReLU()), ("pool1", nn.MaxPool2d(2)), ("conv2", nn.Conv2d(8, 16, 3)),
    ("relu2", nn.ReLU()), ("pool2", nn.MaxPool2d(2)), ("flatten", nn.Flatten()), ("dense", nn.Linear(400, 10)),
):
    model.add_module(name, module)
x, y = torch.randn(32, 1, 28, 28), torch.randint(0, 10, (32,))

found = tapedeck.grad(model, F.cross_entropy, x, y, layer="conv2")
print({name: value.shape for name, value in found.items() if name != "loss"})

optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
deck = tapedeck.watch(model, folder, optimizer=optimizer, every=1, log="errors,gradients", form="stats")
for _ in range(10):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    deck.step()
deck.finish()
run = tapedeck.Run(deck.folder)
for signal in ("conv1.error", "conv2.error", "dense.error"):
    norms = run[signal].stats["norm"]
    print(f"{signal:<12} {norms.iloc[0]:.4f} -> {norms.iloc[-1]:.4f}")
