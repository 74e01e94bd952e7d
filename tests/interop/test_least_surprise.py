"""What `tapedeck.watch` does to the process of its user: only attributes of torch's own modules are replaced, only for as
long as facts about the loop are gathered, and whatever happens they come back."""

import inspect
import sys
import tempfile
import unittest
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.utils.data import DataLoader, TensorDataset

import tapedeck

torch.set_num_threads(1)


def attributes():
    """Every attribute of every module, and of every class of torch in one."""
    found = {}
    for name, module in list(sys.modules.items()):
        for key, value in list(getattr(module, "__dict__", {}).items()):
            found[name, key] = value
            if inspect.isclass(value) and str(getattr(value, "__module__", "")).startswith("torch"):
                for inner, member in list(vars(value).items()):
                    found[f"{value.__module__}.{value.__qualname__}", inner] = member
    return found


def differences(before, after):
    """Of attributes that were there before: caches that fill up are not replaced functions."""
    return {key for key, value in before.items() if callable(value) and after.get(key) is not value}


def data(rows=96):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(rows, 8, generator=generator)
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long()


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def train(model, optimizer, deck=None, *, epochs=1, scaler=None, scheduler=None, clip=False):
    for _ in range(epochs):
        for x, y in DataLoader(TensorDataset(*data()), batch_size=16):
            optimizer.zero_grad()
            loss = cross_entropy(model(x), y)
            (loss if scaler is None else scaler.scale(loss)).backward()
            if clip:
                clip_grad_norm_(model.parameters(), 1.0)
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
            if deck is not None:
                deck.step()
        if scheduler is not None:
            scheduler.step()


