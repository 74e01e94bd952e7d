"""tapedeck.watch: training with it is training without it, bit for bit, and what it records is what autograd gives."""

import copy
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import tapedeck

torch.set_num_threads(1)


class Residual(nn.Module):
    """A += after a layer, an activation that is no module, a block whose output is nobody else's."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 6)
        self.b = nn.Linear(6, 6)

    def forward(self, x):
        y = self.a(x)
        y += x
        return F.relu(self.b(y)) + y


class Shared(nn.Module):
    """Two inputs through one layer."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(6, 5)
        self.head = nn.Linear(10, 3)

    def forward(self, x):
        return self.head(torch.cat([torch.tanh(self.embed(x)), torch.tanh(self.embed(-x))], 1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, 7, num_layers=2, batch_first=True)
        self.head = nn.Linear(7, 3)

    def forward(self, x):
        out, _ = self.lstm(x.view(-1, 3, 2))
        return self.head(out[:, -1])


class Dicts(nn.Module):
    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(6, 3)

        def forward(self, x):
            return {"logits": self.l(x) * 2, "more": (x + 1, [x * 2])}

    def __init__(self):
        super().__init__()
        self.part = self.Part()

    def forward(self, x):
        return self.part(x)["logits"]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(2, 1, 8, dropout=0.1, batch_first=True), 2)
        self.head = nn.Linear(2, 3)

    def forward(self, x):
        return self.head(self.encoder(x.view(-1, 3, 2)).mean(1))


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.a = nn.Linear(6, 6)
        self.block = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.2))
        self.head = nn.Linear(6, 3)
        self.reentrant = reentrant

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint

        return self.head(checkpoint(self.block, self.a(x), use_reentrant=self.reentrant))


def convolutional():
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(0.1),
        nn.Flatten(), nn.Linear(8, 3),
    )


def plain():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


MODELS = {
    "convolutional": convolutional, "residual": lambda: nn.Sequential(Residual(), nn.Linear(6, 3)),
    "shared": Shared, "recurrent": Recurrent, "dicts": Dicts, "attention": Attention,
    "checkpointed": lambda: Checkpointed(False), "reentrant": lambda: Checkpointed(True),
}


def batches(steps):
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        yield torch.randn(5, 6, generator=generator), torch.randint(0, 3, (5,), generator=generator)


