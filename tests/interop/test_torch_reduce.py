"""Statistics and histograms that PyTorch computes where a tensor is, against those of the library and NumPy. There is no other
device here: the same operations run on the CPU, on a switch."""

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
from torch.utils._python_dispatch import TorchDispatchMode

import tapedeck
from tapedeck import _native, _recording, _tensors, _torch_reduce

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import Case  # noqa: E402

torch.set_num_threads(1)
EXACT = "count, min, max, zeros, nan, inf"
WAITS = ("_local_scalar_dense", "nonzero", "bincount", "masked_select", "is_nonzero", "equal")


def forced():
    return mock.patch.object(_torch_reduce, "FORCED", True)


class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        self.names.append(function._schema.name.split("::")[1])
        return function(*arguments, **(named or {}))


def tensors():
    torch.manual_seed(3)
    n = 5000
    normal = torch.randn(n)
    odd = torch.cat([normal, torch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-45, -1e-45, 3e38, -3e38, 1e-38])])
    yield "normal", normal
    yield "odd", odd[torch.randperm(len(odd))]
    yield "square", torch.randn(70, 80).t()
    yield "constant", torch.full((n,), -2.5)
    yield "zeros", -torch.zeros(n)
    yield "bad", torch.full((n,), float("nan"))
    yield "far", normal + 1e6
    yield "tiny", normal * 1e-42
    for dtype in (torch.float16, torch.bfloat16):
        yield str(dtype), odd.to(dtype)
    yield "float64", odd.double()
    yield "wide", torch.cat([normal.double() * 1e300, normal.double() * 1e-300])
    yield "narrow", normal.double() * 1e-310
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool):
        yield str(dtype), torch.randint(0, 2 if dtype == torch.bool else 120, (n,)).to(dtype)
    yield "large", torch.randint(-2**62, 2**62, (n,))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 32))