class Process(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        model = network()  # what a first training imports is not a difference
        with tapedeck.watch(model, f"{self.folder}/first") as deck:
            train(model, torch.optim.SGD(model.parameters(), lr=0.1), deck)
        self.model = network()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def watch(self, **options):
        deck = tapedeck.watch(self.model, f"{self.folder}/run", optimizer=self.optimizer, every=4, **options)
        self.addCleanup(deck.finish)
        return deck

    def note(self, key):
        import json

        return json.loads(tapedeck.Run(f"{self.folder}/run").notes[key])


# What is replaced until a loss is not finite or the deck is finished: the graph of such a loss names the operation it comes from.
UNTIL_NAN = {("torch.autograd", "backward")}


class Replaced(Process):
    def test_only_attributes_of_torch(self):
        before = attributes()
        self.watch()
        changed = differences(before, attributes())
        self.assertTrue(changed)
        for owner, name in changed:
            self.assertTrue(owner.split(".")[0] == "torch", f"{owner}.{name} was replaced")
        self.assertNotIn("torch.nn.functional", {owner for owner, _ in changed})

    def test_everything_is_back_when_the_facts_are_gathered(self):
        before = attributes()
        deck = self.watch()
        train(self.model, self.optimizer, deck, epochs=24, clip=True,
              scheduler=torch.optim.lr_scheduler.StepLR(self.optimizer, 10))
        self.assertEqual(differences(before, attributes()), UNTIL_NAN)
        deck.finish()
        self.assertEqual(differences(before, attributes()), set())

    def test_everything_is_back_after_sixteen_updates_of_a_loop_with_nothing_to_follow(self):
        x, y = data()
        before = attributes()
        deck = self.watch()
        for i in range(16):
            loss = (self.model(x[i : i + 1]).square()).sum()  # no target
            loss.backward()
            self.optimizer.step()
            deck.step()
        self.assertEqual(differences(before, attributes()), UNTIL_NAN)
        (self.model(x[:1]).sum() * float("nan")).backward()
        self.optimizer.step()
        deck.step()
        self.assertEqual(differences(before, attributes()), set())

    def test_everything_is_back_when_the_deck_is_finished_early(self):
        before = attributes()
        self.watch().finish()
        self.assertEqual(differences(before, attributes()), set())

    def test_everything_is_back_after_an_error(self):
        before = attributes()
        deck = self.watch()
        watcher = next(part for part in deck._parts if hasattr(part, "loop"))
        watcher.loop.parameters.compare_samples = lambda: 1 / 0
        train(self.model, self.optimizer, deck)
        self.assertEqual(differences(before, attributes()), set())
        deck.finish()
        self.assertIn("ZeroDivisionError", tapedeck.Run(f"{self.folder}/run").notes["loop_stopped"])

    def test_what_somebody_else_replaced_is_left_alone(self):
        deck = self.watch()
        ours = torch.autograd.backward
        self.addCleanup(setattr, torch.autograd, "backward", inspect.unwrap(ours))

        def theirs(*arguments, **named):
            return ours(*arguments, **named)

        torch.autograd.backward = theirs
        deck.finish()
        self.assertIs(torch.autograd.backward, theirs)
        train(self.model, self.optimizer)

    def test_the_switch(self):
        before = attributes()
        scaler = torch.amp.GradScaler("cpu")
        deck = self.watch(loop_checks=False, scaler=scaler)
        self.assertEqual(differences(before, attributes()), set())
        train(self.model, self.optimizer, deck, scaler=scaler)
        deck.finish()
        self.assertNotIn("loop", tapedeck.Run(f"{self.folder}/run").notes)

    def test_the_switch_without_a_scaler(self):
        before = attributes()
        deck = self.watch(loop_checks=False)
        self.assertEqual(differences(before, attributes()), {("torch.amp.grad_scaler.GradScaler", "scale")})
        train(self.model, self.optimizer, deck)
        self.assertEqual(differences(before, attributes()), set())


class Seen(Process):
    """Functions that were imported by name before the model was watched."""

    def test_clipping(self):
        deck = self.watch()
        train(self.model, self.optimizer, deck, clip=True)
        deck.finish()
        self.assertEqual((self.note("loop")["clipping"]["kind"], self.note("loop")["clipping"]["calls"]), ("norm", 6))

    def test_labels(self):
        for name, loss in (("cross_entropy", cross_entropy),
                           ("mean squares", lambda output, y: mse_loss(output, F.one_hot(y, 3).float())),
                           ("smoothed", lambda output, y: cross_entropy(output, y, label_smoothing=0.1)),
                           ("weighted sum", lambda output, y: 0.3 * output.square().mean() + cross_entropy(output, y))):
            with self.subTest(name):
                x, y = data()
                model = network()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                deck = tapedeck.watch(model, f"{self.folder}/{name}", optimizer=optimizer)
                for _ in range(4):
                    x = x[torch.randperm(len(x))]
                    for i in range(0, len(x), 16):
                        optimizer.zero_grad()
                        loss(model(x[i : i + 16]), y[i : i + 16]).backward()
                        optimizer.step()
                deck.finish()
                found = {finding.cause for finding in tapedeck.Run(deck.folder).diagnose().findings}
                self.assertIn("labels_shuffled", found)

    def test_the_scaler(self):
        deck = self.watch()
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        train(self.model, self.optimizer, deck, epochs=2, scaler=scaler, clip=True)
        deck.finish()
        loop = self.note("loop")
        self.assertEqual((loop["scaler"]["calls"], loop["scaler"]["skipped"], loop["clipping"]["scaled"]), (12, 0, 12))


class Unchanged(Process):
    """What a program computes while it is observed, bit for bit."""

    def test_evaluation_takes_the_fast_path(self):
        """PyTorch's attention has another kernel in evaluation, which it does not use while functions are observed."""
        outputs = []
        for watched in (False, True):
            torch.manual_seed(5)
            model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            x = torch.randn(8, 5, 16)
            if watched:
                deck = tapedeck.watch(model, f"{self.folder}/fast", optimizer=optimizer)
            for _ in range(3):
                model.train()
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
                model.eval()
                with torch.no_grad():
                    outputs.append(model(x))
            if watched:
                deck.finish()
        for plain, recorded in zip(outputs[:3], outputs[3:]):
            self.assertTrue(torch.equal(plain, recorded))

    def test_other_ways_to_compute(self):
        x, y = data()
        compiled = torch.compile(lambda output, target: F.cross_entropy(output, target) * 2, backend="eager")
        scripted = None

        def script(output, target):
            nonlocal scripted
            scripted = scripted or torch.jit.script(Loss())
            return scripted(output, target)

        def autocast(output, target):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return F.cross_entropy(output @ torch.eye(3), target)

        def vmapped(output, target):
            return torch.func.vmap(lambda o, t: F.cross_entropy(o[None], t[None]))(output, target).mean()

        def inference(output, target):
            with torch.inference_mode():
                F.cross_entropy(output, target)
            return F.cross_entropy(output, target)

        for name, loss in (("compile", compiled), ("script", script), ("autocast", autocast), ("vmap", vmapped),
                           ("inference", inference)):
            with self.subTest(name):
                weights = []
                for watched in (False, True):
                    model = network()
                    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
                    if watched:
                        deck = tapedeck.watch(model, f"{self.folder}/{name}", optimizer=optimizer)
                    for _ in range(4):
                        optimizer.zero_grad()
                        loss(model(x), y).backward()
                        clip_grad_value_(model.parameters(), 0.05)
                        clip_grad_norm_(model.parameters(), 0.1)
                        optimizer.step()
                        scheduler.step()
                    if watched:
                        deck.finish()
                        self.assertNotIn("loop_stopped", tapedeck.Run(deck.folder).notes)
                    weights.append([p.detach().clone() for p in model.parameters()])
                self.assertTrue(all(map(torch.equal, *weights)))


class Loss(nn.Module):
    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output, target)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    unittest.main()
