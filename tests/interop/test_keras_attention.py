"""Entropy, largest score and map of Keras's attention layers, against NumPy in double precision; training is what it is
without. KERAS_BACKEND chooses the backend; without it this runs itself once for each."""

import os
import subprocess
import sys
import tempfile
import unittest
import warnings

BACKENDS = ("tensorflow", "jax", "torch")

if "KERAS_BACKEND" not in os.environ:
    codes = [subprocess.run([sys.executable, *sys.argv], env=dict(os.environ, KERAS_BACKEND=backend)).returncode for backend in BACKENDS]
    sys.exit(max(codes))

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np

import tapedeck
from tapedeck import _keras_attention

BACKEND = keras.backend.backend()
if BACKEND == "tensorflow":  # sums in the same order every time
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
rng = np.random.default_rng(0)
X = rng.normal(size=(12, 6, 4)).astype("float32")
PADDED = X * (np.arange(6) < rng.integers(2, 7, 12)[:, None])[..., None]
Y = rng.integers(0, 3, 12)


def mha(name, causal=True, **options):
    return lambda q, k: keras.layers.MultiHeadAttention(2, 3, name=name, **options)(q, k, use_causal_mask=causal)


def grouped(name, **options):
    return lambda q, k: keras.layers.GroupQueryAttention(4, 4, 2, name=name, **options)(q, k, use_causal_mask=True)


def single(name, kind, causal=False, **options):
    return lambda q, k: kind(name=name, **options)([q, k], use_causal_mask=causal)


CAUSAL = ("causal", "dropout", "grouped", "grouped_dropout", "additive", "single_causal")
ATTENTION = {
    "plain": mha("plain", False),
    "causal": mha("causal"),
    "dropout": mha("dropout", dropout=0.2, seed=3),
    "grouped": grouped("grouped"),
    "grouped_dropout": grouped("grouped_dropout", dropout=0.2, seed=3),
    "single": single("single", keras.layers.Attention, use_scale=True),
    "single_causal": single("single_causal", keras.layers.Attention, True),
    "concat": single("concat", keras.layers.Attention, score_mode="concat"),
    "additive": single("additive", keras.layers.AdditiveAttention, True),
}


def model_of(attend, masked=False):
    """Layers of queries and of keys; both are outputs that the recorder sees."""
    a = keras.layers.Input((6, 4))
    b = keras.layers.Masking()(a) if masked else a
    q, k = keras.layers.Dense(4, name="q")(b), keras.layers.Dense(4, name="k")(b)
    flat = [keras.layers.Reshape((24,))(each(q, k)) for each in attend]
    return keras.Model(a, keras.layers.Dense(3, name="out")(keras.layers.Concatenate()(flat) if len(flat) > 1 else flat[0]))


