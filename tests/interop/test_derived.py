"""Signals that are computed on request, against NumPy in double precision, PyTorch's and Keras's own numbers."""

import os
import sqlite3
import sys
import tempfile
import unittest

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import load_file
from torch import nn

import tapedeck

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import Case  # noqa: E402

torch.set_num_threads(1)

SPECTRA = "*.spectral_norm,*.stable_rank,*.effective_rank"


class Recorded:
    """A run's scalars and NPY files."""

    def __init__(self, folder):
        self.folder = str(folder)
        with sqlite3.connect(os.path.join(self.folder, "run.db")) as database:
            self.kinds = dict(database.execute("select name, kind from signal"))
            self.values = {}
            for name, step, value in database.execute(
                    "select signal.name, step, value from scalar join signal on signal.id = scalar.signal order by step"):
                self.values.setdefault(name, {})[step] = value

    def tensor(self, name):
        return np.load(os.path.join(self.folder, f"{name.replace('/', '%2F').replace('@', '%40')}.npy")).astype(np.float64)


def spectrum(matrix):
    values = np.linalg.svd(matrix, compute_uv=False)
    shares = values / values.sum()
    shares = shares[shares > 1e-12]
    return {"spectral_norm": values[0], "stable_rank": (values**2).sum() / values[0] ** 2,
            "effective_rank": np.exp(-(shares * np.log(shares)).sum())}


def matrix_of(name, tensor, channels_first):
    """Features by everything else."""
    if not channels_first:
        return tensor.reshape(-1, tensor.shape[-1])
    activation = name.endswith((".output", ".error"))
    if activation and tensor.ndim == 4:
        return np.moveaxis(tensor, 1, -1).reshape(-1, tensor.shape[1])
    return tensor.reshape(-1, tensor.shape[-1]) if activation else tensor.reshape(tensor.shape[0], -1)


class Base(Case):
    def check_spectra(self, run, channels_first, least):
        compared = 0
        for name, values in run.values.items():
            source, _, word = name.rpartition(".")
            if word not in ("spectral_norm", "stable_rank", "effective_rank"):
                continue
            self.assertEqual(run.kinds[name], "derived")
            for (_, value), tensor in zip(values.items(), run.tensor(source), strict=True):
                expected = spectrum(matrix_of(source, tensor, channels_first))[word]
                self.assertAlmostEqual(value / expected, 1, delta=1e-5, msg=name)
                compared += 1
        self.assertGreaterEqual(compared, least)


