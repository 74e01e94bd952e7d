"""gradient_norm.rows against gradients that are computed one example at a time, in double precision."""

import copy
import os
import sqlite3
import sys
import tempfile
import unittest

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import tapedeck

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import Case  # noqa: E402

torch.set_num_threads(1)


class Words(nn.Module):
    """An embedding with padding, a layer that is called twice, positions, and one that is not counted."""

    def __init__(self, length):
        super().__init__()
        self.length = length
        self.embedding = nn.Embedding(30, 8, padding_idx=0)
        self.mix = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 4, bias=False)

    def forward(self, x):
        x = self.embedding(x)
        x = torch.tanh(self.mix(x)) + torch.tanh(self.mix(2 * x))
        return self.head(self.norm(x).mean(1))


def dense(length):
    return nn.Sequential(nn.Linear(6, 40), nn.ReLU(inplace=True), nn.Linear(40, 4))


def expected(model, x, y, count):
    """Norms of the examples' parts of the gradient, over Linear and Embedding layers."""
    model = copy.deepcopy(model).double()
    parameters = [p for module in model.modules() if isinstance(module, (nn.Linear, nn.Embedding)) for p in module.parameters(recurse=False)]
    found = []
    for i in range(len(x)):
        value = x[i:i + 1] if x.dtype == torch.int64 else x[i:i + 1].double()
        loss = F.cross_entropy(model(value), y[i:i + 1]) / count
        found.append(np.sqrt(sum(float(g.square().sum()) for g in torch.autograd.grad(loss, parameters))))
    return np.array(found)


class Examples(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def train(self, name, make, length, watched=True, scaler=None):
        torch.manual_seed(0)
        model = make(length)
        if make is dense:
            data = torch.randn(24, 6)
        else:
            data = torch.randint(0, 30, (24, length))
        labels = torch.randint(0, 4, (24,))
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(24), data, labels), batch_size=8, shuffle=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = None
        if watched:
            deck = tapedeck.watch(model, os.path.join(self.folder.name, name), optimizer=optimizer, every=1, log="")
            deck.track("gradient_norm.rows", every=1, form="rows,stats", to="sqlite")
            deck.track("gradient_norm.rows", every=1, form="tensor", to="npy")
        steps = []
        for rows, x, y in loader:
            optimizer.zero_grad()
            if watched:
                steps.append((rows.tolist(), expected(model, x, y, len(x))))
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        if deck:
            deck.finish()
        return deck, steps, [p.detach().clone() for p in model.parameters()]

    def test_they_are_those_of_one_example_at_a_time(self):
        for name, make, length in (("dense", dense, 1), ("short", Words, 3), ("long", Words, 40)):
            deck, steps, weights = self.train(name, make, length)
            _, _, bare = self.train("bare", make, length, watched=False)
            self.assertTrue(all(map(torch.equal, weights, bare)), name)
            recorded = np.load(os.path.join(deck.folder, "gradient_norm.rows.npy"))
            self.assertEqual(recorded.shape, (3, 8))
            for values, (_, norms) in zip(recorded, steps):
                np.testing.assert_allclose(values, norms, rtol=1e-5, atol=1e-8, err_msg=name)
            self.assertEqual("gradient_norm" in tapedeck.Run(deck.folder).notes, make is Words)

    def test_rows_have_the_numbers_that_the_sampler_drew(self):
        deck, steps, _ = self.train("dense", dense, 1)
        table = tapedeck.Run(deck.folder).to_arrow("rows", "gradient_norm.rows")
        try:
            import pyarrow
        except ImportError:
            self.skipTest("pyarrow")
        table = pyarrow.table(table).to_pydict()
        found = {(step, sample): value[0] for step, sample, value in zip(table["step"], table["sample"], table["value"])}
        for step, (rows, norms) in enumerate(steps, 1):
            for row, norm in zip(rows, norms):
                self.assertAlmostEqual(found[step, row] / norm, 1, places=4)

    def test_tied_weights_and_other_axes_are_reported(self):
        torch.manual_seed(0)
        model = Words(5)
        model.head.weight = model.mix.weight
        model.mix.bias = None
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = tapedeck.watch(model, os.path.join(self.folder.name, "tied"), optimizer=optimizer, every=1, log="")
        deck.track("gradient_norm.rows", form="stats", to="sqlite")
        F.cross_entropy(model(torch.randint(0, 30, (6, 5))), torch.randint(0, 4, (6,))).backward()
        optimizer.step()
        deck.finish()
        self.assertIn("1 of 4 trained parameters", tapedeck.Run(deck.folder).notes["gradient_norm"])

        class Flat(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(6, 4)

            def forward(self, x):  # (examples, positions, features), flattened
                return self.layer(x.reshape(-1, 6)).reshape(len(x), -1, 4).mean(1)

        model = Flat()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with self.assertWarnsRegex(UserWarning, "first axis"):
            deck = tapedeck.watch(model, os.path.join(self.folder.name, "flat"), optimizer=optimizer, every=1, log="")
            deck.track("gradient_norm.rows", form="stats", to="sqlite")
            F.cross_entropy(model(torch.randn(6, 5, 6)), torch.randint(0, 4, (6,))).backward()
            optimizer.step()
            deck.finish()

    def test_micro_batches_are_merged(self):
        torch.manual_seed(0)
        model = dense(1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = tapedeck.watch(model, os.path.join(self.folder.name, "micro"), optimizer=optimizer, every=1, log="")
        deck.track("gradient_norm.rows", form="stats", to="sqlite")
        norms = []
        for n in (8, 5):
            x, y = torch.randn(n, 6), torch.randint(0, 4, (n,))
            norms.append(expected(model, x, y, n))
            F.cross_entropy(model(x), y).backward()
        optimizer.step()
        deck.finish()
        with sqlite3.connect(os.path.join(deck.folder, "run.db")) as database:
            count, mean, most = database.execute("select count, mean, max from stats join signal on signal.id = stats.signal where "
                                                 "signal.name = 'gradient_norm.rows'").fetchone()
        norms = np.concatenate(norms)
        self.assertEqual(count, 13)
        np.testing.assert_allclose((mean, most), (norms.mean(), norms.max()), rtol=1e-5)


if __name__ == "__main__":
    unittest.main()
