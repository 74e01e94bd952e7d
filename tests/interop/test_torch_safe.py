"""A recorder must not change a training, nor stop it: models of many kinds, types of elements, odd ways to run a model."""

import copy
import io
import os
import random
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np
import torch
import torch.distributed.fsdp as fsdp
import torch.nn.functional as F
from torch import nn

import tapedeck

torch.set_num_threads(1)
norms = nn.utils.parametrizations


class Call(nn.Module):
    """A module around a function of its parts."""

    def __init__(self, function, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.function = function

    def forward(self, x):
        return self.function(self, x)


class Property(nn.Module):
    """Reading its weight counts, and draws a random number."""

    def __init__(self):
        super().__init__()
        self.raw = nn.Parameter(torch.randn(3, 6))
        self.register_buffer("reads", torch.zeros(()))

    @property
    def weight(self):
        self.reads += 1
        return self.raw + 0.01 * torch.randn(3, 6)

    def forward(self, x):
        return x @ self.weight.T


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def seq(*modules):
    return nn.Sequential(*modules, nn.LazyLinear(3))


def checkpointed(self, x):
    from torch.utils.checkpoint import checkpoint

    return self.head(checkpoint(self.block, x, use_reentrant=False))


def prehook(model):
    model[0].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 1.5,))
    model[0].register_forward_hook(lambda module, inputs, output: output + 1)
    model[0].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 0.5,) if inputs[0] is not None else None)
    return model


def frozen(model):
    model[0].requires_grad_(False)
    return model


MODELS = {
    "linear": lambda: nn.Linear(6, 3),
    "mlp": lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)),
    "in_place": lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 3)),
    "convolution": lambda: nn.Sequential(nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)),
    "convolution_1d": lambda: nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Conv1d(2, 4, 2), nn.Flatten(), nn.Linear(8, 3)),
    "transposed": lambda: nn.Sequential(nn.Unflatten(1, (2, 3)), nn.ConvTranspose1d(2, 2, 2), nn.Flatten(), nn.Linear(8, 3)),
    "batch_norm": lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)),
    "layer_norm": lambda: nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3)),
    "group_norm": lambda: nn.Sequential(nn.Linear(6, 8), nn.GroupNorm(2, 8), nn.Linear(8, 3)),
    "instance_norm": lambda: nn.Sequential(nn.Unflatten(1, (2, 3)), nn.InstanceNorm1d(2, affine=True, track_running_stats=True),
                                           nn.Flatten(), nn.Linear(6, 3)),
    "dropout": lambda: nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.AlphaDropout(0.1), nn.Linear(8, 3)),
    "rrelu": lambda: nn.Sequential(nn.Linear(6, 8), nn.RReLU(), nn.Linear(8, 3)),
    "spectral_norm": lambda: nn.Sequential(norms.spectral_norm(nn.Linear(6, 8)), nn.Tanh(), norms.spectral_norm(nn.Linear(8, 3))),
    "old_spectral_norm": lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 3)),
    "weight_norm": lambda: nn.Sequential(norms.weight_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 3)),
    "orthogonal": lambda: nn.Sequential(norms.orthogonal(nn.Linear(6, 6)), nn.Tanh(), nn.Linear(6, 3)),
    "property": lambda: nn.Sequential(Property()),
    "lstm": lambda: Call(lambda m, x: m.head(m.rnn(x.view(-1, 3, 2))[0][:, -1]), rnn=nn.LSTM(2, 5, batch_first=True, dropout=0.2,
                         num_layers=2), head=nn.Linear(5, 3)),
    "gru": lambda: Call(lambda m, x: m.head(m.rnn(x.view(-1, 3, 2))[1][0]), rnn=nn.GRU(2, 5, batch_first=True), head=nn.Linear(5, 3)),
    "attention": lambda: Call(lambda m, x: m.head(m.a(*[x.view(-1, 3, 2)] * 3)[0].mean(1)),
                              a=nn.MultiheadAttention(2, 1, dropout=0.1, batch_first=True), head=nn.Linear(2, 3)),
    "transformer": lambda: Call(lambda m, x: m.head(m.e(x.view(-1, 3, 2)).mean(1)), head=nn.Linear(2, 3),
                                e=nn.TransformerEncoderLayer(2, 1, 8, batch_first=True)),
    "embedding": lambda: Call(lambda m, x: m.head(m.e((x[:, :2].abs() * 3).long().clamp(max=9)).mean(1)),
                              e=nn.Embedding(10, 4, padding_idx=0, max_norm=1.0), head=nn.Linear(4, 3)),
    "sparse_embedding": lambda: Call(lambda m, x: m.e((x[:, :2].abs() * 3).long().clamp(max=9)), e=nn.EmbeddingBag(10, 3, sparse=True)),
    "tied": lambda: tie(nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Linear(6, 3))),
    "shared": lambda: Call(lambda m, x: m.head(m.a(m.a(x))), a=nn.Linear(6, 6), head=nn.Linear(6, 3)),
    "checkpointed": lambda: Call(checkpointed, block=nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.2)), head=nn.Linear(6, 3)),
    "hooks_of_others": lambda: prehook(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))),
    "frozen": lambda: frozen(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))),
    "lazy": lambda: seq(nn.LazyLinear(8), nn.LazyBatchNorm1d(), nn.Tanh()),
    "complex": lambda: Call(lambda m, x: m.head(m.c(torch.view_as_complex(x.view(-1, 3, 2))).abs()),
                            c=nn.Linear(3, 4, dtype=torch.complex64), head=nn.Linear(4, 3)),
    "double": lambda: Call(lambda m, x: m.a(x.double()).float(), a=nn.Linear(6, 3, dtype=torch.float64)),
    "bfloat16": lambda: Call(lambda m, x: m.a(x.bfloat16()).float(), a=nn.Linear(6, 3, dtype=torch.bfloat16)),
    "custom_function": lambda: Call(lambda m, x: Scale.apply(m.a(x)), a=nn.Linear(6, 3)),
    "dictionary": lambda: Call(lambda m, x: m.p(x)["y"][0], p=Call(lambda m, x: {"y": (m.l(x) * 2, None), "x": x}, l=nn.Linear(6, 3))),
}


