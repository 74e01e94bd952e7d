"""Trainings of several processes: what the ranks recorded, read as one run, is what one process records on the whole batch."""

import os
import sqlite3
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import tapedeck

# Models of small whole numbers: sums of their products are exact in any order, so ranks and one process compute the same bits.
EXACT = """
import os, sys, torch, tapedeck
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
out, scale = sys.argv[1], float(sys.argv[2])
world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
torch.set_num_threads(1)
if world > 1:
    dist.init_process_group("gloo")

def whole(*shape):
    return torch.randint(-2, 3, shape).float()

def make(kind):
    if kind == "cnn":
        return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 4)), (16, 1, 6, 6), (16, 4)
    if kind == "mlp":
        return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)), (16, 6), (16, 3)
    return nn.Sequential(nn.Linear(6, 8), nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True), nn.Linear(8, 3)), (
        16, 5, 6), (16, 5, 3)

for kind, ways in ("cnn", ("ddp", "fsdp")), ("transformer", ("ddp", "fsdp")), ("mlp", ("tp",)):
    for way in ways if world > 1 else ("one",):
        torch.manual_seed(1)
        model, inputs, labels = make(kind)
        for p in model.parameters():
            p.data = whole(*p.shape)
        x, y = whole(*inputs), whole(*labels)
        part = slice(None) if way in ("one", "tp") else slice(rank * 16 // world, (rank + 1) * 16 // world)
        if way == "ddp":
            model = nn.parallel.DistributedDataParallel(model)
        elif way == "fsdp":
            fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
        elif way == "tp":
            parallelize_module(model, init_device_mesh("cpu", (world,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with tapedeck.watch(model, f"{out}/{kind}-{way}", optimizer=optimizer, every=1, form=["stats", "histogram"]) as deck:
            loss = scale * (model(x[part]) * y[part]).sum()
            loss.backward()
            optimizer.step()
            deck.log(loss=loss.item())
            deck.step()
if world > 1:
    dist.destroy_process_group()
"""
LIGHTNING = """
import sys, torch, tapedeck.lightning
from lightning.pytorch import LightningModule, Trainer
class Line(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
    def training_step(self, batch, index):
        return self.layer(batch[0]).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)
if __name__ == "__main__":
    data = torch.utils.data.TensorDataset(torch.randn(32, 4, generator=torch.Generator().manual_seed(0)))
    Trainer(max_epochs=1, accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
            callbacks=[tapedeck.lightning.Recorder(sys.argv[1], every=1, form="stats")]).fit(
                Line(), torch.utils.data.DataLoader(data, batch_size=4))
"""
ACCELERATE = """
import sys, torch, tapedeck
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(32, 4, generator=torch.Generator().manual_seed(0)))
model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=4))
deck = tapedeck.watch(model, sys.argv[1], optimizer=optimizer, every=1, form="stats")
for (x,) in loader:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    accelerator.backward(loss)
    optimizer.step()
    deck.log(loss=loss)
    deck.step()
deck.finish()
accelerator.end_training()
"""
SCRIPT = """
import os, sys, signal, torch, tapedeck
import torch.distributed as dist
from torch import nn
kind, out, steps, dies = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
torch.set_num_threads(1)
if world > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
if kind == "ddp":
    model = nn.parallel.DistributedDataParallel(model)
elif kind == "fsdp":
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.device_mesh import init_device_mesh
    fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
deck = tapedeck.watch(model, out, optimizer=optimizer, every=1, form=["stats", "histogram"]) if out != "-" else None
generator = torch.Generator().manual_seed(3)
attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
for i in range(steps):
    x, y = torch.randn(16, 6, generator=generator), torch.randn(16, 3, generator=generator)
    part = slice(rank * 16 // world, (rank + 1) * 16 // world)
    optimizer.zero_grad()
    loss = ((model(x[part]) - y[part]) ** 2).mean()
    loss.backward()
    optimizer.step()
    if deck is not None:
        deck.log(loss=loss.item())
        deck.step()
        if i + 1 == dies and rank == 1 and attempt == 0:
            deck.flush()
            os.kill(os.getpid(), signal.SIGKILL)
if deck is not None:
    deck.finish()
if kind != "fsdp" and rank == 0:
    print(*(float(p.detach().double().sum()).hex() for p in model.parameters()))
if world > 1:
    dist.destroy_process_group()
"""


