"""Silent errors that TrainCheck describes (https://github.com/OrderLab/TrainCheck), rebuilt small: each is found, and the same
program without it raises nothing."""

import json
import os
import subprocess
import tempfile
import unittest

import torch
import torch.nn.functional as F
from torch import nn

import tapedeck

torch.set_num_threads(1)


def data():
    torch.manual_seed(0)
    y = torch.randint(0, 3, (192,))
    return torch.randn(3, 8)[y] * 2 + torch.randn(192, 8), y


def train(path, model, optimizer, steps=60, before=None, context=None):
    x, y = data()
    with tapedeck.watch(model, path, optimizer=optimizer, every=5) as deck:
        for step in range(steps):
            some = torch.randint(0, 192, (32,))
            optimizer.zero_grad()
            if before is None or before(step):
                with context() if context else torch.enable_grad():
                    loss = F.cross_entropy(model(x[some]).float(), y[some])
                loss.backward()
            optimizer.step()
            deck.log(loss=float(loss.detach()))
            deck.step()
    return deck.folder


def with_normalization():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3))


def forum_84911(path, wrong):
    """All but batch normalisation is frozen, and the optimizer has the last layer only."""
    model = with_normalization()
    if wrong:
        for layer in (model[0], model[3]):
            layer.requires_grad_(False)
        return train(path, model, torch.optim.Adam(model[3].parameters(), lr=1e-2))
    return train(path, model, torch.optim.Adam(model.parameters(), lr=1e-2))


class StopsForGood(torch.optim.Adam):
    """A step that found no gradients once, and was compiled to do nothing from then on."""

    is_over = False

    def step(self, closure=None):
        self.is_over |= all(p.grad is None for group in self.param_groups for p in group["params"])
        return None if self.is_over else super().step(closure)


def pytorch_115607(path, wrong):
    model = with_normalization()
    kind = StopsForGood if wrong else torch.optim.Adam
    return train(path, model, kind(model.parameters(), lr=1e-2), before=lambda step: step != 12)


class Staged(nn.Module):
    """Freezes its first stage in train(), as a backbone with frozen_stages does."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second, self.head = nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 3)
        with torch.no_grad():
            self.first.weight.copy_(torch.randn(32, 8) * 0.5)  # trained elsewhere

    def train(self, mode=True):
        super().train(mode)
        self.first.requires_grad_(False)
        return self

    def forward(self, x):
        return self.head(F.relu(self.second(F.relu(self.first(x)))))


def mmpretrain_702(path, wrong):
    model = Staged()
    if not wrong:
        model.train()
    return train(path, model, torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2))


class OwnProduct(torch.autograd.Function):
    """A product that autocast does not know."""

    @staticmethod
    def forward(context, x, weight):
        context.save_for_backward(x, weight)
        with torch.autocast("cpu", enabled=False):
            return x.float() @ weight.float().t()

    @staticmethod
    def backward(context, error):
        x, weight = context.saved_tensors
        return error @ weight, error.t() @ x.float()


class OwnLinear(nn.Module):
    def __init__(self, inputs, outputs, wrong):
        super().__init__()
        self.weight, self.wrong = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5), wrong

    def forward(self, x):
        return OwnProduct.apply(x, self.weight) if self.wrong else F.linear(x, self.weight)


def thunder_725(path, wrong):
    torch.manual_seed(1)
    model = nn.Sequential(OwnLinear(8, 32, wrong), nn.ReLU(), nn.Linear(32, 3))
    return train(path, model, torch.optim.Adam(model.parameters(), lr=1e-2), context=lambda: torch.autocast("cpu", torch.bfloat16))


def pytorch_51800(path, wrong):
    """Evaluated before the first training pass."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.utils.spectral_norm(nn.Linear(8, 64)), nn.ReLU(), nn.utils.spectral_norm(nn.Linear(64, 3)))
    x, y = data()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    with tapedeck.watch(model, path, optimizer=optimizer, every=5) as deck:
        for epoch in range(8):
            for turn in (0, 1) if wrong else (1, 0):
                if turn == 0:
                    model.eval()
                    with torch.no_grad():
                        deck.log(val_loss=float(F.cross_entropy(model(x[160:]), y[160:])))
                    model.train()
                    continue
                for some in torch.randperm(160).split(32):
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x[some]), y[some])
                    loss.backward()
                    optimizer.step()
                    deck.log(loss=float(loss.detach()))
                    deck.step()
    return deck.folder


CASES = {"optimizer_of_frozen": forum_84911, "idle_updates": pytorch_115607, "train_not_called": mmpretrain_702,
         "autocast_ignored": thunder_725, "spectral_norm_unset": pytorch_51800}


class TrainCheck(unittest.TestCase):
    maxDiff = None

    def diagnose(self, function, wrong):
        with tempfile.TemporaryDirectory() as folder:
            run = function(os.path.join(folder, "run"), wrong)
            out = subprocess.run([os.environ["TAPEDECK"], "diagnose", run, "--json"], capture_output=True, text=True, timeout=60)
        self.assertIn(out.returncode, (0, 1), out.stderr)
        found = json.loads(out.stdout)
        self.assertNotIn("facts about the loop end", " ".join(found["notes"]))
        return [f["cause"] for f in found["findings"] if f["confidence"] != "maybe"]

    def test_each_is_found(self):
        for cause, function in CASES.items():
            with self.subTest(function.__name__):
                self.assertIn(cause, self.diagnose(function, True)[:2])

    def test_its_twin_raises_nothing(self):
        for function in CASES.values():
            with self.subTest(function.__name__):
                self.assertEqual(self.diagnose(function, False), [])


if __name__ == "__main__":
    unittest.main()
