"""The operation that made the first number of a PyTorch loss that is not finite: which, behind which layer, in which row."""

import json
import os
import subprocess
import tempfile
import unittest

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn

import tapedeck

torch.set_num_threads(1)


class Layers(nn.Module):
    """Two layers with something between them, and before and after."""

    def __init__(self, between=torch.relu, before=None, after=None):
        super().__init__()
        self.first, self.second = nn.Linear(6, 12), nn.Linear(12, 3)
        self.between, self.before, self.after = between, before, after

    def forward(self, x):
        x = self.before(x) if self.before else x
        x = self.second(self.between(self.first(x)))
        return self.after(x) if self.after else x


def unit(h):
    """A vector of length 1; rows that relu sets to 0 everywhere have none."""
    h = F.relu(h - 100 * (torch.arange(len(h)) == 3)[:, None])
    return h / h.norm(dim=1, keepdim=True)


def root_of_nothing(h):
    """Its value is finite, its gradient is not."""
    return h + torch.sqrt((h - h.detach()) ** 2)


def masked(h):
    """Scores of minus infinity that a softmax takes are no fault; the logarithm of what it makes of them is."""
    scores = h.masked_fill(torch.arange(12) == 5, float("-inf"))
    return h * torch.log(torch.softmax(scores, 1))


def all_masked(h):
    """In row 3 nothing is left for the softmax."""
    return h * torch.softmax(h.masked_fill((torch.arange(len(h)) == 3)[:, None], float("-inf")), 1)


class Inverse(torch.autograd.Function):
    """A gradient of the user's, which divides by 0."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient / 0.0


def squares_with_a_bad_label(out, y):
    return (out[:, 0] - torch.where(torch.arange(len(y)) == 2, float("nan"), 1.0)).pow(2).mean()


def computed_again(h):
    return torch.utils.checkpoint.checkpoint(lambda x: torch.exp(x * 1e4), h, use_reentrant=True)


def no_labels(out, y):
    return F.cross_entropy(out, torch.full_like(y, -100))


def bad_from_the_start(model):
    with torch.no_grad():
        model.first.weight[0, 0] = float("nan")


def huge(model):
    nn.init.constant_(model.second.weight, 3e38)


def nothing(model):
    pass


def squared_logarithms(out, y):
    return (torch.log(out[:, 0] - 100) ** 2).mean()


ENTROPY = F.cross_entropy
# Model, loss, what is done to the model: cause, and the origin's cause, layer and row, and a word of the sentence.
CASES = {
    "exp": (lambda: Layers(lambda h: torch.exp(h * 1e4)), ENTROPY, nothing, "overflow", "layer", "first", 0, "exp"),
    "norm": (lambda: Layers(unit), ENTROPY, nothing, "division_by_zero", "layer", "first", 3, "div of 0"),
    "masked": (lambda: Layers(masked), ENTROPY, nothing, "division_by_zero", "layer", "first", 0, "log of 0"),
    "deviation": (lambda: Layers(before=lambda x: (x - x.mean(0)) / x.std(0)), ENTROPY, nothing, "division_by_zero", "layer", "first",
                  0, "every row of column 3"),
    "linear": (Layers, ENTROPY, huge, "overflow", "layer", "second", 0, "second puts out"),
    "loss": (Layers, squared_logarithms, nothing, "division_by_zero", "loss", "second", 0, "log of -"),
    "gradient": (lambda: Layers(root_of_nothing), ENTROPY, nothing, "division_by_zero", "layer", "first", None, "sqrt"),
    "mask": (lambda: Layers(all_masked), ENTROPY, nothing, "division_by_zero", "layer", "first", 3, "softmax"),
    "custom": (lambda: Layers(Inverse.apply), ENTROPY, nothing, "division_by_zero", "layer", "first", None, "inverse"),
    "label": (Layers, squares_with_a_bad_label, nothing, "nonfinite_label", "label", None, 2, "label"),
    "checkpoint": (lambda: Layers(computed_again), ENTROPY, nothing, "overflow", "layer", "first", 0, "behind first"),
    "ignored": (Layers, no_labels, nothing, "division_by_zero", "loss", "second", None, "nllloss"),
    "start": (Layers, ENTROPY, bad_from_the_start, "nonfinite_weights", "parameter", None, None, "before the first update"),
    "weights": (Layers, ENTROPY, lambda model: nn.init.constant_(model.first.bias, float("nan")), "nonfinite_weights", "parameter", None,
                None, "first.bias"),
}


class NanOrigins(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def train(self, name, model, loss_of, steps=6):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        with tapedeck.watch(model, os.path.join(self.folder.name, name), optimizer=optimizer, every=2) as deck:
            for _ in range(steps):
                x, y = torch.rand(8, 6) + 0.5, torch.randint(0, 3, (8,))
                x[:, 2] = 1  # a column without deviation
                optimizer.zero_grad()
                loss = loss_of(model(x), y)
                loss.backward()
                optimizer.step()
                deck.log(loss=float(loss.detach()))
                deck.step()
        out = subprocess.run([os.environ["TAPEDECK"], "diagnose", deck.folder, "--json"], capture_output=True, text=True, timeout=60)
        found = json.loads(out.stdout)
        self.assertNotIn("facts about the loop end", " ".join(found["notes"]))
        return found["findings"], out.returncode

    def test_the_operation_is_named(self):
        for name, (model, loss_of, change, cause, *origin, word) in CASES.items():
            with self.subTest(name):
                torch.manual_seed(1)
                model = model()
                with torch.no_grad():
                    change(model)
                found, status = self.train(name, model, loss_of)
                first = found[0]
                self.assertEqual((first["cause"], status), (cause, 1), found)
                self.assertEqual([first["origin"][key] for key in ("cause", "layer", "row")], origin)
                self.assertIn(word, " ".join(e["text"] for e in first["evidence"]))

    def test_a_state_that_explodes_names_its_layer(self):
        torch.manual_seed(1)

        class Recurrent(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn, self.out = nn.RNN(6, 12, nonlinearity="relu", batch_first=True), nn.Linear(12, 3)
                nn.init.eye_(self.rnn.weight_hh_l0).mul_(30)

            def forward(self, x):
                return self.out(self.rnn(x[:, None].expand(-1, 60, -1))[0][:, -1])

        with torch.no_grad():
            model = Recurrent()
        found, status = self.train("recurrent", model, ENTROPY)
        self.assertEqual((found[0]["origin"]["cause"], found[0]["origin"]["layer"], status), ("layer", "rnn", 1))

    def test_a_mask_is_no_fault(self):
        torch.manual_seed(1)
        found, status = self.train("sound", Layers(lambda h: torch.softmax(h.masked_fill(torch.arange(12) == 5, float("-inf")), 1)), ENTROPY)
        self.assertEqual((found, status), ([], 0))


if __name__ == "__main__":
    unittest.main()
