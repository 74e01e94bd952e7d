"""Trainings that torch.compile has compiled, recorded within their graph: the same bits, the same code, in every step."""

import copy
import os
import sqlite3
import sys
import tempfile
import unittest

import numpy as np
import torch
import torch._dynamo
import torch._dynamo.utils
import torch.nn.functional as F
from torch import nn

import tapedeck
from tapedeck import _torch_compiled

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import Case  # noqa: E402

torch.set_num_threads(1)


class Perceptron(nn.Module):
    shape, classes = (20,), 5

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 64), nn.ReLU(inplace=True), nn.Linear(64, 5))

    def forward(self, x):
        return self.layers(x)


class Convolutions(nn.Module):
    shape, classes = (3, 8, 8), 4

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.norm2 = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = self.relu(self.norm1(self.conv1(x)))
        x = x + self.norm2(self.conv2(x))
        return self.head(x.mean((2, 3)))


class Transformer(nn.Module):
    shape, classes, depth = (6, 16), 3, 1

    def __init__(self):
        super().__init__()
        block = lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True, norm_first=True)  # noqa: E731
        self.blocks = nn.ModuleList([block() for _ in range(self.depth)])
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class Deep(Transformer):
    depth = 2


def batches(kind, sizes):
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(n, *kind.shape, generator=generator), torch.randint(0, kind.classes, (n,), generator=generator)) for n in sizes]


def compilations():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