class Torch(Base):
    def train(self, make, folder=None, steps=4, tracks=(), model=None):
        torch.manual_seed(0)
        model = model or nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 20), nn.ReLU(), nn.Linear(20, 4))
        optimizer = make(model.parameters())
        x, y = torch.randn(16, 1, 6, 6), torch.randint(0, 4, (16,))
        deck = None
        if folder:
            deck = tapedeck.watch(model, self.path(folder), optimizer=optimizer, every=1, log="", loop_checks=False)
            for what in tracks:
                deck.track(what, every=1, form="tensor", to="npy")
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if deck:
                deck.log(loss=loss)
                deck.step()
        if deck:
            deck.finish()
        return [p.detach().clone() for p in model.parameters()], deck and Recorded(deck.folder)

    def test_spectra_are_those_of_numpy(self):
        _, run = self.train(lambda p: torch.optim.Adam(p, 1e-2), "run", 2, [SPECTRA, "*"])
        self.check_spectra(run, True, 60)
        self.assertNotIn("0.bias.spectral_norm", run.kinds)

    def test_the_two_largest_singular_values_may_be_equal(self):
        deck = tapedeck.Deck(self.path("run"))
        deck.track(SPECTRA)
        generator = np.random.default_rng(0)
        q, _ = np.linalg.qr(generator.standard_normal((200, 200)))
        cases = {"equal": q[:, :50], "gaussian": generator.standard_normal((300, 200)), "one": np.outer(q[0], q[1]),
                 "zero": np.zeros((4, 5)), "decay": q * 0.9 ** np.arange(200)}
        for name, value in cases.items():
            deck.record(name, value)
        deck.record("nan", np.array([[1.0, np.nan], [2.0, 3.0]]))
        deck.record("large", np.ones((1100, 1100), "float32"))
        deck.step()
        deck.finish()
        run = Recorded(deck.folder)
        for name, value in cases.items():
            if name == "zero":
                self.assertEqual([run.values[f"zero.{word}"][1] for word in ("spectral_norm", "stable_rank", "effective_rank")],
                                 [0, 0, 0])
                continue
            for word, expected in spectrum(value).items():
                self.assertAlmostEqual(run.values[f"{name}.{word}"][1] / expected, 1, delta=1e-5, msg=f"{name}.{word}")
        self.assertNotIn("nan.spectral_norm", run.values)
        self.assertAlmostEqual(run.values["large.spectral_norm"][1], 1100, delta=1e-6)
        self.assertNotIn("large.effective_rank", run.values)
        with sqlite3.connect(os.path.join(run.folder, "run.db")) as database:
            (note,) = database.execute("select value from run where key = 'not_recorded.large.effective_rank'").fetchone()
        self.assertIn("at most 1024", note)

    def test_shares_that_smaller_formats_cannot_hold_are_those_of_pytorchs_conversions(self):
        formats = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float8_e4m3": torch.float8_e4m3fn,
                   "float8_e5m2": torch.float8_e5m2}
        generator = torch.Generator().manual_seed(0)
        wide = torch.randn(20000, generator=generator) * torch.exp2(torch.randint(-149, 128, (20000,), generator=generator).float())
        edges = torch.tensor([2.0**-25, 2.0**-24, 65504, 65519.996, 65520, 2.0**-134, 2.0**-133, 2.0**-10, 2.0**-9, 448, 464, 464.0001,
                              480, 2.0**-17, 57344, 61439.9, 61440, 3.3961775e38, 3.38e38, 0, -0.0, float("inf"), float("nan")])
        edges = torch.cat([edges, torch.nextafter(edges, torch.tensor(float("inf"))), torch.nextafter(edges, torch.tensor(0.0))])
        deck = tapedeck.Deck(self.path("run"))
        deck.track("*.*_underflow,*.*_overflow")
        tensors = {"wide": wide, "edges": torch.cat([edges, -edges])}
        for name, tensor in tensors.items():
            deck.record(name, tensor)
        deck.record("double", tensors["edges"].double())
        deck.step()
        deck.finish()
        run = Recorded(deck.folder)
        for name, tensor in {**tensors, "double": tensors["edges"]}.items():
            finite = tensor[torch.isfinite(tensor)]
            for word, dtype in formats.items():
                converted = finite.to(dtype).float()
                under = ((converted == 0) & (finite != 0)).double().mean().item()
                # PyTorch makes 448 of what is too large for e4m3, which has no infinity
                over = (finite.abs() > 464 if word == "float8_e4m3" else ~torch.isfinite(converted)).double().mean().item()
                self.assertAlmostEqual(run.values[f"{name}.{word}_underflow"][1], under, delta=1e-12, msg=f"{name} {word}")
                self.assertAlmostEqual(run.values[f"{name}.{word}_overflow"][1], over, delta=1e-12, msg=f"{name} {word}")
                self.assertGreater(under + over, 0)

    def test_optimizer_state(self):
        """Also that recording it changes no bit of a training."""
        optimizers = {
            "adam": lambda p: torch.optim.Adam(p, 1e-2), "amsgrad": lambda p: torch.optim.AdamW(p, 1e-2, amsgrad=True),
            "momentum": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9), "sgd": lambda p: torch.optim.SGD(p, 1e-2),
            "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-2, centered=True), "adagrad": lambda p: torch.optim.Adagrad(p, 1e-2),
            "nadam": lambda p: torch.optim.NAdam(p, 1e-2), "adamax": lambda p: torch.optim.Adamax(p, 1e-2)}
        words = "*.moment*,*.step_size,*.update_ratio,*.gradient_cosine,*.weight,*.weight.gradient"
        for name, make in optimizers.items():
            with self.subTest(name):
                bare, _ = self.train(make)
                recorded, run = self.train(make, name, tracks=[words])
                self.assertTrue(all(torch.equal(a, b) for a, b in zip(bare, recorded)))
                self.check_state(run, name)

    def check_state(self, run, name):
        weights, gradients = run.tensor("3.weight"), run.tensor("3.weight.gradient")
        ratio = run.values["3.weight.update_ratio"]
        for step in (2, 3, 4):
            expected = np.linalg.norm(weights[step - 1] - weights[step - 2]) / np.linalg.norm(weights[step - 1])
            self.assertAlmostEqual(ratio[step] / expected, 1, delta=1e-5)
        if name in ("adam", "amsgrad", "momentum", "nadam", "adamax"):
            moments = run.tensor("3.weight.moment1")
            cosine = run.values["3.weight.gradient_cosine"]
            self.assertNotIn(1, cosine)  # there was no momentum yet
            for step in (2, 3, 4):
                a, b = moments[step - 2].ravel(), gradients[step - 1].ravel()
                self.assertAlmostEqual(cosine[step] / (a @ b / np.linalg.norm(a) / np.linalg.norm(b)), 1, delta=1e-5)
        keep = {"adam": 0.999, "amsgrad": 0.999, "nadam": 0.999, "rmsprop": 0.99}
        if name in keep:
            square = np.zeros_like(gradients[0])
            for step in range(4):
                square = keep[name] * square + (1 - keep[name]) * gradients[step] ** 2
                np.testing.assert_allclose(run.tensor("3.weight.moment2")[step], square, rtol=1e-5, atol=1e-20)
        if name in ("adam", "adamax"):  # an update is the step size times the moment
            np.testing.assert_allclose(weights[1:] - weights[:-1], -run.tensor("3.weight.step_size")[1:] * moments[1:], rtol=1e-3, atol=1e-6)
        if name == "sgd":
            self.assertNotIn("3.weight.moment1", run.kinds)
            self.assertEqual(set(run.tensor("3.weight.step_size").ravel()), {float(np.float32(1e-2))})

    def test_a_glob_alone_does_not_ask_for_what_is_derived(self):
        _, run = self.train(lambda p: torch.optim.Adam(p, 1e-2), "run", 2, ["*", "0.*", "*.*"])
        self.assertFalse([name for name, kind in run.kinds.items() if kind == "derived"])

    def test_a_condition_may_speak_of_it(self):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        deck = tapedeck.watch(model, self.path("run"), optimizer=optimizer, log="", loop_checks=False)
        deck.track("*.output", when="weight.spectral_norm > 0 and weight.update_ratio > 0", form="tensor", to="npy")
        for _ in range(2):
            model(torch.ones(4, 3)).square().mean().backward()
            optimizer.step()
            deck.step()
        deck.finish()
        run = Recorded(deck.folder)
        self.assertEqual(len(run.tensor("model.output")), 2)


