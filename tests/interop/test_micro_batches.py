"""Steps that accumulate several micro-batches in PyTorch: statistics over all of them, and the gradient noise scale, against
NumPy in double precision."""

import os
import sqlite3
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import tapedeck
from tapedeck import _torch_reduce

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import Case  # noqa: E402

torch.set_num_threads(1)
SIZES = (16, 16, 10)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 300), nn.Tanh(), nn.Linear(300, 5))


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(F.relu(self.attention(x, x, x)[0]).mean(1))


def batches(steps, shape=(20,)):
    generator = torch.Generator().manual_seed(1)
    return [[(torch.randn(n, *shape, generator=generator), torch.randint(0, 5, (n,), generator=generator)) for n in SIZES]
            for _ in range(steps)]


class MicroBatches(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def rows(self, deck, table, columns):
        with sqlite3.connect(os.path.join(deck.folder, "run.db")) as database:
            return {row[:2]: row[2:] for row in database.execute(
                f"select signal.name, step, {columns} from {table} join signal on signal.id = {table}.signal")}

    def train(self, name, tracks=(), model=None, shape=(20,), scale=1.0, clip=None, watched=None, steps=3, optimizer=None, divide=True):
        """Returns the deck, weights, and what each step's micro-batches put out and added, as hooks of our own see it."""
        model = model or network()
        optimizer = (optimizer or torch.optim.SGD)(model.parameters(), lr=0.1)
        deck = None
        if watched is not None:
            deck = tapedeck.watch(model, self.path(name), optimizer=optimizer, **{"every": 1, "log": "", **watched})
            for track in tracks:
                deck.track(**track)
        seen = []
        for micro in batches(steps, shape):
            optimizer.zero_grad()
            outputs, errors, gradients = [], [], []
            for x, y in micro:
                before = {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}
                y_hat = model(x)
                outputs.append(y_hat.detach().clone())
                y_hat.register_hook(lambda g: errors.append(g.clone() / scale))
                loss = F.cross_entropy(y_hat, y) / (len(SIZES) if divide else 1)
                (loss * scale).backward()
                gradients.append({n: (p.grad - before[n]).double() / scale for n, p in model.named_parameters()})
            if scale != 1:
                for p in model.parameters():
                    p.grad /= scale
            whole = {n: p.grad.double().clone() for n, p in model.named_parameters()}
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            seen.append((outputs, errors, gradients, whole))
        if deck:
            deck.finish()
        return deck, [p.detach().clone() for p in model.parameters()], seen

    def check_stats(self, row, tensors, message):
        values = np.concatenate([t.numpy().ravel() for t in tensors]).astype(np.float64)
        count, mean, std, least, most, norm, zeros = row
        self.assertEqual((count, least, most, zeros), (values.size, values.min(), values.max(), (values == 0).sum()), message)
        np.testing.assert_allclose((mean, std, norm), (values.mean(), values.std(), np.linalg.norm(values)), rtol=1e-5,
                                   atol=1e-6 * np.abs(values).max(), err_msg=str(message))

    def test_statistics_are_over_all_micro_batches(self):
        for where in (False, True):
            with mock.patch.object(_torch_reduce, "FORCED", where):
                deck, weights, seen = self.train(f"run{where}", [{"what": "*.micro_gradient", "form": "stats", "to": "sqlite"}],
                                                 watched={"log": "all", "form": "stats,histogram"})
            _, bare, _ = self.train("bare")
            self.assertTrue(all(map(torch.equal, weights, bare)))
            stats = self.rows(deck, "stats", "count, mean, std, min, max, norm, zeros")
            for step, (outputs, errors, gradients, _) in enumerate(seen, 1):
                self.check_stats(stats["2.output", step], outputs, "output")
                self.check_stats(stats["2.error", step], errors, "error")
                self.assertEqual(stats["0.output", step][0], sum(SIZES) * 300)
            names = [name for name, _ in network().named_parameters()]
            self.assertEqual(len([key for key in stats if key[0].endswith(".micro_gradient")]), 3 * len(names))
            for name in names:
                row = stats[f"{name}.micro_gradient", 1]
                self.assertEqual(row[0], len(SIZES) * dict(network().named_parameters())[name].numel())
                norms = np.sqrt(sum(float(g[name].square().sum()) for g in seen[0][2]))
                self.assertAlmostEqual(row[5] / norms, 1, places=5)
            histograms = self.rows(deck, "histogram", "bins")
            with tapedeck.Deck(self.path(f"whole{where}")) as whole:
                whole.track("*", form="histogram", to="sqlite")
                for outputs, errors, _, _ in seen:
                    whole.record("2.output", torch.cat(outputs))
                    whole.record("2.error", torch.cat(errors))
                    whole.step()
            for key, value in self.rows(whole, "histogram", "bins").items():
                self.assertEqual(histograms[key], value, key)
            self.assertIn("over all micro-batches", tapedeck.Run(deck.folder).notes["micro_batches"])

    def test_tensors_are_those_of_the_first(self):
        deck, _, seen = self.train("run", watched={"log": "outputs,errors", "form": "tensor,stats"})
        for name, which in (("2.output", 0), ("2.error", 1)):
            self.assertTrue(np.array_equal(tapedeck.Run(deck.folder)[name].at(2), seen[1][which][0].numpy()))
            self.check_stats(self.rows(deck, "stats", "count, mean, std, min, max, norm, zeros")[name, 2], seen[1][which], name)

    def test_conditions_see_all_micro_batches(self):
        _, _, seen = self.train("bare")
        largest = [float(torch.cat(outputs).max()) for outputs, *_ in seen]
        limit = max(largest) - 1e-6
        deck, *_ = self.train("run", [{"what": "2.output", "when": f"\"2.output.max\" > {limit}", "form": "stats", "to": "sqlite"}], watched={})
        self.assertEqual([step for _, step in self.rows(deck, "stats", "max")], [1 + largest.index(max(largest))])

    def test_attention_functions_and_rows_of_losses(self):
        torch.manual_seed(0)
        tracks = [{"what": "*.entropy,loss.rows", "form": "stats", "to": "sqlite"}]
        deck, *_ = self.train("run", tracks, Attending(), (6, 16), watched={"log": "outputs", "form": "stats", "functions": True})
        counts = {name: count for (name, step), (count,) in self.rows(deck, "stats", "count").items() if step == 2}
        self.assertEqual(counts["attention.entropy"], 2 * sum(SIZES))
        self.assertEqual(counts["loss.rows"], sum(SIZES))
        self.assertEqual(counts["model/relu.output"], 6 * 16 * sum(SIZES))
        self.assertFalse([name for name in counts if "@" in name], counts)

    def test_a_closure_that_is_evaluated_again_is_no_micro_batch(self):
        model = network()
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
        deck = tapedeck.watch(model, self.path("lbfgs"), optimizer=optimizer, every=1, form="stats")
        x, y = batches(1)[0][0]
        calls = []

        def closure():
            calls.append(1)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)
        deck.finish()
        self.assertGreater(len(calls), 1)
        self.assertEqual(self.rows(deck, "stats", "count")["2.output", 1], (16 * 5,))

    def scalars(self, deck):
        return {key: value for key, (value,) in self.rows(deck, "scalar", "value").items()}

    def test_the_noise_scale_is_that_of_numpy(self):
        tracks = [{"what": "gradient_noise_scale,gradient_variance,gradient_square", "to": "sqlite"}]
        for options in ({}, {"clip": 0.01}, {"divide": False}):
            deck, weights, seen = self.train("run", tracks, watched={"log": ""}, **options)
            _, bare, _ = self.train("bare", **options)
            self.assertTrue(all(map(torch.equal, weights, bare)))
            found = self.scalars(deck)
            for step, (_, _, gradients, whole) in enumerate(seen, 1):
                n = len(SIZES)
                flat = [np.concatenate([g.numpy().ravel() for g in each.values()]) for each in gradients]
                big = np.square(np.concatenate([g.numpy().ravel() for g in whole.values()])).sum()
                small = np.mean([np.square(n * each).sum() for each in flat])
                of_one = np.mean([1 / size for size in SIZES])  # equal sizes: the paper's 1/B_small
                variance = (small - big) / (of_one - of_one / n)
                square = big - variance * of_one / n
                np.testing.assert_allclose(found["gradient_variance", step], variance, rtol=1e-5)
                np.testing.assert_allclose(found["gradient_square", step], square, rtol=1e-4)
                if square > 0:
                    np.testing.assert_allclose(found["gradient_noise_scale", step], variance / square, rtol=1e-4)

    def test_equal_micro_batches_give_the_formula_of_the_paper(self):
        from tapedeck._torch_micro import noise

        small, big, b, n = 5.0, 3.0, 8, 4
        B = n * b
        square = (B * big - b * small) / (B - b)
        variance = (small - big) / (1 / b - 1 / B)
        np.testing.assert_allclose(noise([small / n**2] * n, big, [b] * n), (variance, square), rtol=1e-12)

    def test_what_has_no_noise_scale_says_why(self):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = tapedeck.watch(model, self.path("single"), optimizer=optimizer, every=1, log="")
        deck.track("gradient_noise_scale", to="sqlite")
        for micro in batches(2):
            optimizer.zero_grad()
            F.cross_entropy(model(micro[0][0]), micro[0][1]).backward()
            optimizer.step()
        deck.finish()
        self.assertIn("two micro-batches", tapedeck.Run(deck.folder).notes["gradient_noise_scale"])

    def test_a_run_without_such_tracks_has_no_hooks(self):
        deck, *_ = self.train("run", watched={"log": "all", "form": "stats"})
        self.assertFalse([key for key in self.rows(deck, "stats", "count") if "micro" in key[0]])
        self.assertNotIn(("gradient_noise_scale", 1), self.scalars(deck))


if __name__ == "__main__":
    unittest.main()
