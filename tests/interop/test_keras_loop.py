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


class Stream:
    """Batches of a generator, the same again and again."""

    def __init__(self, x, y, batch=32, weight=None):
        parts = [part for part in (x, y, weight) if part is not None]
        self.batches = [tuple(part[i : i + batch] for part in parts) for i in range(0, len(x) - batch + 1, batch)]
        self.steps = len(self.batches)

    def __iter__(self):
        while True:
            yield from self.batches


class Bounded(keras.losses.Loss):
    """Of quantiles; of one in percent it has no least value."""

    def __init__(self, quantile):
        super().__init__()
        self.quantile = quantile

    def call(self, y_true, y_pred):
        gap = y_true - y_pred
        return ops.mean(ops.maximum(self.quantile * gap, (self.quantile - 1) * gap), axis=-1)


class OwnLoss(keras.Model):
    """Its layers are called by its own code, and the loss is computed by it."""

    def __init__(self, activation):
        super().__init__()
        self.first, self.back = layers.Dense(16, activation="relu"), layers.Dense(4, activation=activation, name="back")

    def call(self, x):
        return self.back(self.first(x))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return ops.mean(ops.square(y - y_pred))


def own_softmax(y, outputs):
    return -ops.sum(ops.one_hot(ops.cast(ops.reshape(y, (-1,)), "int32"), 3) * ops.log_softmax(outputs), -1)