class Native(Base):
    EXPERIMENT = """
name: native
threads: 1
data: {{train: data.npz, label: {{x: x, y: y}}, batch: 8, shuffle: false}}
model:
  - dense: {{name: hidden, units: 12, activation: tanh}}
  - dense: {{name: logits, units: 3}}
train:
  loss: sparse_categorical_crossentropy
  from_logits: true
  optimizer: {optimizer}
  steps: 4
record:
{record}
"""
    STATE = """
  - {what: ["*.moment*", "*.step_size", "*.update_ratio", "*.gradient_cosine", "*.spectral_norm", "*.stable_rank", "*.effective_rank"], form: tensor, to: [npy]}
  - {what: [input, prediction, "*.kernel", "*.gradient", "*.output", "*.preactivation", "*.error", "*.update"], form: tensor, to: [npy]}
"""

    def setUp(self):
        super().setUp()
        generator = np.random.default_rng(0)
        np.savez(self.path("data.npz"), x=generator.standard_normal((32, 5)).astype("float32"), y=generator.integers(0, 3, 32).astype("int32"))

    def run_state(self, name, optimizer, record):
        self.write("e.yaml", self.EXPERIMENT.format(optimizer=optimizer, record=record).replace("name: native", f"name: {name}"))
        self.run_program("train", "e.yaml", "--quiet")
        return Recorded(self.path(f"runs/{name}"))

    def test_optimizer_state_and_spectra(self):
        for name, optimizer in {"adam": "{adam: {learning_rate: 0.01}}", "momentum": "{sgd: {learning_rate: 0.1, momentum: 0.9}}",
                                "rmsprop": "{rmsprop: {}}", "adamax": "{adamax: {}}", "adadelta": "{adadelta: {}}"}.items():
            with self.subTest(name):
                run = self.run_state(name, optimizer, self.STATE)
                bare = self.run_state(f"{name}-bare", optimizer, "  - {what: loss, to: [csv]}\n")
                a, b = (load_file(os.path.join(each.folder, "model.safetensors")) for each in (run, bare))
                self.assertEqual({key: value.tobytes() for key, value in a.items()},
                                 {key: value.tobytes() for key, value in b.items()})
                self.check_spectra(run, False, 60)
                self.check_state(run, name)

    def check_state(self, run, name):
        weights, updates, gradients = (run.tensor("hidden.kernel" + end) for end in ("", ".update", ".gradient"))
        for step, ratio in run.values["hidden.kernel.update_ratio"].items():
            expected = np.linalg.norm(updates[step - 1]) / np.linalg.norm(weights[step - 1])
            self.assertAlmostEqual(ratio / expected, 1, delta=1e-5)
        has = {word for word in ("moment1", "moment2", "step_size", "gradient_cosine") if f"hidden.kernel.{word}" in run.kinds}
        if "gradient_cosine" in has:
            moments = run.tensor("hidden.kernel.moment1")
            cosines = run.values["hidden.kernel.gradient_cosine"]
            self.assertNotIn(1, cosines)
            for step in (2, 3, 4):
                a, b = moments[step - 2].ravel(), gradients[step - 1].ravel()
                expected = (a @ b / np.linalg.norm(a) / np.linalg.norm(b)) * (-1 if name == "momentum" else 1)
                self.assertAlmostEqual(cosines[step], expected, delta=1e-5 * abs(expected))
        if name in ("adam", "adamax"):
            np.testing.assert_allclose(updates, -run.tensor("hidden.kernel.step_size") * moments, rtol=1e-3, atol=2e-7)
        if name in ("rmsprop", "adagrad"):
            np.testing.assert_allclose(updates, -run.tensor("hidden.kernel.step_size") * gradients, rtol=1e-3, atol=2e-7)
        if name == "adam":
            np.testing.assert_allclose(run.tensor("hidden.kernel.moment2")[0], 0.001 * gradients[0] ** 2, rtol=1e-5)
        self.assertEqual("step_size" in has, name != "adadelta")
        self.assertEqual("moment1" in has, name not in ("adagrad", "adadelta", "rmsprop"))

    def test_a_wrong_word_is_reported_before_training(self):
        self.write("e.yaml", self.EXPERIMENT.format(optimizer="{adam: {}}", record="  - {what: hidden.kernel.spectral_nrom}\n"))
        self.assertIn("no signal 'hidden.kernel.spectral_nrom'", self.run_program("train", "e.yaml", status=2).stderr)


