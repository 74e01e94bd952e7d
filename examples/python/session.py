"""The calls that users of wandb and trackio know: init, log, finish."""

import sys

import numpy as np
import torch

import tapedeck

torch.manual_seed(0)
x = torch.randn(256, 8)
y = (x[:, 0] * x[:, 1] > 0).long()
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

run = tapedeck.init(project="session", dir=sys.argv[1] if len(sys.argv) > 1 else "runs", config={"lr": 0.01, "batch": 64},
                    notes="an example", tags=["example"], group="docs")
for step in range(60):
    rows = torch.randint(0, len(x), (run.config.batch,))
    logits = model(x[rows])
    loss = torch.nn.functional.cross_entropy(logits, y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    tapedeck.log({"train": {"loss": loss}}, step=step)
    if step % 20 == 19:  # the same step again: it is added to
        right = model(x).argmax(1) == y
        tapedeck.log({
            "accuracy": right.float().mean(),
            "weights": tapedeck.Histogram(model[0].weight),
            "kernel": tapedeck.Image(model[0].weight.detach().numpy() * 0.5 + 0.5),
            "answers": tapedeck.Table([[int(a), int(b)] for a, b in zip(y[:4], logits.argmax(1)[:4])], columns=["label", "answer"]),
            "tone": tapedeck.Audio(np.sin(np.arange(800) * 0.3), sample_rate=8000),
            "note": f"{int(right.sum())} of {len(x)} are right",
        }, step=step)
tapedeck.finish()

recorded = tapedeck.Run(run.dir)
print(recorded.config, recorded.tags, recorded.group)
print(recorded["note"].at(60))
