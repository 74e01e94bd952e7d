"""What the first loss of a Keras training that is not finite came from, by layer, row and kind of operation, and other facts of its
model, loss and data that `tapedeck diagnose` judges. KERAS_BACKEND chooses the backend; without it this runs itself once for each."""

import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
import warnings

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


class Draws(layers.Layer):
    """Draws in inference too, as some autoencoders do."""

    def call(self, x):
        return x + 0.01 * draw(ops.shape(x))


def draw(shape):
    """From every generator that a program may use without holding one."""
    drawn = keras.random.normal(()) + random.gauss(0, 1) + float(numpy.random.normal())
    if keras.backend.backend() == "tensorflow":
        import tensorflow

        drawn = drawn + tensorflow.random.normal(()) + tensorflow.random.get_global_generator().normal(())
    elif keras.backend.backend() == "torch":
        import torch

        drawn = drawn + torch.randn(())
    return drawn


class DrawingLoss(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return ops.mean(ops.square(y_pred - y_true), axis=-1) * (1.0 + 0.1 * draw(()))


class CountingLoss(keras.losses.Loss):
    """Weighs by how often it was called."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def call(self, y_true, y_pred):
        self.calls += 1
        return ops.mean(ops.square(y_pred - y_true), axis=-1) * self.calls


held = numpy.random.default_rng(5)


class HoldingLoss(keras.losses.Loss):
    """Draws from a generator that no call may touch."""

    def call(self, y_true, y_pred):
        return ops.mean(ops.square(y_pred - y_true), axis=-1) * (1.0 + 0.1 * float(held.normal()))


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

    def train(self, make_loss, draws, folder, broken=False, eager=True):
        """Weights and the next random numbers after two trainings, with a recorder in a folder or without."""
        global held
        keras.utils.set_random_seed(3)
        held = numpy.random.default_rng(5)
        if keras.backend.backend() == "tensorflow":
            import tensorflow

            tensorflow.random.set_global_generator(tensorflow.random.Generator.from_seed(7))
        numbers = numpy.random.default_rng(2)
        x, y = numbers.normal(size=(64, 4)).astype("float32"), numbers.normal(size=64).astype("float32")
        if draws == "classes":
            y = (x[:, 0] > 0).astype("int32")
        if broken:
            x[30] = 0
        model = keras.Sequential([keras.Input((4,)), *([Unit()] if broken else []), layers.Dense(8, activation="tanh"),
                                  *([Draws()] if draws else []), layers.Dense(2 if draws == "classes" else 1)])
        model.compile(keras.optimizers.SGD(0.01), make_loss(), run_eagerly=eager)
        for part in range(2):
            recorder = [tapedeck.Recorder(os.path.join(folder, str(part)), track=[])] if folder else []
            model.fit(x, y, batch_size=16, epochs=2, verbose=0, callbacks=recorder, validation_data=(x[:32], y[:32]))
        rest = [float(ops.convert_to_numpy(draw(()))) for _ in range(3)] + [held.normal()]
        return [w.tobytes() for w in model.get_weights()] + rest

    def test_nothing_that_is_called_beside_the_training_changes_it(self):
        entropy = lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True)  # noqa: E731
        eager = keras.backend.backend() != "jax"  # which compiles what draws from generators of its own once
        for make_loss, draws, broken in ((DrawingLoss, None, False), (CountingLoss, None, False), (HoldingLoss, None, False),
                                         (Difference, None, False), (entropy, "classes", False), (Difference, "values", True)):
            for run_eagerly in (True, False) if eager else (False,):
                with self.subTest(loss=make_loss, draws=draws, eager=run_eagerly), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        plain = self.train(make_loss, draws, None, broken, run_eagerly)
                    except ValueError as error:  # Keras: generators that nobody holds do not work within JAX
                        self.assertIn("[JAX RNG]", str(error))
                        continue
                    self.assertEqual(self.train(make_loss, draws, os.path.join(self.folder.name, "beside"), broken, run_eagerly), plain)

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
