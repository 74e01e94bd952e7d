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
attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
if world > 1:
    store = os.environ.get("RENDEZVOUS")
    dist.init_process_group("gloo", **(dict(init_method=f"file://{store}-{attempt}", rank=rank, world_size=world) if store else {}))
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

# Several runs in one launch, each with something that only several processes have.
ODD = """
import os, sys, warnings, torch, tapedeck
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
out, rank = sys.argv[1], int(os.environ["RANK"])
torch.set_num_threads(1)
warnings.simplefilter("error", tapedeck.RecordingWarning)
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))

class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.odd = nn.Linear(6, 3), nn.Linear(6, 3), 0
    def forward(self, x):
        self.odd = 1 - self.odd
        return (self.a if (rank + self.odd) % 2 else self.b)(x)

def plain():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

def split(model, **more):
    for module in (*(m for m in model.modules() if isinstance(m, nn.Linear)), model):
        fully_shard(module, mesh=mesh, **more)
    return model

def train(name, model, update=None, size=lambda step: 8, steps=4, dtype=torch.float32, passes=1, optimizer=torch.optim.SGD, spoil=False):
    optimizer = optimizer(model.parameters(), lr=0.1)
    with tapedeck.watch(model, f"{out}/{name}", optimizer=optimizer, every=1, form=["stats"]) as deck:
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            for part in range(passes):
                generator = torch.Generator().manual_seed(100 * step + 10 * part + rank)
                x, y = (torch.randn(size(step), n, generator=generator).to(dtype) for n in (6, 3))
                if spoil and step == 3 and rank == 1:
                    x[2, 1] = float("nan")
                if passes > 1:
                    model.require_backward_grad_sync = part + 1 == passes  # as no_sync() does
                loss = ((model(x) - y) ** 2).mean() / passes
                loss.backward()
            total = update(model) if update else None
            optimizer.step()
            deck.log(loss=loss, **({} if total is None else {"total": total.full_tensor()}))
            deck.step()

torch.manual_seed(0)
DDP = nn.parallel.DistributedDataParallel
train("unused", DDP(Branches(), find_unused_parameters=True))
train("nan", DDP(plain()), spoil=True)
train("accumulated", DDP(plain()), passes=3)
train("bf16", DDP(plain().bfloat16()), dtype=torch.bfloat16)
train("clipped", split(plain()), update=lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.01), optimizer=torch.optim.AdamW)
train("mixed", split(plain(), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)))
model = DDP(plain())
with model.join():
    train("uneven", model, size=lambda step: 5 if rank and step == 2 else 8, steps=4 - 2 * rank)
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
        """Lightning starts its processes itself, in two ways; torchrun those of Accelerate, as `accelerate launch` does."""
        for name, script, world in (("lightning", LIGHTNING, 1), ("accelerate", ACCELERATE, 2),
                                    ("spawned", LIGHTNING.replace('"ddp"', '"ddp_spawn"'), 1)):
            with self.subTest(name):
                path = self.path(name)
                self.start(script, path, world=world)
                run = tapedeck.Run(path)
                self.assertEqual([(rank["rank"], rank["state"], rank["last_step"]) for rank in run.ranks],
                                 [(0, "finished", 4), (1, "finished", 4)])
                layer, owner = ("layer", "layer.") if script != ACCELERATE else ("model", "")
                self.assertEqual(self.rows(path, f"select count from stats where signal='{layer}.output' and step=2"), [["16"]])
                self.assertEqual(self.rows(path, f"select count from stats where signal='{owner}weight.gradient' and step=2"), [["8"]])
                sampled = self.rows(path, "select count(*) from spread where signal='loss' and ranks=2")
                self.assertEqual(sampled, [["4"]])

    def test_what_only_several_processes_have(self):
        """Layers that one rank does not use, NaN on one rank first, accumulation, half precision, clipping of shards, batches of
        different sizes and ranks that end early; seven runs of one launch."""
        self.start(ODD, self.path("odd"), world=2)
        self.assertEqual(len(os.listdir(self.path("odd"))), 7)

        def counts(name, signal):
            return self.rows(self.path(f"odd/{name}"), f"select count from stats where signal='{signal}' order by step")

        for name in os.listdir(self.path("odd")):
            if name != "unused":
                first = [["48"]] * 4
                self.assertEqual([counts(name, "0.weight"), counts(name, "0.weight.gradient")], [first, first], name)
            done = subprocess.run([os.environ["TAPEDECK"], "diagnose", self.path(f"odd/{name}")], capture_output=True, text=True)
            self.assertEqual(done.returncode, name == "nan", done.stdout)
        self.assertEqual([counts("unused", f"{branch}.{part}") for branch in "ab" for part in ("output", "weight.gradient")],
                         [[["24"]] * 4, [["18"]] * 4] * 2)
        self.assertEqual(counts("uneven", "2.output"), [["48"], ["39"], ["24"], ["24"]])
        self.assertEqual(counts("accumulated", "2.output"), [["144"]] * 4)  # of all three batches
        norms = self.rows(self.path("odd/clipped"), "select sum(norm * norm) from stats where signal like '%.gradient' group by step")
        np.testing.assert_allclose([float(row[0]) ** 0.5 for row in norms], [0.01] * 4, rtol=1e-4)
        done = subprocess.run([os.environ["TAPEDECK"], "diagnose", self.path("odd/nan")], capture_output=True, text=True)
        self.assertRegex(done.stdout, "(?s)NaN in the inputs.*row 3 of its batch.*not finite on rank 1 first, in step 3")

    def test_watching_changes_no_weight(self):
        self.assertEqual(self.train("ddp", self.path("a"), world=2), self.train("ddp", "-", world=2))

    def test_a_killed_rank_is_named(self):
        path = self.path("killed")
        self.train("ddp", path, world=2, steps=6, dies=3, fails=True)
        done = subprocess.run([os.environ["TAPEDECK"], "show", path], capture_output=True, text=True)
        self.assertIn("rank 1 ended without closing its run: its last recorded step is 3", done.stderr + done.stdout)
        self.assertGreaterEqual(len(tapedeck.Run(path)["loss"].values), 3)

    def test_torchrun_restarts(self):
        """Its agent ends all workers when one dies, and starts them again. (They meet by a file: in the agent's store gloo finds
        addresses of the attempt before and may wait for them, with or without a recorder.)"""
        path = self.path("elastic")
        done = subprocess.run([sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
                               "--max-restarts=1", self.script, "ddp", path, "6", "3"], timeout=600,
                              env=dict(os.environ, OMP_NUM_THREADS="1", RENDEZVOUS=self.path("meet")), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        run = tapedeck.Run(path)
        self.assertEqual([(rank["rank"], rank["attempt"]) for rank in run.ranks], [(0, 1), (1, 1), (0, 2), (1, 2)])
        self.assertEqual([rank["state"] for rank in run.ranks][1:], ["crashed", "finished", "finished"])
        self.assertEqual((run.state, run["loss"].steps.tolist()), ("finished", [1, 2, 3, 4, 5, 6]))

    def test_another_number_of_ranks(self):
        """Of the steps that a second, smaller attempt repeats, its own ranks count."""
        path = self.path("shrunk")
        for attempt, (world, steps) in enumerate(((3, 4), (2, 6))):
            workers = [subprocess.Popen([sys.executable, "-W", "ignore", self.script, "ddp", path, str(steps), "0"], env=dict(
                os.environ, OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + (os.getpid() + 7 + attempt) % 20000),
                WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world), RANK=str(rank), LOCAL_RANK=str(rank), TORCHELASTIC_RUN_ID="job",
                TORCHELASTIC_RESTART_COUNT=str(attempt)), stdout=subprocess.DEVNULL) for rank in range(world)]
            self.assertEqual([worker.wait(120) for worker in workers], [0] * world)
        self.assertEqual(self.rows(path, "select count from stats where signal='0.output' order by step"), [["128"]] * 6)
        self.assertEqual(self.rows(path, "select ranks from spread where signal='loss' order by step"), [["2"]] * 6)

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
