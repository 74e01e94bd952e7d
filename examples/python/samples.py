"""Every second epoch a random sample of the validation set, labels beside predictions; outputs of a trained model as .npy; and
histograms of everything for TensorBoard."""

import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import tapedeck

folder = sys.argv[1] if len(sys.argv) > 1 else "runs/samples"
torch.manual_seed(0)
x, y = torch.randn(256, 8), torch.randint(0, 3, (256,))
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
deck = tapedeck.watch(model, folder, optimizer=optimizer, every=4)
deck.sample(x[192:], y[192:], n=5, every_epochs=2, to="csv")
for epoch in range(4):
    for i in range(0, 192, 48):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[i : i + 48]), y[i : i + 48])
        loss.backward()
        optimizer.step()
        deck.log(loss=loss)
        deck.step(last=i + 48 >= 192)
deck.finish()
np.save(os.path.join(deck.folder, "outputs.npy"), model(x[192:]).detach().numpy())
run = tapedeck.Run(deck.folder)
print(run)
print(run["0.error"].at(16, "histogram")[:3])