class Compiled(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(lambda: [each.remove() for each in list(_torch_compiled._records.values())])
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def train(self, kind, name=None, sizes=(16,) * 6, every=2, evaluates=False, micro=1, dynamic=None, form="tensor", tracks=(),
              backend="inductor", **options):
        """Losses, weights and how many graphs there were after each step."""
        torch.manual_seed(0)
        model = kind()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        compiled = torch.compile(model, fullgraph=True, dynamic=dynamic, backend=backend)
        deck = None
        if name:
            deck = tapedeck.watch(compiled, self.path(name), optimizer=optimizer, every=every, form=form, **{"compiled": True, **options})
            for track in tracks:
                deck.track(**track)
        losses, graphs = [], []
        torch.manual_seed(1)
        for i, (x, y) in enumerate(batches(kind, sizes)):
            if i % micro == 0:
                optimizer.zero_grad()
            loss = F.cross_entropy(compiled(x), y)
            loss.backward()
            losses.append(loss.item())
            if i % micro == micro - 1:
                optimizer.step()
            if evaluates:
                compiled.eval()
                with torch.no_grad():
                    losses.append(F.cross_entropy(compiled(x), y).item())
                compiled.train()
            graphs.append(compilations())
        if deck:
            deck.finish()
        return deck, losses, copy.deepcopy(model.state_dict()), graphs

    def test_training_is_the_same_and_compiled_once(self):
        for kind, backend in ((Perceptron, "aot_eager"), (Convolutions, "inductor"), (Transformer, "inductor")):
            torch._dynamo.reset()
            torch._dynamo.utils.counters.clear()
            _, losses, weights, _ = self.train(kind, backend=backend)
            torch._dynamo.reset()
            torch._dynamo.utils.counters.clear()
            deck, same, also, graphs = self.train(kind, kind.__name__, backend=backend)
            self.assertEqual(losses, same, kind)
            self.assertTrue(all(torch.equal(weights[key], also[key]) for key in weights), kind)
            self.assertEqual(graphs, [1] * 6, kind)
            self.assertFalse(torch._dynamo.utils.counters["graph_break"], kind)
            run = tapedeck.Run(deck.folder)
            self.assertFalse([note for note in run.notes if note.startswith("not_recorded")], run.notes)
            self.assertEqual(run.notes["compiled"], "steps that are recorded are compiled")

    def test_there_is_no_graph_break(self):
        for kind in (Perceptron, Convolutions, Deep):
            torch._dynamo.reset()
            model = kind()
            deck = tapedeck.watch(model, self.path("explained"), every=1, compiled=True, loop_checks=False)
            found = torch._dynamo.explain(model)(batches(kind, (4,))[0][0])
            self.assertEqual((found.graph_break_count, found.graph_count), (0, 1))
            targets = [str(node.target) for graph in found.graphs for node in graph.graph.nodes]
            self.assertTrue([target for target in targets if "autograd" in target.lower() or "record" in target], targets)
            deck.finish()

    def test_values_are_those_of_the_eager_model(self):
        for kind, layers in ((Perceptron, ["layers.0", "layers.1", "layers.2"]), (Convolutions, ["conv1", "norm1", "relu", "conv2", "norm2", "head"])):
            deck, *_ = self.train(kind, "inside", every=1)
            eager, *_ = self.train(kind, "eager", every=1, compiled=False)
            run, other = tapedeck.Run(deck.folder), tapedeck.Run(eager.folder)
            self.assertEqual(sorted(s for s in run if s.endswith((".output", ".error"))), sorted(s for s in other if s.endswith((".output", ".error"))))
            for layer in layers:
                for word in ("output", "error"):
                    name = f"{layer}.{word}"
                    for step in (1, 3, 6):
                        np.testing.assert_allclose(run[name].at(step), other[name].at(step), rtol=1e-3, atol=1e-5, err_msg=f"{name} {step}")
            for name in ("head.weight", "head.weight.gradient", "head.weight.update") if kind is Convolutions else ():
                np.testing.assert_allclose(run[name].at(5), other[name].at(5), rtol=1e-3, atol=1e-5)

    def test_a_block_has_an_output_of_its_own_and_a_container_has_not(self):
        deck, *_ = self.train(Deep, "blocks", every=1, form="stats", backend="aot_eager")
        names = set(tapedeck.Run(deck.folder))
        self.assertLessEqual({"blocks.0.output", "blocks.1.error", "blocks.0.linear1.output", "head.error"}, names)
        deck, *_ = self.train(Perceptron, "container", every=1, form="stats", backend="aot_eager")
        self.assertNotIn("layers.output", set(tapedeck.Run(deck.folder)))

    def test_dynamic_batches_and_evaluation(self):
        sizes = (16, 12, 16, 9, 12, 16)
        for kind, backend in ((Perceptron, "inductor"), (Convolutions, "aot_eager")):  # kernels take a second each to build
            torch._dynamo.reset()
            torch._dynamo.utils.counters.clear()
            _, losses, weights, bare = self.train(kind, sizes=sizes, evaluates=True, dynamic=True, backend=backend)
            torch._dynamo.reset()
            torch._dynamo.utils.counters.clear()
            deck, same, also, graphs = self.train(kind, "dynamic", sizes=sizes, evaluates=True, dynamic=True, form="stats", backend=backend)
            self.assertEqual((losses, bare), (same, graphs))
            self.assertTrue(all(torch.equal(weights[key], also[key]) for key in weights))
            with sqlite3.connect(os.path.join(deck.folder, "run.db")) as database:
                name = "head.error" if kind is Convolutions else "layers.2.error"
                counts = database.execute("select step, count from stats join signal on signal.id = stats.signal where name = ? order by step", [name])
                self.assertEqual(counts.fetchall(), [(step, rows * kind.classes) for step, rows in ((2, 12), (4, 9), (6, 16))])

    def test_micro_batches(self):
        deck, _, _, graphs = self.train(Perceptron, "micro", micro=3, every=1, form="stats", backend="aot_eager", tracks=[{"what": "gradient_noise_scale,gradient_variance", "to": "sqlite"}])
        self.assertEqual(graphs[-1], 1)
        with sqlite3.connect(os.path.join(deck.folder, "run.db")) as database:
            counts = dict(database.execute("select name, count from stats join signal on signal.id = stats.signal where step = 2"))
            names = [name for name, in database.execute("select distinct name from scalar join signal on signal.id = scalar.signal")]
        self.assertEqual((counts["layers.2.output"], counts["layers.2.error"]), (3 * 16 * 5, 3 * 16 * 5))
        self.assertIn("gradient_variance", names)

    def test_another_model_of_the_class_stays_alone(self):
        torch.manual_seed(0)
        mine, other = Perceptron(), Perceptron()
        x, y = batches(Perceptron, (8,))[0]
        first = torch.compile(other, fullgraph=True, backend="aot_eager")
        optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
        compiled = torch.compile(mine, fullgraph=True, backend="aot_eager")
        deck = tapedeck.watch(compiled, self.path("mine"), optimizer=optimizer, every=1, form="tensor", compiled=True)
        expected = []
        for _ in range(3):
            F.cross_entropy(first(x), y).backward()
            optimizer.zero_grad()
            y_hat = compiled(x)
            expected.append(y_hat.detach().numpy().copy())
            F.cross_entropy(y_hat, y).backward()
            F.cross_entropy(torch.compile(copy.deepcopy(mine), fullgraph=True, backend="aot_eager")(x), y).backward()
            optimizer.step()
        deck.finish()
        run = tapedeck.Run(deck.folder)
        for step in (1, 2, 3):
            self.assertTrue(np.array_equal(run["layers.2.output"].at(step), expected[step - 1]))
        self.assertEqual(run["micro_batches"].values["value"].tolist(), [1.0] * 3)

    def test_a_module_that_is_called_twice_has_no_error(self):
        class Twice(Perceptron):
            def forward(self, x):
                return self.layers(x) + self.layers(-x)

        with self.assertWarnsRegex(UserWarning, "several times"):
            deck, *_ = self.train(Twice, "twice", every=1, backend="aot_eager")
        run = tapedeck.Run(deck.folder)
        self.assertLessEqual({"layers.0.output", "layers.0@1.output"}, set(run))
        self.assertNotIn("layers.0.error", set(run))

    def test_what_was_compiled_before_is_recorded_or_reported(self):
        torch.manual_seed(0)
        model = Perceptron()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        x, y = batches(Perceptron, (8,))[0]
        F.cross_entropy(compiled(x), y).backward()
        with self.assertWarnsRegex(UserWarning, "compiled before watch"):
            deck = tapedeck.watch(compiled, self.path("late"), optimizer=optimizer, every=1, form="tensor", compiled=True)
            for _ in range(3):
                optimizer.zero_grad()
                F.cross_entropy(compiled(x), y).backward()
                optimizer.step()
                deck.step()
            deck.finish()
        self.assertEqual(np.load(os.path.join(deck.folder, "layers.0.output.steps.npy")).tolist(), [2, 3])

    def test_afterwards_nothing_is_left(self):
        before = torch._dynamo.config.skip_nnmodule_hook_guards
        model = Perceptron()
        deck = tapedeck.watch(model, self.path("gone"), every=1, compiled=True)
        self.assertTrue(model.layers[0]._forward_hooks)
        twin = copy.deepcopy(model)
        self.assertIs(next(iter(twin.layers[0]._forward_hooks.values())), _torch_compiled._nothing)
        saved = self.path("saved.pt")
        torch.save(model, saved)
        x = batches(Perceptron, (4,))[0][0]
        self.assertTrue(torch.equal(torch.load(saved, weights_only=False)(x), model(x)))
        deck.finish()
        self.assertFalse(any(module._forward_hooks for module in model.modules()))
        self.assertEqual(torch._dynamo.config.skip_nnmodule_hook_guards, before)
        self.assertFalse(_torch_compiled._records)


if __name__ == "__main__":
    unittest.main()
