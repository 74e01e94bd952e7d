"""What the first loss of a Keras training that is not finite came from, by layer, row and kind of operation, and other facts of its
model, loss and data that `tapedeck diagnose` judges. KERAS_BACKEND chooses the backend; without it this runs itself once for each."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

if "KERAS_BACKEND" not in os.environ:
    for backend in ("tensorflow", "torch", "jax"):
        done = subprocess.run([sys.executable, *sys.argv], env=dict(os.environ, KERAS_BACKEND=backend))
        if done.returncode:
            sys.exit(done.returncode)
    sys.exit(0)

import keras  # noqa: E402
import numpy  # noqa: E402
from keras import layers, ops  # noqa: E402

import tapedeck  # noqa: E402

ROWS = 160


class Unit(layers.Layer):
    """Rows of length 1; of zeros there is none."""

    def call(self, x):
        return x / ops.sqrt(ops.sum(x * x, axis=-1, keepdims=True))


class Exponential(layers.Layer):
    def call(self, x):
        return ops.exp(x * 400.0)


class Difference(keras.losses.Loss):
    """Nothing brings (N, 1) and (N,) together."""

    def call(self, y_true, y_pred):
        return ops.mean(ops.square(y_pred - y_true), axis=-1)


def logarithm(y_true, y_pred):
    return -ops.mean(ops.log(ops.where(ops.reshape(y_true, (-1, 1)) > 9, 0.0, 1.0)) + 0 * y_pred)


class KerasLoop(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        keras.utils.set_random_seed(1)
        self.numbers = numpy.random.default_rng(1)

    def diagnose(self, model, x, y, loss, **options):
        model.compile(keras.optimizers.SGD(0.01), loss)
        recorder = tapedeck.Recorder(os.path.join(self.folder.name, "run"), every=5, form="stats")
        model.fit(x, y, batch_size=32, epochs=options.pop("epochs", 2), verbose=0, callbacks=[recorder], **options)
        done = subprocess.run([os.environ["TAPEDECK"], "diagnose", recorder.folder, "--json"], capture_output=True, text=True, timeout=60)
        found = json.loads(done.stdout)
        self.assertNotIn("facts about the loop end", " ".join(found["notes"]))
        return [finding for finding in found["findings"] if finding["confidence"] != "maybe"]

    def values(self, width=5):
        x = self.numbers.normal(size=(ROWS, width)).astype("float32")
        return x, (x[:, 0] - x[:, 1]).astype("float32")

    def origin(self, model, x, y, loss="mse"):
        first = self.diagnose(model, x, y, loss)[0]
        return first["cause"], *(first["origin"][key] for key in ("cause", "layer", "row"))

    def test_a_division_names_its_layer_and_row(self):
        x, y = self.values()
        x[77] = 0
        model = keras.Sequential([keras.Input((5,)), Unit(name="unit"), layers.Dense(8, activation="tanh"), layers.Dense(1)])
        self.assertEqual(self.origin(model, x, y), ("division_by_zero", "layer", "unit", 77))

    def test_an_overflow_names_its_layer_and_row(self):
        x, y = self.values()
        x *= 0.001
        x[41] = 3
        model = keras.Sequential([keras.Input((5,)), layers.Dense(4, kernel_initializer="ones", name="first"), Exponential(name="grow"),
                                  layers.Dense(1)])
        self.assertEqual(self.origin(model, x, y), ("overflow", "layer", "grow", 41))

    def test_a_logarithm_in_the_loss_names_its_row(self):
        x, y = self.values()
        y[100] = 10
        model = keras.Sequential([keras.Input((5,)), layers.Dense(8, activation="relu"), layers.Dense(1, name="out")])
        self.assertEqual(self.origin(model, x, y, logarithm), ("division_by_zero", "loss", "out", 100))

    def test_weights_that_a_large_rate_blows_up_are_no_operation(self):
        x, y = self.values()
        model = keras.Sequential([keras.Input((5,)), layers.Dense(8, activation="relu"), layers.Dense(1)])
        model.compile(keras.optimizers.SGD(1e4), "mse")
        recorder = tapedeck.Recorder(os.path.join(self.folder.name, "fast"), every=5, form="stats")
        model.fit(x, y, batch_size=32, epochs=3, verbose=0, callbacks=[recorder])
        done = subprocess.run([os.environ["TAPEDECK"], "diagnose", recorder.folder, "--json"], capture_output=True, text=True, timeout=60)
        self.assertEqual(json.loads(done.stdout)["findings"][0]["cause"], "learning_rate_too_high")

    def test_a_loss_of_the_users_that_broadcasts(self):
        x, y = self.values()
        for target, wanted in ((y, ["broadcast_in_loss"]), (y[:, None], [])):
            model = keras.Sequential([keras.Input((5,)), layers.Dense(8, activation="relu"), layers.Dense(1)])
            self.assertEqual([f["cause"] for f in self.diagnose(model, x, target, Difference(), epochs=8)][:1], wanted)

    def test_values_in_another_order_than_their_examples(self):
        x, y = self.values()
        for target, wanted in ((self.numbers.permutation(y), ["bad_labels"]), (y, [])):
            model = keras.Sequential([keras.Input((5,)), layers.Dense(8, activation="relu"), layers.Dense(1)])
            self.assertEqual([f["cause"] for f in self.diagnose(model, x, target, "mse", epochs=8)][:1], wanted)

    def test_indices_of_words_have_no_size_and_no_neighbours(self):
        x = self.numbers.integers(0, 400, (ROWS, 6)).astype("int32")
        y = (x[:, 0] % 2).astype("int64")
        model = keras.Sequential([keras.Input((6,), dtype="int32"), layers.Embedding(400, 8), layers.Flatten(), layers.Dense(2)])
        found = self.diagnose(model, x, y, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        self.assertFalse({f["cause"] for f in found} & {"bad_labels", "unscaled_inputs"}, found)


if __name__ == "__main__":
    unittest.main()
