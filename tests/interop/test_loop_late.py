"""Facts about a loop after its first 256 updates, when one update of 61 is looked at; and targets of losses that keep none."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

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
    def test_scheduler(self):
        schedulers = []

        def schedule(update, model, optimizer, x):
            if update == 2:
                schedulers.append(torch.optim.lr_scheduler.StepLR(optimizer, 100, 0.01))
            elif schedulers:
                schedulers[0].step()
        fact = train(402, late=schedule)["scheduler"]
        self.assertEqual((fact["steps"], fact["updates"], fact["collapsed"]), (400, 401, 201))

    def test_optimizers_that_are_made_late(self):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 3))
        first = torch.optim.SGD(model[0].parameters(), 0.01)
        with tempfile.TemporaryDirectory() as folder:
            deck = tapedeck.watch(model, os.path.join(folder, "run"), optimizer=first, form="stats", every=1000)
            for update in range(1, 401):
                if update == 300:
                    second = torch.optim.SGD(model[2].parameters(), 0.0)
                x = torch.randn(12, 4)
                model.zero_grad()
                F.cross_entropy(model(x), x[:, :3].argmax(1)).backward()
                (first if update < 300 else second).step()
                deck.step()
            facts = next(part.loop.facts for part in deck._parts if getattr(part, "loop", None))
            deck.finish()
        self.assertEqual(facts["zero_rate_0"], {"in_a_row": 101, "of": 101})
        self.assertEqual((facts["updates"], facts["optimizers"]["ours"], facts["optimizers"]["others"]), (400, 2, 0))

    def test_facts_that_are_not_available(self):
        torch.manual_seed(0)
        models = [nn.Linear(4, 3) for _ in range(2)]
        optimizers = [torch.optim.SGD(model.parameters(), 0.01) for model in models]
        with tempfile.TemporaryDirectory() as folder:
            decks = [tapedeck.watch(model, os.path.join(folder, str(i)), optimizer=optimizer, form="stats", every=1000)
                     for i, (model, optimizer) in enumerate(zip(models, optimizers))]
            loops = [next(part.loop for part in deck._parts if getattr(part, "loop", None)) for deck in decks]
            for update in range(1, 321):
                x = torch.randn(12, 4)
                for model, optimizer in zip(models, optimizers):
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), x[:, :3].argmax(1)).backward()
                    if update == 290:
                        loops[0].schedule = None  # what the hook reads in each update is not there
                    optimizer.step()
                for deck in decks:
                    deck.step()
            for deck in decks:
                deck.finish()
            notes = [tapedeck.Run(deck.folder).notes for deck in decks]
        self.assertIn("AttributeError", notes[0]["loop_stopped"])
        self.assertNotIn("loop_stopped", notes[1])
        self.assertEqual(json.loads(notes[1]["loop"])["updates"], 320)
        self.assertFalse(_global_optimizer_pre_hooks or _global_optimizer_post_hooks)

    def test_nothing_begins(self):
        facts = train(600)
        self.assertEqual(facts["updates"], 600)
        self.assertFalse({"nonfinite", "evaluating", "idle", "zero_rate_0"} & set(facts))
        self.assertGreaterEqual(facts["steps"]["count"], 16 + 3 + 2)  # the first, each 64th, each 183rd and the powers of two

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
        module = sys.modules["torch.optim.sgd"]
        step = module.sgd
        self.addCleanup(setattr, module, "sgd", step)

        def do_nothing(update, *_):
            module.sgd = step if update < 290 else lambda *_, **__: None
        facts = train(330, late=do_nothing)
        self.assertEqual((facts["idle"]["count"], facts["idle"]["since"]), (330 - 305 + 1, 305))  # 305 is the first that is looked at

    def test_a_rate_that_can_change_nothing(self):
        """Not the updates are at fault."""
        def shrink(update, model, optimizer, x):
            optimizer.param_groups[0]["lr"] = 0.01 if update < 290 else 1e-14
        self.assertNotIn("idle", train(330, late=shrink))


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
