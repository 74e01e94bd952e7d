"""DeepSpeed's ZeRO: parts of parameters, gradients and updates, put together, are those of DDP. TD_DEEPSPEED: a Python that has
DeepSpeed 0.19 (`pip install deepspeed`), with which the three stages are trained; without it what they leave in the parameters
is imitated in one process."""

import os
import sqlite3
import subprocess
import tempfile
import types
import unittest
import warnings

import numpy as np
import torch

import tapedeck

TRAIN = """
import sys, torch, tapedeck, deepspeed, torch.distributed as dist
from torch import nn
out = sys.argv[1]
deepspeed.init_distributed("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
for stage in range(4):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(15, 33), nn.ReLU(), nn.Linear(33, 5))
    optimizer = torch.optim.SGD([{"params": [p for p in model.parameters() if p.ndim > 1], "lr": 0.1},
                                 {"params": [p for p in model.parameters() if p.ndim == 1], "lr": 0.05}], lr=0.1)
    if stage:
        engine, optimizer, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config={
            "train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": stage},
            "zero_allow_untested_optimizer": True})
    else:
        engine = nn.parallel.DistributedDataParallel(model)
    generator = torch.Generator().manual_seed(3)
    with tapedeck.watch(model, f"{out}/{stage}", optimizer=optimizer, every=1, form=["stats", "histogram"]) as deck:
        for _ in range(3):
            x, y = torch.randn(16, 15, generator=generator), torch.randn(16, 5, generator=generator)
            part = slice(rank * 16 // world, (rank + 1) * 16 // world)
            loss = ((engine(x[part]) - y[part]) ** 2).mean()
            if stage:
                engine.backward(loss)
                engine.step()
            else:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            deck.log(loss=loss.item())
            deck.step()
dist.destroy_process_group()
"""


class Imitation:
    """What the first stages leave in the parameters: of two groups, the part of one process in a flat buffer."""

    loss_scale = 4.0  # of gradients until the update

    def __init__(self, model):
        self.model = model
        groups = [[p for p in model.parameters() if p.ndim > 1], [p for p in model.parameters() if p.ndim == 1]]
        self.optimizer = torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(sum(p.numel() for p in group)))], "lr": rate}
                                          for group, rate in zip(groups, (0.1, 0.05))])
        for i, group in enumerate(groups):
            at = 0
            for p in group:
                part = types.SimpleNamespace(start=at, numel=p.numel())
                p._hp_mapping = types.SimpleNamespace(param_group_index=i, get_hp_fragment_address=lambda part=part: part)
                self.optimizer.param_groups[i]["params"][0].data[at:at + p.numel()] = p.detach().reshape(-1)
                at += p.numel()
        last = groups[1][-1]
        last._hp_mapping = None  # another process has all of it
        self.groups = groups

    def step(self):
        every = self.optimizer.param_groups
        for i, group in enumerate(self.groups):
            buffer = every[i]["params"][0]
            buffer.grad = torch.cat([p.grad.reshape(-1) / self.loss_scale for p in group])
            for p in group:
                p.grad = None
            self.optimizer.param_groups = [every[i]]
            self.optimizer.step()
            buffer.grad = None
        self.optimizer.param_groups = every
        for i, group in enumerate(self.groups):
            for p, value in zip(group, every[i]["params"][0].detach().split([p.numel() for p in group])):
                p.data.copy_(value.view_as(p))


class Zero(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def rows(self, folder, sql):
        done = subprocess.run([os.environ["TAPEDECK"], "sql", folder, sql, "--csv"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()[1:]

    def test_parts_are_read_where_the_optimizer_has_them(self):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
        zero = Imitation(model)
        path = os.path.join(self.folder.name, "run")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with tapedeck.watch(model, path, optimizer=zero, every=1, form="tensor", to="npy") as deck:
                for _ in range(3):
                    loss = model(torch.ones(5, 3)).square().mean()
                    (loss * zero.loss_scale).backward()
                    expected = {name: (p.detach().clone(), p.grad / zero.loss_scale) for name, p in model.named_parameters()}
                    zero.step()
                    deck.log(loss=loss)
                    deck.step()
        run = tapedeck.Run(path)
        self.assertEqual(run["loss"].steps.tolist(), [1, 2, 3])
        for name, (before, gradient) in expected.items():
            with sqlite3.connect(os.path.join(path, "run.db")) as store:
                placement = store.execute("select placement from signal where name = ?", (f"{name}.gradient",)).fetchall()
            if name == "2.bias":
                self.assertEqual(placement, [])
                continue
            self.assertEqual(placement, [("shard:0",)])
            after = dict(model.named_parameters())[name].detach()
            np.testing.assert_array_equal(run[f"{name}.gradient"].array()[-1], gradient.reshape(-1))
            np.testing.assert_array_equal(run[name].array()[-1], after.reshape(-1))
            np.testing.assert_array_equal(run[f"{name}.update"].array()[-1], (after - before).reshape(-1))
        rates = [run[name].array()[-1] for name in ("learning_rate", "learning_rate_1")]
        self.assertEqual(rates, [0.1, 0.05])
        error = run["2.error"].array()[-1]  # without the scale
        output = run["2.output"].array()[-1]
        np.testing.assert_allclose(error, 2 * output / output.size, rtol=1e-6)

    def test_without_the_optimizer_a_warning(self):
        model = torch.nn.Linear(3, 2)
        Imitation(model)
        with self.assertWarnsRegex(UserWarning, "optimizer=engine.optimizer"):
            tapedeck.watch(model, os.path.join(self.folder.name, "run")).finish()

    @unittest.skipUnless("TD_DEEPSPEED" in os.environ, "TD_DEEPSPEED names no Python that has DeepSpeed")
    def test_three_stages_record_what_ddp_does(self):
        script, out = os.path.join(self.folder.name, "train.py"), os.path.join(self.folder.name, "runs")
        with open(script, "w") as file:
            file.write(TRAIN)
        done = subprocess.run([os.environ["TD_DEEPSPEED"], "-W", "ignore", "-m", "torch.distributed.run", "--standalone",
                               "--nproc-per-node=2", script, out], capture_output=True, text=True, timeout=600,
                              env=dict(os.environ, DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1"))
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        for sql in ("select signal, step, count, min, max, zeros from stats order by signal, step",
                    "select signal, step, low, high, count from histograms where step=3 order by signal, low",
                    "select signal, step, value from scalars where signal like 'l%' and signal <> 'local_seconds' order by signal, step"):
            ddp = self.rows(f"{out}/0", sql)
            self.assertGreater(len(ddp), 5)
            for stage in 1, 2, 3:
                self.assertEqual(self.rows(f"{out}/{stage}", sql), ddp, f"stage {stage}")
        done = subprocess.run([os.environ["TAPEDECK"], "diagnose", f"{out}/2"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