class NativeRows(Case):
    """What of a batch is asked: attention of each head, the loss of each row."""

    EXPERIMENT = """
name: NAME
threads: 2
data: {train: data.npz, label: {x: x, y: y}, batch: 8, shuffle: false}
model:
  - multi_head_attention: {name: attention, heads: 2, key_dim: 4, OPTIONS}
  - flatten:
  - dense: {name: logits, units: 3}
train:
  loss: sparse_categorical_crossentropy
  from_logits: true
  optimizer: {adam: {learning_rate: 0.05}}
  steps: 4
record:
RECORD
"""
    RECORD = """
  - {what: [input, prediction, logits.output, label, "attention.*kernel", "attention.*bias", attention.entropy, attention.max_logit, attention.map, loss.rows], form: tensor, to: [npy]}
  - {what: loss.rows, form: rows, to: [csv]}
  - {what: loss, to: [csv]}
"""

    def run_with(self, name, options, record):
        self.write("e.yaml", self.EXPERIMENT.replace("NAME", name).replace("OPTIONS", options).replace("RECORD", record))
        self.run_program("train", "e.yaml", "--quiet", "--out", name)
        return Recorded(self.path(name, name))

    def test_against_numpy(self):
        generator = np.random.default_rng(0)
        np.savez(self.path("data.npz"), x=generator.standard_normal((32, 6, 5)).astype("float32"), y=generator.integers(0, 3, 32).astype("int32"))
        for name, options in {"plain": "causal: false", "causal": "causal: true", "dropped": "dropout: 0.3"}.items():
            with self.subTest(name):
                run = self.run_with(name, options, self.RECORD)
                self.check_attention(run, name == "causal")
                self.check_rows(run)
        with tempfile.TemporaryDirectory():
            bare = self.run_with("dropped-bare", "dropout: 0.3", "  - {what: loss, to: [csv]}")
        a, b = (load_file(os.path.join(each.folder, "model.safetensors")) for each in (run, bare))
        self.assertEqual({key: value.tobytes() for key, value in a.items()}, {key: value.tobytes() for key, value in b.items()})

    def test_weights_that_attention_does_not_keep(self):
        generator = np.random.default_rng(0)
        np.savez(self.path("data.npz"), x=2 * generator.standard_normal((16, 260, 3)).astype("float32"), y=generator.integers(0, 3, 16).astype("int32"))
        text = self.EXPERIMENT.replace("heads: 2, key_dim: 4, OPTIONS", "heads: 8, key_dim: 4, causal: true").replace("steps: 4", "steps: 2")
        self.write("e.yaml", text.replace("NAME", "long").replace("RECORD", self.RECORD))
        self.run_program("train", "e.yaml", "--quiet")
        self.check_attention(Recorded(self.path("runs", "long")), True)

    def check_attention(self, run, causal):
        x = run.tensor("input")[1]
        weights = {key: run.tensor(f"attention.{key}")[0] for key in ("query_kernel", "query_bias", "key_kernel", "key_bias")}
        q = np.einsum("btf,fhd->bhtd", x, weights["query_kernel"]) + weights["query_bias"][None, :, None]
        k = np.einsum("btf,fhd->bhtd", x, weights["key_kernel"]) + weights["key_bias"][None, :, None]
        scores = q @ np.swapaxes(k, 2, 3) / 2
        scores = np.where(np.tril(np.ones((x.shape[1], x.shape[1]))) > 0, scores, -np.inf) if causal else scores
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        entropy = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(-1).mean(-1)
        np.testing.assert_allclose(run.tensor("attention.entropy")[1], entropy, rtol=1e-5)
        np.testing.assert_allclose(run.tensor("attention.max_logit")[1], scores.max((2, 3)), rtol=1e-5)
        np.testing.assert_allclose(run.tensor("attention.map")[1], p, rtol=1e-4, atol=1e-6)

    def check_rows(self, run):
        logits, labels = run.tensor("logits.output"), run.tensor("label").astype(int)
        losses = [F.cross_entropy(torch.tensor(a), torch.tensor(b.reshape(-1)), reduction="none").numpy() for a, b in zip(logits, labels)]
        np.testing.assert_allclose(run.tensor("loss.rows"), losses, rtol=1e-5)
        np.testing.assert_allclose(list(run.values["loss"].values()), np.mean(losses, axis=1), rtol=1e-5)
        with open(os.path.join(run.folder, "loss.rows.csv"), encoding="utf-8") as file:
            rows = [line.split(",") for line in file.read().splitlines()]
        self.assertEqual(rows[0], ["epoch", "step", "sample", "rows_0"])
        self.assertEqual([int(row[2]) for row in rows[1:]], list(range(32)))


