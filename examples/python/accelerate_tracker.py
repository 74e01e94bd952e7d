"""What accelerator.log logs, as a run."""

import sys

import accelerate
import torch

import tapedeck

torch.manual_seed(0)
tracker = tapedeck.accelerate.Tracker(sys.argv[1] if len(sys.argv) > 1 else "runs/accelerate")
accelerator = accelerate.Accelerator(cpu=True, log_with=tracker)
accelerator.init_trackers("example", config={"lr": 0.1})
model = torch.nn.Linear(8, 1)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
x = torch.randn(256, 8)
for step in range(1, 41):
    loss = ((model(x).squeeze(1) - x[:, 0]) ** 2).mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    accelerator.log({"loss": loss.item()}, step=step)
accelerator.end_training()
values = tapedeck.Run(tracker.tracker.dir)["loss"].values
print(f"loss {values['value'][0]:.3f} to {values['value'][-1]:.6f} in {len(values)} steps")