class Reduce(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def rows(self, run, table, columns):
        with sqlite3.connect(os.path.join(run, "run.db")) as database:
            found = database.execute(f"select signal.name, step, {columns} from {table} join signal on signal.id = {table}.signal")
            return {row[:2]: row[2:] for row in found}

    def test_every_type_has_the_bins_and_statistics_of_the_library(self):
        runs = []
        for name in ("host", "device"):
            with tapedeck.Deck(self.path(name)) as deck:
                deck.track("*", form="stats,histogram", to="sqlite")
                recording = _recording.Recording(deck, "")
                for label, tensor in tensors():
                    signal = recording.declare(label, kind="output")
                    if name == "host":
                        _tensors.put(signal, tensor)
                    else:
                        with forced():
                            recording.put(signal, tensor)
                self.assertEqual(sum(map(len, recording.reductions.waiting.values())), 0 if name == "host" else len(list(tensors())))
                recording.put_waiting()
                deck.step()
                runs.append(deck.folder)
        for table, columns in (("stats", EXACT), ("stats", "first_nonfinite"), ("histogram", "bins")):
            host, device = (self.rows(run, table, columns) for run in runs)
            self.assertGreater(len(host), 15)
            for key in host:
                self.assertEqual(host[key], device[key], (key, columns))
        host, device = (self.rows(run, "stats", "mean, std, norm") for run in runs)
        for (label, _), values in host.items():
            tensor = dict(tensors())[label].double()
            kept = tensor[tensor.isfinite()].numpy().astype(np.longdouble)
            expected = (kept.mean(), kept.std(), np.sqrt((kept**2).sum())) if len(kept) else (None,) * 3
            for library, here, exact in zip(values, device[label, 1], expected):
                if exact is None:
                    self.assertEqual((library, here), (None, None))
                    continue
                size = max(1e-300, float(np.abs(kept).max()))
                self.assertLessEqual(abs(here - float(exact)), 1e-9 * size * max(1, len(kept) ** 0.5), label)
                self.assertLessEqual(abs(here - library), 1e-5 * size * len(kept) ** 0.5, label)

    def test_chunks_are_one_tensor(self):
        tensor = torch.randn(5000)
        tensor[4321] = float("inf")
        whole = _torch_reduce.reduce(tensor, True)
        with mock.patch.object(_torch_reduce, "_CHUNK", 999):
            parts = _torch_reduce.reduce(tensor, True)
        self.assertTrue(torch.equal(whole[:4096 + 8], parts[:4096 + 8]))
        self.assertTrue(torch.allclose(whole[4104:].view(torch.float64), parts[4104:].view(torch.float64), rtol=1e-12))

    def test_nothing_waits_for_the_device(self):
        with Operations() as operations:
            _torch_reduce.reduce(torch.randn(3000), True)
            _torch_reduce.reduce(torch.randint(0, 9, (3000,)), True)
            _torch_reduce.reduce(torch.randn(3000).double(), False)
        self.assertIn("scatter_add_", operations.names)
        self.assertEqual([name for name in operations.names if name in WAITS], [])

    def train(self, name, form, records=True, switch=True):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        generator = torch.Generator().manual_seed(1)
        with mock.patch.object(_torch_reduce, "FORCED", switch):
            deck = tapedeck.watch(model, self.path(name), optimizer=optimizer, every=1, log="all", form=form) if records else None
            for _ in range(3):
                x, y = torch.randn(40, 64, generator=generator), torch.randint(0, 32, (40,), generator=generator)
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            if records:
                deck.finish()
        return deck and deck.folder, [p.detach().clone() for p in model.parameters()]

    def test_a_training_is_recorded_so_and_stays_the_same(self):
        with mock.patch.object(_torch_reduce.Reductions, "_copy", autospec=True, side_effect=_torch_reduce.Reductions._copy) as copies:
            device, weights = self.train("device", "stats,histogram")
            self.assertEqual(copies.call_count, 3)  # one for each step
            self.assertGreater(len(copies.call_args.args[2]), 8)
        host, same = self.train("host", "stats,histogram", switch=False)
        _, bare = self.train("bare", "", records=False)
        for a, b, c in zip(weights, same, bare):
            self.assertTrue(torch.equal(a, b) and torch.equal(a, c))
        for table, columns in (("stats", EXACT), ("histogram", "bins")):
            expected = self.rows(host, table, columns)
            self.assertGreater(len(expected), 60)
            self.assertEqual(self.rows(device, table, columns), expected)
        expected = self.rows(host, "stats", "mean, std, norm")
        for key, values in self.rows(device, "stats", "mean, std, norm").items():
            np.testing.assert_allclose(values, expected[key], rtol=1e-5, atol=1e-6, err_msg=str(key))

    def test_forms_that_need_elements_copy_them(self):
        device, _ = self.train("device", "tensor,stats")
        host, _ = self.train("host", "tensor,stats", switch=False)
        for name in ("0.output", "0.weight.gradient", "0.weight.update"):
            self.assertTrue(np.array_equal(np.load(os.path.join(device, f"{name}.npy")), np.load(os.path.join(host, f"{name}.npy"))))
        self.assertEqual(self.rows(device, "stats", "mean, std, norm"), self.rows(host, "stats", "mean, std, norm"))

    def test_a_summary_that_contradicts_itself_is_refused(self):
        with tapedeck.Deck(self.path("run")) as deck:
            deck.track("*", form="histogram", to="sqlite")
            signal = deck._native.signal("x", kind="output")
            good = ("float32", (2,), (2, 0, 0, 0, -1), (1.0, 0.0, 1.0, 1.0, 2.0**0.5))
            table = np.zeros(4096, np.int32)
            table[127 << 3] = 1
            for bad in (table.tobytes(), None):
                with self.assertRaises(tapedeck.Error):
                    signal.put_summary(*good, bad, False)
            table[127 << 3] = 2
            signal.put_summary(*good, table.tobytes(), False)
            deck.step()
            with self.assertRaises(tapedeck.Error):
                deck.flush()  # the first error is kept
        self.assertEqual(self.rows(deck.folder, "stats", "count, mean"), {("x", 1): (2, 1.0)})


if __name__ == "__main__":
    unittest.main()
