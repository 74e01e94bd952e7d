"""Intermediate tensors while training: histograms every 100 steps, arrays at an interval, and both only when the loss is
above a threshold, with the steps before it."""

import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import tapedeck

folder = sys.argv[1] if len(sys.argv) > 1 else "runs/intermediate"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
deck = tapedeck.watch(model, folder, optimizer=optimizer, every=100, log="outputs", form="histogram")
deck.track("2.output", every=50, form="tensor", to="npy")
deck.track("0.error", when="loss > 2.35", history=2, form="tensor", to="npy")
for _ in range(200):
    x, y = torch.randn(16, 20), torch.randint(0, 10, (16,))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    deck.log(loss=loss)
    deck.step()
deck.finish()
run = tapedeck.Run(deck.folder)
print("histograms:", "histogram" in run["0.output"].forms, "at step", run["0.output"].last_step)
print("arrays:", np.load(os.path.join(deck.folder, "2.output.npy"), mmap_mode="r").shape)
print("loss above 2.35, first in step", run["loss"].to_pandas()[lambda loss: loss > 2.35].index[0],
      "- kept:", np.load(os.path.join(deck.folder, "0.error.steps.npy"))[:4].tolist())