class KerasStreams(unittest.TestCase):
    """Data that are no arrays, several outputs, steps of the user's own."""

    setUp = KerasLoop.setUp

    def small(self, *last, width=5):
        return keras.Sequential([keras.Input((width,)), layers.Dense(16, activation="relu"), *(last or [layers.Dense(1)])])

    def found(self, model, stream, loss="mse", rate=0.01, epochs=16, check=None):
        model.compile(keras.optimizers.Adam(rate), loss)
        recorder = tapedeck.Recorder(os.path.join(self.folder.name, "run"), every=2, form="stats")
        model.fit(iter(stream), steps_per_epoch=stream.steps, epochs=epochs, verbose=0, callbacks=[recorder], validation_data=check)
        return self.findings(recorder.folder)

    def findings(self, folder):
        done = subprocess.run([os.environ["TAPEDECK"], "diagnose", folder, "--json"], capture_output=True, text=True, timeout=60)
        found = json.loads(done.stdout)
        self.assertNotIn("facts about the loop end", " ".join(found["notes"]))
        return [finding for finding in found["findings"] if finding["confidence"] != "maybe"]

    def causes(self, *arguments, **options):
        return [each["cause"] for each in self.found(*arguments, **options)]

    def table(self, rows=512):
        x = self.numbers.normal(size=(rows, 5)).astype("float32")
        return x, (x[:, :1] - x[:, 1:2] + 0.5).astype("float32")

    def test_batches_that_pass_by_go_on(self):
        x, y = self.table(640)
        several = [(False, 3)] if keras.backend.backend() != "torch" else []  # PyTorch has no steps_per_execution
        for eager, together in ((False, 1), (True, 1), *several):
            with self.subTest(eager=eager, together=together):
                weights = []
                for part in ("", "beside"):
                    keras.utils.set_random_seed(4)
                    model = keras.Sequential([keras.Input((5,)), layers.Dense(8, activation="relu"), layers.Dropout(0.3), layers.Dense(1)])
                    model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=eager, jit_compile=False, steps_per_execution=together)
                    recorder = [tapedeck.Recorder(os.path.join(self.folder.name, part), track=[])] if part else []
                    logs = model.fit(iter(Stream(x, y)), steps_per_epoch=10, epochs=3, verbose=0, callbacks=recorder).history
                    weights.append([w.tobytes() for w in model.get_weights()] + [logs["loss"]])
                self.assertEqual(*weights)

    def test_batches_of_a_dataset_go_on(self):
        x, y = self.table(200)  # the last batch is smaller
        if keras.backend.backend() != "tensorflow":
            self.skipTest("of TensorFlow")
        import tensorflow

        weights = []
        for part in ("", "beside"):
            keras.utils.set_random_seed(4)
            data = tensorflow.data.Dataset.from_tensor_slices((x, y)).shuffle(200, seed=2).batch(32)
            model = self.small()
            model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
            recorder = [tapedeck.Recorder(os.path.join(self.folder.name, part), track=[])] if part else []
            logs = model.fit(data, epochs=4, verbose=0, callbacks=recorder).history
            weights.append([w.tobytes() for w in model.get_weights()] + [logs["loss"]])
        self.assertEqual(*weights)

    def test_streams(self):
        x, y = self.table()
        self.assertEqual(self.causes(self.small(), Stream(x, y)), [])
        self.assertEqual(self.causes(self.small(), Stream(x, self.numbers.permutation(y)))[:1], ["bad_labels"])
        self.assertEqual(self.causes(self.small(), Stream(x * 3000, y))[:1], ["unscaled_inputs"])
        bad = x.copy()
        bad[70] = numpy.nan
        self.assertEqual(self.causes(self.small(), Stream(bad, y))[:1], ["nonfinite_input"])
        same = Stream(x[:32], y[:32])
        same.steps = 16
        self.assertIn("repeated_batch", self.causes(self.small(), same))

    def test_targets_among_the_inputs(self):
        x = self.numbers.normal(size=(512, 6)).astype("float32")
        other = self.numbers.normal(size=(128, 6)).astype("float32")
        unknown = other.copy()
        unknown[:, 4:] = other[:, :2]  # what is to come is not known
        for check, wanted in (((unknown, other[:, 4:]), True), ((other, other[:, 4:]), False)):
            found = self.causes(self.small(layers.Dense(2), width=6), Stream(x, x[:, 4:]), check=check)
            self.assertEqual("data_leak" in found, wanted, found)

    def test_labels_of_the_token_before(self):
        words = self.numbers.integers(0, 20, (640, 8)).astype("int32")
        tags = (words * 7 % 4).astype("int32")
        for labels, wanted in ((tags, []), (numpy.roll(tags, 1, 1), ["bad_labels"])):
            beside = layers.Conv1D(16, 3, padding="same", activation="relu")
            model = keras.Sequential([keras.Input((8,), dtype="int32"), layers.Embedding(20, 8), beside, layers.Dense(4)])
            found = self.causes(model, Stream(words[:512], labels[:512]), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                                check=(words[512:], tags[512:]))
            self.assertEqual([cause for cause in found if cause != "overfitting"], wanted)

    def test_labels_that_a_weight_leaves_one_of(self):
        words = self.numbers.integers(0, 6, (512, 8)).astype("int32")
        for weight, wanted in (((words > 0), []), ((words == 0), ["bad_labels"])):
            model = keras.Sequential([keras.Input((8,), dtype="int32"), layers.Embedding(6, 8), layers.Dense(6)])
            self.assertEqual(self.causes(model, Stream(words, (words * 5 % 6).astype("int32"), weight=weight.astype("float32")),
                                         keras.losses.SparseCategoricalCrossentropy(from_logits=True))[:1], wanted)

    def test_a_loss_without_a_least_value(self):
        x, y = self.table()
        self.assertEqual(self.causes(self.small(), Stream(x, y), Bounded(0.5)), [])
        self.assertIn("wrong_loss", self.causes(self.small(), Stream(x, y), Bounded(50.0), epochs=30))

    def heads(self, mistake=None):
        x = self.numbers.normal(size=(512, 6)).astype("float32")
        labels = {"value": x[:, :1] - x[:, 1:2], "kind": (x[:, 2:5].argmax(1)).astype("float32")}
        if mistake == "order":
            labels = {key: part[labels["kind"].argsort(kind="stable")] for key, part in labels.items()}
        if mistake == "days":
            labels["value"] = labels["value"] * 3000 + 20000
        inputs = keras.Input((6,))
        h = layers.Dense(24, activation="relu")(inputs)
        outputs = {"value": layers.Dense(1, activation="relu" if mistake == "relu" else None, name="value")(h),
                   "kind": layers.Dense(3, activation="softmax" if mistake == "twice" else None, name="kind")(h)}
        model = keras.Model(inputs, outputs)
        model.compile(keras.optimizers.Adam(0.01), {"value": "mse", "kind": own_softmax})
        recorder = tapedeck.Recorder(os.path.join(self.folder.name, "heads"), every=5, form="stats")
        model.fit(x, labels, batch_size=32, epochs=10, verbose=0, callbacks=[recorder])
        return [(each["cause"], each["layer"]) for each in self.findings(recorder.folder)]

    def test_several_outputs(self):
        self.assertEqual(self.heads(), [])
        self.assertIn(("wrong_output_activation", "value"), self.heads("relu"))
        self.assertIn(("redundant_softmax", "kind"), self.heads("twice"))
        self.assertIn(("unscaled_targets", "value"), self.heads("days"))
        self.assertEqual([cause for cause, _ in self.heads("order")], ["bad_labels"])

    def test_a_model_that_computes_its_loss(self):
        x = self.numbers.normal(size=(512, 4)).astype("float32")
        for activation, wanted in ((None, []), ("sigmoid", [("wrong_output_activation", "back")])):
            model = OwnLoss(activation)
            model.compile(keras.optimizers.Adam(0.01))
            recorder = tapedeck.Recorder(os.path.join(self.folder.name, "own"), every=5, form="stats")
            model.fit(x, x, batch_size=32, epochs=10, verbose=0, callbacks=[recorder])
            self.assertEqual([(each["cause"], each["layer"]) for each in self.findings(recorder.folder)], wanted)

    def test_what_a_step_leaves_out(self):
        if keras.backend.backend() != "tensorflow":
            self.skipTest("GradientTape is TensorFlow's")
        import tensorflow

        class Parts(keras.Model):
            def __init__(self, learns, teacher):
                super().__init__()
                self.encoder, self.decoder = layers.Dense(12, activation="relu"), layers.Dense(6, name="decoder")
                self.learns, self.teacher = learns, teacher

            def call(self, x):
                return self.decoder(self.encoder(x))

            def train_step(self, x):
                with tensorflow.GradientTape() as tape:
                    aim = x if self.teacher is None else self.teacher(x)
                    loss = ops.mean(ops.square(self(x, training=True) - aim))
                weights = [v for part in (self.encoder, *([self.decoder] if self.learns else [])) for v in part.trainable_weights]
                self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
                return {"loss": loss}

        x = self.numbers.normal(size=(512, 6)).astype("float32")
        trained = keras.Sequential([keras.Input((6,)), layers.Dense(16), layers.Dense(6)])
        trained.compile(keras.optimizers.Adam(0.02), "mse")
        trained.fit(x, x, epochs=5, verbose=0)
        for learns, teacher, wanted in ((True, None, []), (True, trained, []), (False, None, ["parameter_unchanged"])):
            model = Parts(learns, teacher)
            model.compile(keras.optimizers.Adam(0.01))
            recorder = tapedeck.Recorder(os.path.join(self.folder.name, "parts"), every=5, form="stats")
            model.fit(x, batch_size=32, epochs=10, verbose=0, callbacks=[recorder])
            self.assertEqual([each["cause"] for each in self.findings(recorder.folder)], wanted)


if __name__ == "__main__":
    unittest.main()
