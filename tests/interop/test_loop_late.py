"""Facts about a loop after its first 256 updates, when one update of 31 is looked at; and targets of losses that keep none."""

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


def train(updates, *, late=None, batch=12):
    """A plain loop; `late` is called before each update. Returns the facts."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with tempfile.TemporaryDirectory() as folder:
        deck = tapedeck.watch(model, os.path.join(folder, "run"), optimizer=optimizer, form="stats", every=1000)
        for update in range(1, updates + 1):
            x = torch.randn(batch, 4)
            if late:
                late(update, model, optimizer, x)
            optimizer.zero_grad()
            F.cross_entropy(model(x), x[:, :3].argmax(1)).backward()
            optimizer.step()
            deck.step()
        facts = next(part.loop.facts for part in deck._parts if getattr(part, "loop", None))
        deck.finish()
    return facts


class Late(unittest.TestCase):
    def test_nothing_begins(self):
        facts = train(600)
        self.assertEqual(facts["updates"], 600)
        self.assertFalse({"nonfinite", "evaluating", "idle", "zero_rate_0"} & set(facts))
        self.assertGreaterEqual(facts["steps"]["count"], 16 + 3 + 2)  # the first, each 64th, and each 155th

    def test_a_row_that_is_not_finite(self):
        def spoil(update, model, optimizer, x):
            if update == 300:  # it is not looked at
                x[7, 1] = float("nan")
        facts = train(320, late=spoil)
        self.assertEqual((facts["nonfinite"]["what"], facts["nonfinite"]["row"], facts["nonfinite"]["since"]), ("input", 7, 300))

    def test_evaluation_mode(self):
        facts = train(330, late=lambda update, model, *_: model.train(update < 290))
        self.assertEqual((facts["evaluating"]["count"], facts["evaluating"]["since"]), (41, 290))

    def test_rate_of_0(self):
        def stop(update, model, optimizer, x):
            optimizer.param_groups[0]["lr"] = 0.01 if update <= 290 else 0.0
        self.assertEqual(train(400, late=stop)["zero_rate_0"], {"in_a_row": 110, "of": 400})

    def test_updates_that_change_nothing(self):
        def shrink(update, model, optimizer, x):
            optimizer.param_groups[0]["lr"] = 0.01 if update < 290 else 1e-14
        facts = train(330, late=shrink)
        self.assertEqual((facts["idle"]["count"], facts["idle"]["since"]), (330 - 310 + 1, 310))  # 310 is the first that is looked at


LOSSES = {
    "l1": lambda out, y: F.l1_loss(out, y),
    "square": lambda out, y: ((y - out) ** 2).mean(),
    "pinball": lambda out, y: torch.maximum(0.9 * (y - out), -0.1 * (y - out)).mean(),
    "hinge": lambda out, y: F.relu(1 - torch.sign(y) * out).mean(),
    "poisson": lambda out, y: F.poisson_nll_loss(out, (2 * y.abs()).round()),
}


class Targets(unittest.TestCase):
    def findings(self, loss, shuffled):
        torch.manual_seed(1)
        x = torch.randn(480, 8)
        y = x[:, 0] + 0.5 * x[:, 1] + 0.1 * torch.randn(480)
        y = y[torch.randperm(480)] if shuffled else y
        model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
        optimizer = torch.optim.Adam(model.parameters(), 3e-3)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run")
            with tapedeck.watch(model, path, optimizer=optimizer, form="stats") as deck:
                for _ in range(8):
                    for i in torch.randperm(480).split(32):
                        optimizer.zero_grad()
                        value = loss(model(x[i])[:, 0], y[i])
                        value.backward()
                        optimizer.step()
                        deck.log(loss=value)
                        deck.step()
            out = subprocess.run([os.environ["TAPEDECK"], "diagnose", path, "--json"], capture_output=True, text=True)
        return [each["cause"] for each in json.loads(out.stdout)["findings"] if each["confidence"] != "maybe"]

    def test_losses_that_keep_no_target(self):
        for name, loss in LOSSES.items():
            with self.subTest(name):
                self.assertEqual(self.findings(loss, False), [])
                self.assertIn("bad_labels", self.findings(loss, True))

    def test_factors_that_are_no_targets(self):
        from tapedeck import _loop_target

        model, x = nn.Linear(4, 1), torch.randn(16, 4)
        out, advantage, mask = model(x)[:, 0], torch.randn(16), torch.randint(0, 2, (16,)).float()
        for loss in (advantage * out, mask * out, advantage * F.logsigmoid(out), out * 2, (out - out.detach().mean() * out) ** 2):
            self.assertIsNone(_loop_target.find(loss.mean()))


if __name__ == "__main__":
    unittest.main()