class Block(nn.Module):
    """Attention as most write it: projections of its own around scaled_dot_product_attention."""

    def __init__(self, causal):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.causal = causal

    def forward(self, x):
        q, k, v = (layer(x).unflatten(-1, (2, 4)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).flatten(2)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = F.relu(self.linear(x))
        return (x + y) + y * 0.5


class Transformer(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.embed, self.block = nn.Embedding(11, 8), Block(True)
        self.attention, self.head, self.weights = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 11), weights

    def forward(self, tokens, padding):
        x = self.embed(tokens)
        x = x + self.block(x)
        y, _ = self.attention(x, x, x, key_padding_mask=padding, need_weights=self.weights)
        return self.head(x + y)


class TorchRows(Base):
    def setUp(self):
        super().setUp()
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(0, 11, (24, 7), generator=generator)
        self.padding = torch.arange(7)[None] >= torch.randint(4, 8, (24, 1), generator=generator)
        self.targets = torch.where(self.padding, -100, (self.tokens * 3) % 11)

    def train(self, folder, weights=False, workers=0):
        torch.manual_seed(0)
        model = Transformer(weights)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        data = torch.utils.data.TensorDataset(self.tokens, self.padding, self.targets)
        loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=workers, generator=torch.Generator().manual_seed(1))
        deck, expected = None, []
        if folder:
            deck = tapedeck.watch(model, self.path(folder), optimizer=optimizer, every=1, log="", loop_checks=False)
            deck.track("loss.rows,*.entropy,*.max_logit,*.map", form="tensor", to="npy")
            deck.track("loss.rows", form="rows", to="csv")
        for _ in range(2):
            for tokens, padding, targets in loader:
                logits = model(tokens, padding)
                loss = F.cross_entropy(logits.view(-1, 11), targets.view(-1))
                optimizer.zero_grad()
                with torch.no_grad():
                    each = F.cross_entropy(logits.double().transpose(1, 2), targets, reduction="none")
                    rows = [next(i for i, known in enumerate(self.tokens) if torch.equal(known, one)) for one in tokens]
                    expected.append((rows, each.sum(1) / (targets >= 0).sum(1), *self.heads(model, tokens, padding)))
                loss.backward()
                optimizer.step()
                if deck:
                    deck.log(loss=loss)
                    deck.step()
        if deck:
            deck.finish()
        return [p.detach().clone() for p in model.parameters()], deck and Recorded(deck.folder), expected

    def heads(self, model, tokens, padding):
        """Entropies, largest scores and weights in double precision, of both attentions."""
        def of(q, k, mask):
            scores = (q.double() @ k.double().transpose(-2, -1) / 2).masked_fill(~mask, -torch.inf)
            p = scores.softmax(-1)
            return torch.special.entr(p).sum(-1).mean(-1), scores.amax((-2, -1)), p

        x = model.embed(tokens)
        split = lambda y: y.unflatten(-1, (2, 4)).transpose(1, 2)  # noqa: E731
        first = of(split(model.block.q(x)), split(model.block.k(x)), torch.ones(7, 7).tril() > 0)
        x = x + model.block(x)
        q, k, _ = F.linear(x, model.attention.in_proj_weight, model.attention.in_proj_bias).chunk(3, -1)
        return first, of(split(q), split(k), ~padding[:, None, None])

    def test_attention_and_rows(self):
        for weights, workers in ((False, 0), (True, 2)):
            with self.subTest(weights=weights):
                bare, _, _ = self.train(None, weights, workers)
                recorded, run, expected = self.train(f"run{weights}", weights, workers)
                self.assertTrue(all(torch.equal(a, b) for a, b in zip(bare, recorded)))
                for name, which in (("block", 2), ("attention", 3)):
                    for i, word in enumerate(("entropy", "max_logit", "map")):
                        wanted = torch.stack([each[which][i] for each in expected])
                        np.testing.assert_allclose(run.tensor(f"{name}.{word}"), wanted, rtol=1e-5, atol=1e-6 if word == "map" else 0)
                np.testing.assert_allclose(run.tensor("loss.rows"), torch.stack([each[1] for each in expected]), rtol=1e-5)
                with open(os.path.join(run.folder, "loss.rows.csv"), encoding="utf-8") as file:
                    rows = [int(line.split(",")[2]) for line in file.read().splitlines()[1:]]
                self.assertEqual(rows, [row for each in expected for row in each[0]])
        self.assertEqual(F.softmax.__module__, "torch.nn.functional")
        self.assertFalse(hasattr(F.scaled_dot_product_attention, "__wrapped__"))

    def test_functions_between_modules(self):
        def train(folder):
            torch.manual_seed(0)
            model = nn.Sequential(Residual(), Residual())
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            x = torch.randn(5, 4)
            deck = folder and tapedeck.watch(model, self.path(folder), optimizer=optimizer, log="", loop_checks=False, functions=True)
            if deck:
                deck.track("*.output,*.error", at=[2], form="tensor", to="npy")
            for _ in range(3):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
                if deck:
                    deck.step()
            if deck:
                deck.finish()
            return [p.detach().clone() for p in model.parameters()], deck and Recorded(deck.folder)

        bare, _ = train(None)
        recorded, run = train("run")
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(bare, recorded)))
        functions = {name for name in run.kinds if "/" in name}
        self.assertEqual(functions, {f"{i}/{word}.{kind}" for i in (0, 1) for word in ("relu", "mul", "add", "add@1") for kind in ("output", "error")})
        linear, relu, add = (run.tensor(name) for name in ("0.linear.output", "0/relu.output", "0/add.output"))
        np.testing.assert_array_equal(relu, np.maximum(linear, 0))
        np.testing.assert_allclose(run.tensor("0/add@1.output"), add + 0.5 * relu, rtol=1e-6)
        np.testing.assert_array_equal(run.tensor("0/mul.error"), run.tensor("0/add@1.error"))
        self.assertEqual(torch.overrides._get_current_function_mode_stack() if hasattr(torch.overrides, "_get_current_function_mode_stack") else [], [])

    def test_the_history_of_the_loss_scale(self):
        model = nn.Linear(4, 3)
        optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
        deck = tapedeck.watch(model, self.path("run"), optimizer=optimizer, scaler=scaler, log="", loop_checks=False)
        deck.track("loss_scale")
        for i in range(6):
            optimizer.zero_grad()
            scaler.scale(model(torch.full((2, 4), float("inf") if i == 3 else 1.0)).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            deck.step()
        deck.finish()
        self.assertEqual(Recorded(deck.folder).values["loss_scale"], {1: 1024, 2: 1024, 3: 2048, 5: 1024, 6: 1024})  # step 4 was skipped

    def test_losses_of_torch(self):
        x, generator = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.Generator().manual_seed(1)
        targets = torch.rand(6, 3, generator=generator)
        cases = {"mse": F.mse_loss, "smooth_l1": F.smooth_l1_loss, "huber": lambda a, b, **more: F.huber_loss(a, b, delta=0.3, **more),
                 "bce": F.binary_cross_entropy_with_logits,
                 "weighted": lambda a, b, **more: F.binary_cross_entropy_with_logits(a, b, pos_weight=torch.tensor([1.0, 2, 3]), **more)}
        for name, function in cases.items():
            with self.subTest(name):
                model = nn.Linear(4, 3)
                optimizer = torch.optim.SGD(model.parameters(), 0.1)
                deck = tapedeck.watch(model, self.path(name), optimizer=optimizer, log="", loop_checks=False)
                deck.track("loss.rows", form="tensor", to="npy")
                output = model(x)
                (function(output, targets) / 4).backward()
                optimizer.step()
                deck.step()
                deck.finish()
                wanted = function(output.detach().double(), targets.double(), reduction="none").mean(1)
                np.testing.assert_allclose(Recorded(deck.folder).tensor("loss.rows")[0], wanted, rtol=1e-5)


class Keras(Base):
    def test_moments(self):
        os.environ.setdefault("KERAS_BACKEND", "tensorflow")
        import keras

        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="first")])
        model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
        x = np.random.default_rng(0).standard_normal((16, 4)).astype("float32")
        recorder = tapedeck.Recorder(self.path("run"), track=[
            dict(what="*.moment*,*.update_ratio,*.kernel,*.kernel.gradient", every=1, form="tensor", to="npy")])
        model.fit(x, x[:, :3], batch_size=8, epochs=2, verbose=0, callbacks=[recorder])
        run = Recorded(recorder.folder)
        gradients, weights = run.tensor("first.kernel.gradient"), run.tensor("first.kernel")
        first = second = 0
        for step in range(4):
            first, second = 0.9 * first + 0.1 * gradients[step], 0.999 * second + 0.001 * gradients[step] ** 2
            np.testing.assert_allclose(run.tensor("first.kernel.moment1")[step], first, rtol=1e-4, atol=1e-8)
            np.testing.assert_allclose(run.tensor("first.kernel.moment2")[step], second, rtol=1e-4, atol=1e-10)
        for step in (2, 3, 4):
            expected = np.linalg.norm(weights[step - 1] - weights[step - 2]) / np.linalg.norm(weights[step - 1])
            self.assertAlmostEqual(run.values["first.kernel.update_ratio"][step] / expected, 1, delta=1e-5)


if __name__ == "__main__":
    unittest.main()
