"""A net of skorch: what its history has, and what happens inside the module, as a run."""

import sys

import numpy as np
import skorch
import torch

import tapedeck

torch.manual_seed(0)
x = np.random.default_rng(0).standard_normal((256, 8)).astype("float32")
y = (x[:, 0] > 0).astype("int64")
net = skorch.NeuralNetClassifier(
    torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)), criterion=torch.nn.CrossEntropyLoss,
    max_epochs=3, lr=0.1, batch_size=32, verbose=0,
    callbacks=[tapedeck.skorch.Recorder(sys.argv[1] if len(sys.argv) > 1 else "runs/skorch", every=5)])
net.fit(x, y)
run = tapedeck.Run(dict(net.callbacks_)["Recorder"].deck.folder)
print(f"valid_acc {run['valid_acc'].at():.2f} after step {run.steps}, {len(run['0.error'].stats)} records of 0.error")
