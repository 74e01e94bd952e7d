"""A learner of fastai: what its recorder has, and what happens inside the model, as a run."""

import sys

import fastai.callback.all  # adds fit_one_cycle to learners
import torch
from fastai.basics import DataLoader, DataLoaders, Learner, accuracy

import tapedeck

torch.manual_seed(0)
x = torch.randn(256, 8)
examples = list(zip(x, (x[:, 0] > 0).long()))
learner = Learner(
    DataLoaders(DataLoader(examples[:192], bs=32, shuffle=True), DataLoader(examples[192:], bs=32)),
    torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)), loss_func=torch.nn.CrossEntropyLoss(), metrics=accuracy)
recorder = tapedeck.fastai.Recorder(sys.argv[1] if len(sys.argv) > 1 else "runs/fastai", every=5)
with learner.no_bar(), learner.no_logging():
    learner.fit_one_cycle(3, 0.1, cbs=recorder)
run = tapedeck.Run(recorder.deck.folder)
print(f"accuracy {run['accuracy'].at():.2f} after step {run.steps}, {len(run['0.error'].stats)} records of 0.error")