def tie(model):
    model[2].weight = model[0].weight
    return model


def batches(steps=5):
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        yield torch.randn(5, 6, generator=generator), torch.randint(0, 3, (5,), generator=generator)


def everything(model, optimizer):
    """All that training may change, as bytes or numbers."""
    def raw(value):
        if isinstance(value, torch.Tensor):
            value = value.detach().coalesce().to_dense() if value.is_sparse else value.detach()
            return str(value.dtype), tuple(value.shape), value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        if isinstance(value, dict):
            return [(key, raw(item)) for key, item in value.items()]
        return [raw(item) for item in value] if isinstance(value, (list, tuple)) else value

    state = model.state_dict(keep_vars=True)
    hooks = [len(h) for m in model.modules() for h in (m._forward_hooks, m._forward_pre_hooks, m._backward_hooks)]
    return [raw(state), [v.requires_grad for v in state.values()], [raw(v.grad) for v in state.values()],
            raw(optimizer.state_dict()), raw(torch.get_rng_state()), [m.training for m in model.modules()], hooks,
            random.getstate(), np.random.get_state()[1].tolist()]


class Safe(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name="run"):
        return os.path.join(self.folder.name, name)

    def train(self, build, watched, name="run", steps=5):
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        model = build()
        kind = torch.optim.SparseAdam if "EmbeddingBag" in repr(model) else torch.optim.Adam
        optimizer = kind(list(model.parameters()), lr=0.01)
        deck = tapedeck.watch(model, self.path(name), optimizer=optimizer, every=2, form="stats", to="sqlite") if watched else None
        for x, y in batches(steps):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            if deck:
                deck.step()
            with torch.no_grad():
                model(x)
        if deck:
            deck.finish()
        return everything(model, optimizer), deck

    def test_many_models_train_as_without(self):
        self.assertGreaterEqual(len(MODELS), 30)
        for name, build in MODELS.items():
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                bare, _ = self.train(build, False)
                watched, deck = self.train(build, True, name)
                for before, after in zip(bare, watched):
                    self.assertEqual(before == after, True, name)
                run = tapedeck.Run(deck.folder)
                self.assertEqual(run.problems, [])
                self.assertEqual([note for note in run.notes if note.startswith(("not_recorded", "loop_stopped"))], [], run.notes)
                self.assertTrue([s for s in run if s.endswith(".gradient")])
                self.assertTrue([s for s in run if s.endswith(".output")], list(run))

    def test_a_saved_model_has_nothing_of_tapedeck(self):
        def save(model):
            memory = io.BytesIO()
            torch.save(model, memory)
            return memory.getvalue()

        def network():
            torch.manual_seed(0)
            return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))

        bare, model = network(), network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = tapedeck.watch(model, self.path(), optimizer=optimizer, every=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(save(model), save(bare))
            saved = copy.deepcopy(model)
            for trained in (bare, model):
                other = torch.optim.SGD(trained.parameters(), lr=0.1) if trained is bare else optimizer
                for x, y in batches(2):
                    other.zero_grad()
                    F.cross_entropy(trained(x), y).backward()
                    other.step()
            self.assertEqual(save(model), save(bare))
        self.assertFalse(any("_compiled_call_impl" in vars(m) for m in saved.modules()))
        torch.save(model, self.path("model.pt"))
        torch.save(optimizer, self.path("optimizer.pt"))
        deck.finish()
        script = ("import sys, torch; assert not any('tapedeck' in p for p in sys.modules)\n"
                  "m = torch.load(sys.argv[1], weights_only=False); m(torch.ones(2, 6)); torch.load(sys.argv[2], weights_only=False)\n"
                  "torch.serialization.add_safe_globals([torch.nn.Sequential, torch.nn.Linear, torch.nn.BatchNorm1d])\n"
                  "torch.load(sys.argv[1])\nassert 'tapedeck' not in sys.modules")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run([sys.executable, "-c", script, self.path("model.pt"), self.path("optimizer.pt")], check=True,
                       env=environment, cwd=self.folder.name)

    # ---- elements ---------------------------------------------------------------------------------------------

    def test_every_type_of_element_is_right_or_refused_by_name(self):
        types = sorted({t for t in vars(torch).values() if isinstance(t, torch.dtype)}, key=str)
        wrong = {"float4", "bits", "quint", "qint", "uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7", "int1", "int2",
                 "int3", "int4", "int5", "int6", "int7"}
        with tapedeck.Deck(self.path()) as deck:
            deck.track("*", form="tensor", to="npy")
            kept, refused = {}, []
            for dtype in types:
                name = str(dtype).split(".")[1]
                try:
                    value = torch.tensor([0.0, 1.0, 0.5, 2.0]).to(dtype)
                except Exception:
                    value = torch.empty(4, dtype=dtype) if not name.startswith("q") else None
                if value is None:
                    continue
                try:
                    deck.record(name, value)
                    kept[name] = value
                except TypeError as error:
                    self.assertIn(name, str(error))
                    refused.append(name)
            deck.step()
        run = tapedeck.Run(deck.folder)
        for name, value in kept.items():
            if value.is_complex():
                both = run[f"{name}.real"].at(1) + 1j * run[f"{name}.imag"].at(1)
                np.testing.assert_array_equal(both, value.numpy() if name in ("complex64", "complex128") else value.to(torch.complex64).numpy())
            elif any(name.startswith(w) for w in wrong):  # PyTorch's own bytes
                np.testing.assert_array_equal(run[name].at(1).view(np.uint8), value.view(torch.uint8).numpy(), err_msg=name)
            elif name.startswith(("float8", "bfloat")):
                np.testing.assert_array_equal(run[name].at(1), value.float().numpy())
            else:
                np.testing.assert_array_equal(run[name].at(1), value.numpy(), err_msg=name)
        self.assertLessEqual({"float32", "complex32", "complex64", "float8_e4m3fn", "bfloat16", "int64", "bool"}, set(kept))
        self.assertEqual([name for name in refused if not any(name.startswith(w) for w in wrong)], [])

    def test_parts_of_complex_signals(self):
        build = MODELS["complex"]
        torch.manual_seed(0)
        model = build()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = tapedeck.watch(model, self.path(), optimizer=optimizer, every=1, form="tensor")
        kept = {}
        model.c.register_forward_hook(lambda m, i, o: (o.retain_grad(), kept.update(output=o)) and None)
        x, y = next(batches(1))
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        deck.step()
        deck.finish()
        run = tapedeck.Run(deck.folder)
        for part in ("real", "imag"):
            np.testing.assert_array_equal(run[f"c.{part}.output"].at(1), getattr(kept["output"].detach(), part).numpy())
            np.testing.assert_array_equal(run[f"c.{part}.error"].at(1), getattr(kept["output"].grad, part).numpy())
            np.testing.assert_array_equal(run[f"c.weight.{part}.gradient"].at(1), getattr(model.c.weight.grad, part).numpy())
            np.testing.assert_array_equal(run[f"c.weight.{part}"].at(1), getattr(model.c.weight.detach(), part).numpy())
            self.assertIn(f"c.weight.{part}.update", run)

    # ---- odd ways ---------------------------------------------------------------------------------------------

    def watched(self, model=None, **options):
        model = model or nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        options = {"every": 1, "form": "tensor", **options}
        return model, optimizer, tapedeck.watch(model, self.path(), optimizer=optimizer, **options)

    def test_vmap_of_a_watched_model(self):
        model, optimizer, deck = self.watched()
        x, y = next(batches(1))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            out = torch.func.vmap(model)(x)
            F.cross_entropy(out, y).backward()
            optimizer.step()
            deck.step()
            torch.func.vmap(model)(x)
            deck.step()
        deck.finish()
        said = [str(w.message) for w in said if "tapedeck" in str(w.message)]
        self.assertEqual(len(said), len(set(said)))
        notes = tapedeck.Run(deck.folder).notes
        self.assertIn("not_recorded.0.output", notes)
        self.assertTrue([s for s in said if "0.output is not recorded" in s], said)

    def test_losses_can_be_scripted_while_a_deck_is_open(self):
        model, optimizer, deck = self.watched()

        def loss(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(a, b) + F.mse_loss(a, a * 2)

        scripted = torch.jit.script(loss)
        x, y = next(batches(1))
        self.assertEqual(scripted(x, y).item(), loss(x, y).item())
        deck.finish()

    def test_replicas_of_a_watched_model_are_themselves(self):
        """As DataParallel makes them, on every device."""
        model, optimizer, deck = self.watched()
        model[0]._compiled_call_impl.has_replicas = True
        replica = model[0]._replicate_for_data_parallel()
        replica.weight, replica.bias = torch.zeros(8, 6), torch.ones(8)
        self.assertTrue(torch.equal(replica(torch.randn(5, 6)), torch.ones(5, 8)))
        deck.finish()

    def test_a_model_can_be_traced_while_it_is_watched(self):
        model, optimizer, deck = self.watched()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            graph = torch.fx.symbolic_trace(model)
        self.assertEqual([node.op for node in graph.graph.nodes], ["placeholder", *["call_module"] * 3, "output"])
        x, _ = next(batches(1))
        self.assertTrue(torch.equal(graph(x), model(x)))
        deck.finish()

    def test_a_scripted_model_trains_and_what_is_unseen_is_said(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, deck = self.train(lambda: torch.jit.script(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))), True)
        run = tapedeck.Run(deck.folder)
        self.assertIn("outputs and errors are not recorded", run.notes["scripted"])
        self.assertIn("0.weight.gradient", run)

    def test_an_optimizer_of_accelerate(self):
        try:
            from accelerate import Accelerator
        except ImportError:
            self.skipTest("Accelerate is not installed")

        accelerator = Accelerator(cpu=True)
        model, optimizer = accelerator.prepare(nn.Linear(6, 3), torch.optim.SGD)[0], None
        optimizer = accelerator.prepare(torch.optim.SGD(model.parameters(), lr=0.1))
        deck = tapedeck.watch(model, self.path(), optimizer=optimizer, every=1, form="tensor")
        x, y = next(batches(1))
        accelerator.backward(F.cross_entropy(model(x), y))
        optimizer.step()
        deck.step()
        deck.finish()
        run = tapedeck.Run(deck.folder)
        np.testing.assert_array_equal(run["weight.gradient"].at(1), model.weight.grad.numpy())
        np.testing.assert_allclose(run["weight.update"].at(1), -0.1 * run["weight.gradient"].at(1), atol=1e-7)

    def test_what_is_no_optimizer_is_said_and_leaves_no_folder(self):
        with self.assertRaisesRegex(TypeError, "optimizer is one of torch.optim"):
            tapedeck.watch(nn.Linear(6, 3), self.path(), optimizer=[3])
        self.assertFalse(os.path.exists(self.path()))

    def test_every_group_of_several_optimizers_has_its_learning_rate(self):
        model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3))
        first = torch.optim.SGD([{"params": model[0].parameters(), "lr": 1.0}, {"params": model[1].parameters(), "lr": 2.0}])
        second = torch.optim.SGD(model[2].parameters(), lr=3.0)
        names = {"list": ([first, second], ["learning_rate", "learning_rate_1", "learning_rate_2"]),
                 "dict": ({"a": first, "b": second}, ["learning_rate_a", "learning_rate_a_1", "learning_rate_b"])}
        for kind, (optimizers, expected) in names.items():
            deck = tapedeck.watch(model, self.path(kind), optimizer=optimizers)
            first.step()
            second.step()
            deck.step()
            deck.finish()
            run = tapedeck.Run(deck.folder)
            self.assertEqual([run[name].at(1, form="scalar") for name in expected], [1.0, 2.0, 3.0])

    def test_a_track_after_watch_counts_in_the_first_step(self):
        model, optimizer, deck = self.watched(log="")
        deck.track("*.output,*.error", form="tensor", to="npy")
        x, y = next(batches(1))
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        deck.step()
        deck.finish()
        run = tapedeck.Run(deck.folder)
        self.assertEqual((run["0.output"].first_step, run["0.error"].first_step), (1, 1))

    def epochs(self, close, name):
        """Two epochs of three steps; the steps in which outputs were recorded."""
        model = nn.Sequential(nn.Linear(6, 3), nn.Tanh())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = tapedeck.watch(model, self.path(name), optimizer=optimizer, every="1 epoch", form="tensor")
        for epoch in range(2):
            for i, (x, y) in enumerate(batches(3)):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                close(deck, i, False)
            close(deck, i, True)
        deck.finish()
        found = {}
        for name in ("0.output", "0.error", "0.weight.gradient", "0.weight.update", "0.weight"):
            path = os.path.join(deck.folder, f"{name}.steps.npy")
            found[name] = np.load(path).tolist() if os.path.exists(path) else []
        self.assertEqual(len({tuple(steps) for steps in found.values()}), 1, found)
        return found["0.output"]

    def test_every_epoch_records_its_last_step(self):
        def announced(deck, i, over):
            deck.step(last=i == 2) if not over else None

        def ended(deck, i, over):
            deck.end_epoch() if over else deck.step()

        def inferred(deck, i, over):
            deck.end_epoch() if over else None

        for close in (announced, ended, inferred):
            with self.subTest(close.__name__):
                self.assertEqual(self.epochs(close, close.__name__), [3, 6])

    def test_epochs_that_nobody_ends_are_said(self):
        with self.assertWarnsRegex(UserWarning, "no epoch ended: call deck.end_epoch"):
            self.assertEqual(self.epochs(lambda deck, i, over: None if over else deck.step(), "never"), [])

        def late(deck, i, over):
            if over:
                deck.log(validation=1.0)
                deck.end_epoch()
            else:
                deck.step()

        with self.assertWarnsRegex(UserWarning, "right after deck.step"):
            self.epochs(late, "late")

    def test_two_models_of_a_deck_need_a_prefix(self):
        model, optimizer, deck = self.watched()
        with self.assertRaisesRegex(ValueError, "give prefix"):
            tapedeck.watch(nn.Linear(6, 3), deck=deck)
        other = nn.Linear(6, 3)
        tapedeck.watch(other, deck=deck, prefix="other", every=1, form="tensor")
        with self.assertRaisesRegex(ValueError, "'other' already"):
            tapedeck.watch(other, deck=deck, prefix="other")
        deck.finish()

    def train_once(self, model, optimizer, deck):
        x, y = next(batches(1))
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        deck.step()

    def test_a_second_watch_finishes_the_first(self):
        """As a notebook's cell that is run twice does."""
        model, optimizer, first = self.watched()
        self.train_once(model, optimizer, first)
        with self.assertWarnsRegex(UserWarning, "recorded this model until now; it is finished"):
            second = tapedeck.watch(model, self.path(), optimizer=optimizer, every=1, form="tensor")
        self.assertEqual(tapedeck.Run(first.folder).state, "finished")
        self.train_once(model, optimizer, second)
        second.finish()
        for deck in (first, second):
            self.assertEqual(np.load(os.path.join(deck.folder, "0.error.steps.npy")).tolist(), [1])
        self.assertFalse(any("_compiled_call_impl" in vars(m) for m in model.modules()))

    def test_a_second_watch_leaves_a_deck_that_was_given_open(self):
        given = tapedeck.Deck(self.path("given"))
        model, other = nn.Linear(6, 3), nn.Linear(6, 3)
        tapedeck.watch(model, deck=given, prefix="a", every=1, form="tensor")
        tapedeck.watch(other, deck=given, prefix="b", every=1, form="tensor")
        with self.assertWarnsRegex(UserWarning, "recorded this model until now; it no longer does"):
            with tapedeck.watch(model, self.path(), every=1, form="tensor") as second:
                for each in (model, other):
                    F.cross_entropy(each(torch.ones(2, 6)), torch.zeros(2, dtype=torch.long)).backward()
                second.step()
                given.step()
        given.finish()
        self.assertEqual({name.partition(".")[0] for name in tapedeck.Run(given.folder) if name.endswith(".error")}, {"b"})
        self.assertIn("model.error", tapedeck.Run(second.folder))

    def test_parameters_that_are_added_later_are_reported(self):
        model, optimizer, deck = self.watched()
        self.train_once(model, optimizer, deck)
        model.append(nn.Linear(3, 3))
        optimizer.add_param_group({"params": model[-1].parameters()})
        with self.assertWarnsRegex(UserWarning, f"not recorded: {len(model) - 1}.weight, {len(model) - 1}.bias"):
            self.train_once(model, optimizer, deck)
        deck.finish()

    def test_several_updates_in_a_step_are_said(self):
        model, optimizer, deck = self.watched()
        deck.step()
        with self.assertWarnsRegex(UserWarning, "stepped several times in a step"):
            for x, y in batches(2):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
        deck.finish()

    def test_grad_of_modules_with_several_outputs(self):
        torch.manual_seed(0)
        model = Call(lambda m, x: m.head(m.rnn(x.view(-1, 3, 2))[0][:, -1]), rnn=nn.LSTM(2, 5, batch_first=True), head=nn.Linear(5, 3))
        x, y = next(batches(1))
        found = tapedeck.grad(model, F.cross_entropy, x, y, show=False)
        out, _ = model.rnn(x.view(-1, 3, 2))
        out.retain_grad()
        F.cross_entropy(model.head(out[:, -1]), y).backward()
        np.testing.assert_array_equal(found["rnn.0.error"], out.grad.numpy())
        self.assertNotIn("rnn.1.1.error", found)

    @unittest.skipUnless(hasattr(fsdp, "fully_shard"), "torch.distributed.fsdp.fully_shard needs PyTorch 2.6 or newer")
    def test_fully_sharded(self):
        """FSDP2 over gloo: each rank records its shard."""
        script = self.path("fsdp.py")
        with open(script, "w") as file:
            file.write(FSDP)
        environment = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(21000 + os.getpid() % 20000), WORLD_SIZE="2")
        processes = [subprocess.Popen([sys.executable, script, self.path()], env=dict(environment, RANK=str(rank)))
                     for rank in range(2)]
        self.assertEqual([p.wait(300) for p in processes], [0, 0])


FSDP = """
import sys, numpy as np, torch, tapedeck
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
def train(watched):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    deck = tapedeck.watch(model, sys.argv[1], optimizer=optimizer, every=1, form="tensor") if watched else None
    generator = torch.Generator().manual_seed(dist.get_rank())
    for i in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 6, generator=generator)).square().mean().backward()
        optimizer.step()
        if deck: deck.step()
    local = {n: p.detach().to_local().clone() for n, p in model.named_parameters()}
    if deck:
        deck.finish()
        run = tapedeck.Run(deck.folder)
        refused = [n for n in run.notes if n.startswith(("not_recorded", "loop_stopped"))]
        assert not refused, {n: run.notes[n] for n in refused}
        np.testing.assert_array_equal(run["0.weight"].at(3), local["0.weight"].numpy())
        np.testing.assert_array_equal(run["0.weight.gradient"].at(3), model[0].weight.grad.to_local().numpy())
        assert {"0.output", "0.error", "2.output", "2.error", "2.weight.update"} <= set(run), list(run)
    return local
a, b = train(False), train(True)
assert all(torch.equal(a[n], b[n]) for n in a)
dist.destroy_process_group()
"""

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    unittest.main()
