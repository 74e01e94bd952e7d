"""Engines of PyTorch-Ignite: their outputs and metrics, and what happens inside the model, as a run."""

import sys

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy

import tapedeck

torch.manual_seed(0)
x = torch.randn(256, 8)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long()), batch_size=32)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
trainer = create_supervised_trainer(model, optimizer, torch.nn.functional.cross_entropy)
evaluator = create_supervised_evaluator(model, metrics={"accuracy": Accuracy()})
trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(loader))

with tapedeck.ignite.Logger(trainer, sys.argv[1] if len(sys.argv) > 1 else "runs/ignite") as logger:
    logger.attach_output_handler(trainer, Events.ITERATION_COMPLETED, tag="train", output_transform=lambda loss: {"loss": loss})
    logger.attach_output_handler(evaluator, Events.COMPLETED, tag="validation", metric_names="all")
    logger.watch(model, optimizer, every=4)
    trainer.run(loader, max_epochs=3)
run = tapedeck.Run(logger.session.dir)
print(f"accuracy {run['validation/accuracy'].at():.2f} after step {run.steps}, {len(run['0.error'].stats)} records of 0.error")