class Ranks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.script = os.path.join(self.folder.name, "train.py")
        with open(self.script, "w") as file:
            file.write(SCRIPT)

    def tearDown(self):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def start(self, script, *arguments, world=1):
        path = self.path("other.py")
        with open(path, "w") as file:
            file.write(script)
        launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"] if world > 1 else []
        done = subprocess.run([sys.executable, "-W", "ignore", *launch, path, *map(str, arguments)],
                              env=dict(os.environ, OMP_NUM_THREADS="1"), capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])

    def train(self, kind, out, *, world=1, steps=3, dies=0, fails=False):
        start = [] if world == 1 else ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
        done = subprocess.run([sys.executable, "-W", "ignore", *start, self.script, kind, out, str(steps), str(dies)],
                              env=dict(os.environ, OMP_NUM_THREADS="1"), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode != 0, fails, done.stderr[-2000:])
        return done.stdout

    def rows(self, folder, sql):
        done = subprocess.run([os.environ["TAPEDECK"], "sql", folder, sql, "--csv"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line.split(",") for line in done.stdout.splitlines()[1:]]

    def compare(self, merged, whole, signals):
        """At the first step, where forward values are equal."""
        names = ",".join(f"'{name}'" for name in signals)
        for sql in (f"select signal, count, min, max, zeros, nan from stats where step=1 and signal in ({names}) order by signal",
                    f"select signal, low, high, count from histograms where step=1 and signal in ({names}) order by signal, low"):
            ours, theirs = self.rows(merged, sql), self.rows(whole, sql)
            self.assertGreaterEqual(len(theirs), len(signals))
            self.assertEqual(ours, theirs)
        sql = f"select mean, std, norm from stats where step=1 and signal in ({names}) order by signal"
        np.testing.assert_allclose(np.array(self.rows(merged, sql), float), np.array(self.rows(whole, sql), float), rtol=1e-6)

    def test_merged_is_what_one_process_records(self):
        whole = self.path("one")
        self.train("plain", whole)
        outputs = ["0.output", "1.output"]
        for kind, world in (("ddp", 2), ("ddp", 4), ("fsdp", 2)):
            with self.subTest(kind=kind, world=world):
                merged = self.path(f"{kind}{world}")
                self.train(kind, merged, world=world)
                self.assertEqual(sorted(n for n in os.listdir(merged) if n.startswith("rank-")),
                                 [f"rank-{rank:05}" for rank in range(world)])
                self.compare(merged, whole, outputs)
                for name in ("0.weight", "0.weight.gradient"):  # a copy of the replicas, or all shards
                    counts = self.rows(merged, f"select count from stats where signal='{name}' and step=1")
                    self.assertEqual(counts, [["48"]])
                gradient = "select norm from stats where signal='0.weight.gradient' and step=1"
                np.testing.assert_allclose(float(self.rows(merged, gradient)[0][0]), float(self.rows(whole, gradient)[0][0]),
                                           rtol=1e-6)
                losses = [sqlite3.connect(os.path.join(merged, f"rank-{rank:05}", "run.db")).execute(
                    "select value from scalar join signal on id = signal where name = 'loss' and step = 1").fetchone()[0]
                    for rank in range(world)]
                np.testing.assert_allclose(float(self.rows(merged, "select value from scalars where signal='loss' and step=1")[0][0]),
                                           np.mean(losses), rtol=1e-12)
                run = tapedeck.Run(merged)
                self.assertEqual((run.state, run.name), ("finished", os.path.basename(merged)))

    def equal(self, merged, whole, where):
        for sql in (f"select signal, count, min, max, zeros, nan, inf from stats where step=1 and {where} order by signal",
                    f"select signal, low, high, count from histograms where step=1 and {where} order by signal, low"):
            ours, theirs = self.rows(merged, sql), self.rows(whole, sql)
            self.assertGreater(len(theirs), 2)
            self.assertEqual(ours, theirs)
        self.close_to(merged, whole, where)

    def close_to(self, merged, whole, where):
        sql = f"select signal, count, norm from stats where step=1 and {where} order by signal"
        ours, theirs = self.rows(merged, sql), self.rows(whole, sql)
        self.assertEqual([row[:2] for row in ours], [row[:2] for row in theirs])
        np.testing.assert_allclose([float(row[2]) for row in ours], [float(row[2]) for row in theirs], rtol=1e-6, atol=1e-6)

    def test_every_way_to_split_a_training(self):
        """A CNN under DDP and FSDP2 and an MLP under tensor parallelism: bits of one process, in outputs, errors and gradients.
        The values of a transformer depend on how many examples are computed at once: norms are compared, and counts."""
        worlds = [int(world) for world in os.environ.get("TD_WORLDS", "2").split(",")]
        self.start(EXACT, self.path("one"), 1)
        activations, gradients = "(signal like '%.output' or signal like '%.error')", "signal like '%.gradient'"
        for world in worlds:
            self.start(EXACT, self.path(f"mean{world}"), 1 / world)  # as DDP and FSDP2 reduce gradients
            self.start(EXACT, self.path(str(world)), 1, world=world)
            for kind, way in ("cnn", "ddp"), ("cnn", "fsdp"), ("transformer", "ddp"), ("transformer", "fsdp"), ("mlp", "tp"):
                with self.subTest(kind=kind, way=way, world=world):
                    merged, one = self.path(f"{world}/{kind}-{way}"), self.path(f"one/{kind}-one")
                    mean = self.path(f"mean{world}/{kind}-one")
                    check = self.close_to if kind == "transformer" else self.equal
                    check(merged, one, activations)
                    check(merged, one if way == "tp" else mean, gradients)

    def test_lightning_and_accelerate(self):
        """Lightning starts its processes itself; torchrun those of Accelerate, as `accelerate launch` does."""
        for name, script, world in (("lightning", LIGHTNING, 1), ("accelerate", ACCELERATE, 2)):
            with self.subTest(name):
                path = self.path(name)
                self.start(script, path, world=world)
                run = tapedeck.Run(path)
                self.assertEqual([(rank["rank"], rank["state"], rank["last_step"]) for rank in run.ranks],
                                 [(0, "finished", 4), (1, "finished", 4)])
                layer, owner = ("layer", "layer.") if name == "lightning" else ("model", "")
                self.assertEqual(self.rows(path, f"select count from stats where signal='{layer}.output' and step=2"), [["16"]])
                self.assertEqual(self.rows(path, f"select count from stats where signal='{owner}weight.gradient' and step=2"), [["8"]])
                sampled = self.rows(path, "select count(*) from spread where signal='loss' and ranks=2")
                self.assertEqual(sampled, [["4"]])

    def test_watching_changes_no_weight(self):
        self.assertEqual(self.train("ddp", self.path("a"), world=2), self.train("ddp", "-", world=2))

    def test_a_killed_rank_is_named(self):
        path = self.path("killed")
        self.train("ddp", path, world=2, steps=6, dies=3, fails=True)
        done = subprocess.run([os.environ["TAPEDECK"], "show", path], capture_output=True, text=True)
        self.assertIn("rank 1 ended without closing its run: its last recorded step is 3", done.stderr + done.stdout)
        self.assertGreaterEqual(len(tapedeck.Run(path)["loss"].values), 3)

    def test_a_restart_is_the_next_attempt(self):
        """As torchrun's agent starts workers again: the same launch, another restart count, port and rendezvous."""
        path = self.path("restarted")
        for attempt, (steps, dies) in enumerate(((3, 2), (5, 0))):
            common = dict(os.environ, OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", WORLD_SIZE="2", LOCAL_WORLD_SIZE="2",
                          MASTER_PORT=str(20000 + (os.getpid() + attempt) % 20000), TORCHELASTIC_RUN_ID="job",
                          TORCHELASTIC_RESTART_COUNT=str(attempt))
            workers = [subprocess.Popen([sys.executable, "-W", "ignore", self.script, "ddp", path, str(steps), str(dies)],
                                        env=dict(common, RANK=str(rank), LOCAL_RANK=str(rank)), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL) for rank in range(2)]
            codes = [worker.wait(120) for worker in workers]
            self.assertEqual(codes[1], -9 if dies else 0)
        self.assertEqual(sorted(os.listdir(os.path.join(path, "attempt-2"))), ["rank-00000", "rank-00001"])
        self.assertEqual(tapedeck.Run(path).state, "finished")
        self.assertEqual(self.rows(path, "select count(*), max(step) from scalars where signal='loss'"), [["5", "5"]])
        self.assertEqual(self.rows(path, "select notes.value from notes where key='world_size'"), [["2"]])


if __name__ == "__main__":
    unittest.main()