def simple(model, optimizer, deck, steps=7):
    """The loop that everybody writes; yields the losses."""
    for x, y in batches(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if deck:
            deck.log(loss=loss)
            deck.step()
        yield loss.item()


def evaluating(model, optimizer, deck, steps=7):
    for i, loss in enumerate(simple(model, optimizer, deck, steps)):
        model.eval()
        with torch.no_grad():
            model(next(batches(1))[0])
        model.train()
        with torch.no_grad():
            model(next(batches(1))[0])
        yield loss


def accumulating(model, optimizer, deck, steps=7):
    pieces = list(batches(3 * steps))
    for i in range(steps):
        optimizer.zero_grad()
        for x, y in pieces[3 * i : 3 * i + 3]:
            loss = F.cross_entropy(model(x), y) / 3
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        if deck:
            deck.log(loss=loss)
            deck.step()
        yield loss.item()


def scaling(model, optimizer, deck, steps=7):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for i, (x, y) in enumerate(batches(steps)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss if i != 3 else loss * float("inf")).backward()
        scaler.step(optimizer)
        scaler.update()
        if deck:
            deck.log(loss=loss)
            deck.step()
        yield loss.item()


def autocasting(model, optimizer, deck, steps=7):
    for x, y in batches(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if deck:
            deck.log(loss=loss)
            deck.step()
        yield loss.item()


LOOPS = {"simple": simple, "evaluating": evaluating, "accumulating": accumulating, "scaling": scaling,
         "autocasting": autocasting}


class Watching(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name="run"):
        return os.path.join(self.folder.name, name)

    def train(self, build, loop=simple, watched=None, after=None):
        torch.manual_seed(0)
        model = build()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        deck = None
        if watched is not None:
            deck = tapedeck.watch(model, self.path(watched.pop("name", "run")), optimizer=optimizer, **watched)
        if after:
            after(model, deck)
        losses = list(loop(model, optimizer, deck))
        if deck:
            deck.finish()
        return losses, {name: value.clone() for name, value in model.state_dict().items()}, deck

    def assert_equal_training(self, build, loop=simple, **watched):
        bare, weights, _ = self.train(build, loop)
        losses, trained, deck = self.train(build, loop, watched)
        np.testing.assert_array_equal(bare, losses)
        for name, value in weights.items():
            self.assertTrue(torch.equal(value, trained[name]), name)
        return tapedeck.Run(deck.folder)

    def test_every_model_trains_as_without(self):
        for name, build in MODELS.items():
            for every in (1, 3):
                with self.subTest(name, every=every):
                    run = self.assert_equal_training(build, name=f"{name}-{every}", every=every, form="histogram")
                    self.assertEqual(run.problems, [])
                    self.assertIn("loss", run)
                    self.assertTrue([s for s in run if s.endswith(".error")])

    def test_every_loop_trains_as_without(self):
        for name, loop in LOOPS.items():
            for build in (plain, convolutional):
                with self.subTest(name):
                    run = self.assert_equal_training(build, loop, name=name, every=2, form="stats")
                    self.assertTrue([s for s in run if s.endswith(".error")])
                    self.assertEqual(run.steps, 7)

    def test_values_are_autograds(self):
        """Of every model, in the first step: what hooks of the test's own, without ours, see."""
        for name, build in MODELS.items():
            if name in ("checkpointed", "reentrant"):
                continue
            with self.subTest(name):
                expected = self.by_hand(build)
                _, _, deck = self.train(build, watched={"name": name, "every": 1, "form": "tensor"})
                run = tapedeck.Run(deck.folder)
                for signal, value in expected.items():
                    np.testing.assert_array_equal(run[signal].at(1), value, err_msg=f"{name}: {signal}")

    def by_hand(self, build):
        torch.manual_seed(0)
        model = build()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        x, y = next(batches(1))
        kept, calls, values = [], {}, {}

        def keep(layer):
            def hook(module, inputs, output):
                if isinstance(output, torch.Tensor) and output.requires_grad:
                    call = calls[layer] = calls.get(layer, -1) + 1
                    label = layer + (f"@{call}" if call else "")
                    values[f"{label}.output"] = output.detach().clone().numpy()
                    output.register_hook(lambda g: values.__setitem__(f"{label}.error", g.clone().numpy()))
            return hook

        for layer, module in model.named_modules():
            if layer and not list(module.children()) and not isinstance(module, (nn.Flatten, nn.Unflatten)):
                module.register_forward_hook(keep(layer))
        before = {n: p.detach().clone() for n, p in model.named_parameters()}
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        for n, p in model.named_parameters():
            values[n] = p.detach().numpy()
            values[f"{n}.gradient"] = p.grad.numpy()
            values[f"{n}.update"] = (p.detach() - before[n]).numpy()
        return values

    def test_parts_of_outputs_have_names(self):
        _, _, deck = self.train(Recurrent, watched={"every": 1, "form": "stats"})
        self.assertLessEqual({"lstm.0.output", "lstm.0.error", "lstm.1.0.output", "lstm.1.1.output"},
                             set(tapedeck.Run(deck.folder)))
        _, _, deck = self.train(Dicts, watched={"every": 1, "form": "stats"})
        self.assertLessEqual({"part.logits.output", "part.logits.error", "part.more.0.output"},
                             set(tapedeck.Run(deck.folder)))

    def test_a_shared_layer_is_told_by_its_calls(self):
        _, _, deck = self.train(Shared, watched={"every": 1, "form": "stats"})
        run = tapedeck.Run(deck.folder)
        self.assertLessEqual({"embed.output", "embed@1.output", "embed.error", "embed@1.error"}, set(run))
        self.assertNotIn("embed@2.output", run)

    def test_checkpointing_records_each_layer_once(self):
        for reentrant in (False, True):
            _, _, deck = self.train(lambda: Checkpointed(reentrant), watched={"every": 1, "form": "tensor"})
            run = tapedeck.Run(deck.folder)
            self.assertLessEqual({"block.0.output", "block.0.error", "head.error"}, set(run))
            self.assertFalse([s for s in run if "@" in s])
            self.assertEqual(len(run["block.0.output"].stats if "stats" in run["block.0.output"].forms else
                                 np.load(os.path.join(deck.folder, "block.0.output.steps.npy"))), 7)

    def test_gradients_are_those_of_the_step(self):
        """After accumulation and clipping: their norm is what they were clipped to."""
        _, _, deck = self.train(plain, accumulating, {"every": 1, "form": "tensor"})
        run = tapedeck.Run(deck.folder)
        names = [s for s in run if s.endswith(".gradient")]
        norm = np.sqrt(sum((run[s].at(3).astype(float) ** 2).sum() for s in names))
        self.assertAlmostEqual(norm, 0.1, places=5)
        self.assertIn("micro_batches", run.notes)
        self.assertEqual(run["micro_batches"].values["value"].tolist(), [3.0] * 7)
        steps = np.load(os.path.join(deck.folder, "0.output.steps.npy"))
        self.assertEqual(steps.tolist(), list(range(1, 8)))

    def test_a_scalers_scale_is_taken_out_and_its_skips_are_said(self):
        _, _, deck = self.train(plain, scaling, {"name": "scaled", "every": 1, "form": "tensor"})
        _, _, other = self.train(plain, simple, {"name": "simple", "every": 1, "form": "tensor"})
        run, plain_run = tapedeck.Run(deck.folder), tapedeck.Run(other.folder)
        for signal in ("0.error", "2.error"):
            np.testing.assert_allclose(run[signal].at(1), plain_run[signal].at(1), rtol=1e-6)
        self.assertEqual(run["skipped_steps"].values["step"].tolist(), [4])
        self.assertIn("skipped", run.notes["skipped_steps"])

    def test_bfloat16_is_widened_and_said(self):
        _, _, deck = self.train(plain, autocasting, {"every": 1, "form": "tensor"})
        import sqlite3

        run = tapedeck.Run(deck.folder)
        self.assertEqual(run["0.output"].at(2).dtype, np.float32)
        row = sqlite3.connect(os.path.join(deck.folder, "run.db")).execute(
            "select dtype from tensor join signal on signal.id = signal where name = '0.output'").fetchone()
        self.assertEqual(row[0], "bfloat16")

    def test_channels_last_is_recorded_in_logical_order(self):
        x = torch.randn(2, 3, 4, 5)
        with tapedeck.Deck(self.path()) as deck:
            deck.track("*", form="tensor", to="npy")
            deck.record("x", x.to(memory_format=torch.channels_last))
            deck.record("half", x.half())
            deck.record("brain", x.bfloat16())
            deck.record("slice", x[:, ::2, 1:])
            deck.step()
        run = tapedeck.Run(deck.folder)
        np.testing.assert_array_equal(run["x"].at(1), x.numpy())
        np.testing.assert_array_equal(run["half"].at(1), x.half().numpy())
        np.testing.assert_array_equal(run["brain"].at(1), x.bfloat16().float().numpy())
        np.testing.assert_array_equal(run["slice"].at(1), x[:, ::2, 1:].numpy())

    def test_copies_of_the_model_record_nothing_and_it_can_be_saved(self):
        copies = []

        def average_and_save(model, deck):
            if deck is None:
                return
            copies.append(copy.deepcopy(model))
            torch.save(model, io.BytesIO())
            with torch.random.fork_rng():
                for x, y in batches(2):
                    F.cross_entropy(copies[0](x), y).backward()

        bare, _, _ = self.train(convolutional)
        losses, _, deck = self.train(convolutional, watched={"every": 1, "form": "tensor"}, after=average_and_save)
        self.assertEqual(bare, losses)
        self.assertEqual(np.load(os.path.join(deck.folder, "1.output.steps.npy")).tolist(), list(range(1, 8)))

    def test_steps_are_inferred_from_the_optimizer(self):
        def loop(model, optimizer, deck):
            for x, y in batches(6):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                if deck:
                    deck.log(loss=loss)
                yield loss.item()

        for every in (1, 2, 5):
            losses, _, deck = self.train(plain, loop, {"name": f"e{every}", "every": every, "form": "tensor"})
            run = tapedeck.Run(deck.folder)
            np.testing.assert_array_equal(run["loss"].values["value"].astype(np.float32), np.float32(losses))
            self.assertEqual(run["loss"].values["step"].tolist(), [1, 2, 3, 4, 5, 6])
            steps = np.load(os.path.join(deck.folder, "0.output.steps.npy"))
            self.assertEqual(steps.tolist(), list(range(every, 7, every)))
            _, _, other = self.train(plain, simple, {"name": f"o{every}", "every": every, "form": "tensor"})
            np.testing.assert_array_equal(run["0.error"].at(every), tapedeck.Run(other.folder)["0.error"].at(every))

    def network(self, build):
        _, _, deck = self.train(build, watched={"name": build.__name__, "every": 1})
        return {layer["name"]: layer for layer in json.loads(tapedeck.Run(deck.folder).notes["network"])}

    def test_the_network_is_noted_as_it_is_computed(self):
        edges = {build: {name: layer["from"] for name, layer in self.network(build).items()} for build in (Residual, Shared, Recurrent)}
        self.assertEqual(edges[Residual], {"a": [], "b": ["a"]})
        self.assertEqual(edges[Shared], {"embed": [], "embed@1": [], "head": ["embed", "embed@1"]})
        self.assertEqual(edges[Recurrent], {"lstm": [], "head": ["lstm"]})
        layers = self.network(convolutional)
        model = convolutional()
        kinds = {name: type(module).__name__ for name, module in model.named_modules() if name in layers}
        self.assertEqual({name: layer["kind"] for name, layer in layers.items()}, kinds)
        self.assertEqual(sum(layer["parameters"] for layer in layers.values()), sum(p.numel() for p in model.parameters()))
        names = list(layers)
        self.assertEqual([layer["from"] for layer in layers.values()], [[]] + [[name] for name in names[:-1]])
        self.assertTrue(layers[names[-1]]["shape"].startswith("("))

    def test_the_network_of_frozen_layers_and_a_branch(self):
        class Branched(nn.Module):
            def __init__(self):
                super().__init__()
                self.frozen = nn.Linear(6, 6).requires_grad_(False)
                self.left, self.right, self.head = nn.Linear(6, 4), nn.Linear(6, 4), nn.Linear(4, 3)

            def forward(self, x):
                y = self.frozen(x)
                return self.head(torch.relu(self.left(y)) * torch.sigmoid(self.right(y)))

        layers = self.network(Branched)
        self.assertEqual({name: layer["from"] for name, layer in layers.items()},
                         {"frozen": [], "left": ["frozen"], "right": ["frozen"], "head": ["left", "right"]})
        self.assertEqual([layer["shape"] for layer in layers.values()], ["(6,)", "(4,)", "(4,)", "(3,)"])

    def test_taps_are_there_only_while_something_is_due(self):
        for checks in (False, True):
            model = plain()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            deck = tapedeck.watch(model, self.path(f"checks-{checks}"), optimizer=optimizer, every=3, loop_checks=checks)
            found = []
            for x, y in batches(6):
                found.append("_compiled_call_impl" in vars(model[0]))
                self.assertFalse(model[0]._forward_hooks)
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                deck.step()
            deck.finish()
            # The checks of the loop look at the first two updates.
            self.assertEqual(found, [checks, checks, True, False, False, True])
            self.assertNotIn("_compiled_call_impl", vars(model[0]))
            self.assertNotIn("_compiled_call_impl", vars(model))

    def test_training_in_evaluation_mode_is_said(self):
        def loop(model, optimizer, deck):
            model.eval()
            yield from simple(model, optimizer, deck)

        _, _, deck = self.train(convolutional, loop, {"every": 1, "form": "stats"})
        run = tapedeck.Run(deck.folder)
        self.assertIn("evaluation mode", run.notes["training_mode"])
        self.assertEqual(set(run["training_mode"].values["value"]), {0.0})
        self.assertIn("1.output", run)

    def test_gradients_that_nobody_clears_are_said(self):
        def loop(model, optimizer, deck):
            for x, y in batches(4):
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                deck.step()
                yield loss.item()

        _, _, deck = self.train(plain, loop, {"name": "stale", "every": 1, "form": "stats"})
        self.assertEqual(tapedeck.Run(deck.folder)["stale_gradients"].values["value"].tolist(), [0, 1, 1, 1])
        _, _, deck = self.train(plain, simple, {"name": "fresh", "every": 1, "form": "stats"})
        self.assertEqual(set(tapedeck.Run(deck.folder)["stale_gradients"].values["value"]), {0.0})

    def test_parameters_that_no_optimizer_has_are_said(self):
        model = plain()
        deck = tapedeck.watch(model, self.path(), optimizer=torch.optim.SGD(model[0].parameters(), lr=0.1))
        deck.finish()
        self.assertEqual(tapedeck.Run(deck.folder).notes["parameters_without_optimizer"], "2.weight,2.bias")

    def test_without_an_optimizer(self):
        torch.manual_seed(0)
        model = plain()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = tapedeck.watch(model, self.path(), every=1, form="tensor")
        for _ in simple(model, optimizer, deck, 3):
            pass
        deck.finish()
        run = tapedeck.Run(deck.folder)
        np.testing.assert_array_equal(run["2.bias"].at(3), model[2].bias.detach().numpy())
        np.testing.assert_array_equal(run["2.bias.gradient"].at(3), model[2].bias.grad.numpy())
        np.testing.assert_allclose(run["2.bias.update"].at(3), -0.1 * run["2.bias.gradient"].at(3), atol=1e-7)

    def test_conditions_and_history(self):
        def loop(model, optimizer, deck):
            for i, (x, y) in enumerate(batches(10)):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x * (float("nan") if i == 6 else 1)), y)
                loss.backward()
                optimizer.step()
                deck.log(loss=loss)
                deck.step()
                yield loss.item()

        torch.manual_seed(0)
        model = plain()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = tapedeck.watch(model, self.path(), optimizer=optimizer, log="")
        deck.track("*.error", when="nan(*.error) > 0", history=3, form="tensor", to="npy")
        list(loop(model, optimizer, deck))
        deck.finish()
        steps = np.load(os.path.join(deck.folder, "0.error.steps.npy"))
        self.assertEqual(steps.tolist()[:4], [4, 5, 6, 7])

    @unittest.skipUnless(hasattr(torch.compiler, "set_stance"), "PyTorch before 2.6 cannot")
    def test_a_compiled_model_is_compiled_but_for_the_steps_that_are_due(self):
        traced = []

        def backend(graph, inputs):
            traced.append(1)
            return graph

        torch._dynamo.reset()
        torch.manual_seed(0)
        model = plain()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        compiled = torch.compile(model, backend=backend)
        deck = tapedeck.watch(compiled, self.path(), optimizer=optimizer, every=3, form="tensor")
        losses = list(simple(compiled, optimizer, deck, 9))
        deck.finish()
        self.assertEqual(len(traced), 1)
        self.assertEqual(np.load(os.path.join(deck.folder, "0.error.steps.npy")).tolist(), [3, 6, 9])
        torch.manual_seed(0)
        bare_model = plain()
        bare = list(simple(bare_model, torch.optim.SGD(bare_model.parameters(), lr=0.1), None, 9))
        self.assertEqual(bare, losses)  # this backend runs the same operations

    def test_two_processes(self):
        """DistributedDataParallel over gloo: a run a rank."""
        script = os.path.join(self.folder.name, "ddp.py")
        with open(script, "w") as file:
            file.write(DDP)
        environment = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000), WORLD_SIZE="2")
        processes = [subprocess.Popen([sys.executable, script, self.path()], env=dict(environment, RANK=str(rank)))
                     for rank in range(2)]
        self.assertEqual([p.wait(120) for p in processes], [0, 0])
        first, second = (tapedeck.Run(os.path.join(self.path(), f"rank-0000{rank}")) for rank in range(2))
        self.assertEqual((first.notes["rank"], second.notes["rank"], first.notes["world_size"]), ("0", "1", "2"))
        self.assertIn("0.error", first)
        np.testing.assert_array_equal(first["0.weight.gradient"].at(3), second["0.weight.gradient"].at(3))
        self.assertFalse(np.array_equal(first["0.output"].at(3), second["0.output"].at(3)))


DDP = """
import sys, torch, tapedeck
import torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
torch.manual_seed(0)
def train(watched):
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    deck = tapedeck.watch(model, sys.argv[1], optimizer=optimizer, every=1, form="tensor") if watched else None
    generator = torch.Generator().manual_seed(dist.get_rank())
    for i in range(4):
        optimizer.zero_grad()
        model(torch.randn(5, 6, generator=generator)).square().mean().backward()
        optimizer.step()
        if deck: deck.step()
    if deck: deck.finish()
    return [p.detach().clone() for p in model.parameters()]
a, b = train(False), train(True)
assert all(torch.equal(p, q) for p, q in zip(a, b))
dist.destroy_process_group()
"""

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    unittest.main()