def scores_of(name, q, k, weights):
    """In double precision, (examples, heads, queries, keys), from the outputs that were recorded and the weights of before."""
    q, k = q.astype("float64"), k.astype("float64")
    if "query.kernel" in weights:
        q = np.einsum("bqd,dnh->bnqh", q, weights["query.kernel"]) + weights["query.bias"][:, None]
        k = np.einsum("bkd,dnh->bnkh", k, weights["key.kernel"]) + weights["key.bias"][:, None]
        k = np.repeat(k, q.shape[1] // k.shape[1], 1)
        return q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scale = weights.get("scale", 1.0)
    if name in ("concat", "additive"):
        both = np.tanh(q[:, :, None] + k[:, None])
        return ((both * scale).sum(-1) if name == "additive" else both.sum(-1) * weights["concat_score_weight"])[:, None]
    return (q @ k.swapaxes(-1, -2) * scale)[:, None]


def expected_of(name, x, scores, masked):
    seen = np.ones(scores.shape, bool)
    if name in CAUSAL:
        seen &= np.tri(6, dtype=bool)
    if masked:
        there = (x != 0).any(-1)
        seen &= there[:, None, None, :] & there[:, None, :, None]
    counts = seen.any(-1)
    top = np.where(seen, scores, -np.inf).max((-2, -1))
    largest = np.where(counts, np.where(seen, scores, -np.inf).max(-1), 0)
    shares = np.where(seen, np.exp(np.where(seen, scores, -np.inf) - largest[..., None]), 0)
    shares /= np.maximum(shares.sum(-1, keepdims=True), 1e-300)
    each = -(shares * np.log(np.where(shares > 0, shares, 1))).sum(-1)
    return {"entropy": (each * counts).sum(-1) / counts.sum(-1), "max_logit": top, "map": shares}


class Attention(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def train(self, attend, name=None, masked=False, tracks=(), **compiled):
        keras.utils.set_random_seed(1)
        model = model_of(attend, masked)
        before = {layer.name: {".".join(v.path.split("/")[1:]): keras.ops.convert_to_numpy(v) for v in layer.weights} for layer in model.layers}
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), **{"jit_compile": False, **compiled})
        recorder = name and tapedeck.Recorder(os.path.join(self.folder.name, name), track=list(tracks) or [
            dict(what="*.entropy,*.max_logit,*.map,q.output,k.output", form="tensor", to="npy")])
        model.fit(PADDED if masked else X, Y, batch_size=8, epochs=2, verbose=0, shuffle=False, callbacks=[recorder] if recorder else [])
        return model.get_weights(), before, recorder and tapedeck.Run(recorder.folder)

    def assert_right(self, names, masked=False, exact=True, **options):
        """Weights are those without, and values those of the first step."""
        attend = [ATTENTION[name] for name in names]
        weights, before, run = self.train(attend, "run", masked, **options)
        if exact:
            bare, _, _ = self.train(attend, None, masked, **options)
            for a, b in zip(bare, weights):
                np.testing.assert_array_equal(a, b)
        self.assertEqual([note for note in run.notes if note.startswith("not_recorded")], [])
        for name in names:
            scores = scores_of(name, run["q.output"].at(1), run["k.output"].at(1), before[name])
            for word, value in expected_of(name, (PADDED if masked else X)[:8], scores, masked).items():
                found = run[f"{name}.{word}"].at(1)
                self.assertEqual(found.shape, value.shape, (name, word))
                np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-6 if word == "map" else 1e-7, err_msg=f"{name} {word}")

    def test_every_layer(self):
        self.assert_right(list(ATTENTION))

    def test_masks(self):
        for name in ("plain", "single_causal"):  # one each: of several layers that read a tensor, Keras gives its mask to one
            with self.subTest(name):
                self.assert_right([name], masked=True)

    def test_eagerly(self):
        self.assert_right(["causal"], run_eagerly=True)

    @unittest.skipIf(BACKEND == "torch", "compiles with Triton or not at all")
    def test_compiled_by_xla(self):
        self.assert_right(["causal", "single"], exact=False, jit_compile=True)

    def test_blocks_of_queries(self):
        plain = _keras_attention._BLOCK
        self.addCleanup(setattr, _keras_attention, "_BLOCK", plain)
        _keras_attention._BLOCK = 1
        self.assert_right(["causal"], masked=True)
        self.assert_right(["grouped"])

    def test_only_in_steps_that_want_it(self):
        calls, plain = [], _keras_attention._see
        self.addCleanup(setattr, _keras_attention, "_see", plain)
        _keras_attention._see = lambda parts, scores, mask, wants_map: (calls.append(wants_map), plain(parts, scores, mask, wants_map))
        tracks = [dict(what="causal.entropy", every=2, form="tensor", to="npy"), dict(what="causal.map", at=[4], form="image", to="png"),
                  dict(what="*.error", form="stats", to="sqlite")]
        _, _, run = self.train([ATTENTION["causal"]], "some", tracks=tracks, run_eagerly=True)
        self.assertEqual(calls, [False, True])
        self.assertEqual(sorted(name for name in run if name.startswith("causal.") and "error" not in name), ["causal.entropy", "causal.map"])
        self.assertEqual(len(os.listdir(os.path.join(run.folder, "images", "causal.map"))), 1)
        calls.clear()
        self.train([ATTENTION["causal"]], "none", tracks=tracks[2:], run_eagerly=True)
        self.assertEqual(calls, [])

    def test_what_cannot_be_recorded_is_reported(self):
        class Own(keras.layers.MultiHeadAttention):
            def _compute_attention(self, query, key, value, *arguments, **options):
                return value, None

        class InLoop(keras.layers.Layer):
            def build(self, shape):
                self.inside = keras.layers.MultiHeadAttention(2, 3, name="inside")
                self.inside.build(shape, shape)

            def call(self, q):
                return keras.ops.fori_loop(0, 2, lambda i, value: self.inside(value, value), q)

        cases = {"own": (lambda q, k: Own(2, 3, name="attention")(q, k), "has a _compute_attention of its own")}
        if BACKEND != "torch":  # whose loop is Python's
            cases["loop"] = (lambda q, k: InLoop(name="attention")(q), "inside")
        for name, (attend, text) in cases.items():
            with self.subTest(name), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                weights, _, run = self.train([attend], name, tracks=[dict(what="*.entropy", form="tensor", to="npy")])
                bare, _, _ = self.train([attend])
                for a, b in zip(bare, weights):
                    np.testing.assert_array_equal(a, b)
                found = [str(w.message) for w in caught if w.category is tapedeck.RecordingWarning and ".entropy" in str(w.message)]
                self.assertTrue([message for message in found if text in message], [str(w.message) for w in caught])
                self.assertTrue([note for note in run.notes if note.startswith("not_recorded.") and ".entropy" in note], run.notes)


if __name__ == "__main__":
    unittest.main()
