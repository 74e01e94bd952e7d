"""tapedeck.tape: a loop with it is the loop with a plain GradientTape, and what it records is what that tape gives."""

import csv
import os
import tempfile
import unittest
import warnings

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np
import tensorflow as tf

import tapedeck

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
rng = np.random.default_rng(0)
X = tf.constant(rng.normal(size=(4, 6, 5)).astype("float32"))  # batches
Y = tf.constant(rng.integers(0, 3, (4, 6)))
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def network():
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.layers.Input((5,)), keras.layers.Dense(4, activation="tanh", name="hidden"),
                             keras.layers.BatchNormalization(name="norm"), keras.layers.Dense(3, name="out")])


class Unbuilt(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(4, activation="relu", name="hidden")
        self.out = keras.layers.Dense(3, name="out")

    def call(self, x):
        return self.out(self.hidden(x))


def unbuilt():
    keras.utils.set_random_seed(1)
    return Unbuilt()


def scaling():
    return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=1024.0, dynamic_growth_steps=2)


class Tape(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def deck(self, every=1):
        deck = tapedeck.Deck(os.path.join(self.folder.name, "run"))
        deck.track("*", every=every, form="tensor", to="npy")
        return deck

    def train(self, new_tape, build=network, optimizer=lambda: keras.optimizers.Adam(0.01), wrap=lambda f: f, after=lambda: None):
        """The loop; new_tape(model, optimizer) is the tape of a step. Returns losses and weights."""
        model, optimizer = build(), optimizer()

        def step(x, y):
            with new_tape(model, optimizer) as tape:
                loss = loss_fn(y, model(x, training=True))
                scaled = optimizer.scale_loss(loss)
            gradients = tape.gradient(scaled, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss

        step = wrap(step)
        losses = []
        for x, y in zip(X, Y):
            losses.append(float(step(x, y)))
            after()
        return losses, model.get_weights()

    def truth(self, build, optimizer):
        """What a plain tape gives: values[step][signal]."""
        model, optimizer = build(), optimizer()
        values = []
        for x, y in zip(X, Y):
            outputs = {}
            with tf.GradientTape() as tape:
                value = x
                for layer in model.layers:
                    value = layer(value, training=True) if layer.name == "norm" else layer(value)
                    outputs[layer.name] = value
                loss = loss_fn(y, value)
            found = {f"{name}.output": value.numpy() for name, value in outputs.items()}
            variables = {f"{layer.name}.{v.name}": v for layer in model.layers for v in layer.trainable_weights}
            every = tape.gradient(loss, [*outputs.values(), *[v.value for v in variables.values()]])
            found.update((f"{name}.error", g.numpy()) for name, g in zip(outputs, every))
            gradients = every[len(outputs):]
            found.update((f"{name}.gradient", g.numpy()) for name, g in zip(variables, gradients))
            scale = optimizer.scale_loss(1.0)
            before = {name: v.numpy() for name, v in variables.items()}
            optimizer.apply_gradients([(g * scale, v) for g, v in zip(gradients, variables.values())])
            found.update((name, v.numpy()) for name, v in variables.items())
            found.update((f"{name}.update", v.numpy() - before[name]) for name, v in variables.items())
            found["loss"] = float(loss)
            values.append(found)
        return values

    def check(self, build=network, optimizer=lambda: keras.optimizers.Adam(0.01), wrap=lambda f: f):
        bare = self.train(lambda model, _: tf.GradientTape(), build, optimizer, wrap)
        deck = self.deck()
        found = self.train(lambda model, o: tapedeck.tape(model, deck, optimizer=o), build, optimizer, wrap, deck.step)
        deck.finish()
        self.assertEqual(bare[0], found[0])
        for a, b in zip(bare[1], found[1]):
            np.testing.assert_array_equal(a, b)
        return tapedeck.Run(deck.folder)

    def assert_values(self, run, truth, rtol=0.0):
        for step, values in enumerate(truth, 1):
            for name, value in values.items():
                found = run[name].values["value"][step - 1] if name == "loss" else run[name].at(step)
                np.testing.assert_allclose(found, value, rtol=rtol, atol=rtol * 0.1, err_msg=f"step {step}: {name}")
        self.assertEqual({name for name in run if "." in name}, set(truth[0]) - {"loss"})

    def test_eagerly(self):
        self.assert_values(self.check(), self.truth(network, lambda: keras.optimizers.Adam(0.01)))

    def test_in_a_function(self):
        """The graph's arithmetic may differ from eager in the last digits; gradients are the function's own."""
        run = self.check(wrap=tf.function)
        self.assert_values(run, self.truth(network, lambda: keras.optimizers.Adam(0.01)), rtol=1e-5)
        self.assertEqual(run.steps, 4)

    def test_a_scaled_loss(self):
        for wrap in (lambda f: f, tf.function):
            run = self.check(optimizer=scaling, wrap=wrap)
            self.assert_values(run, self.truth(network, scaling), rtol=0 if wrap is not tf.function else 1e-5)

    def test_a_model_that_is_not_built(self):
        for wrap in (lambda f: f, tf.function):
            run = self.check(unbuilt, wrap=wrap)
            for name in ("hidden.error", "hidden.kernel.gradient", "hidden.kernel.update", "out.bias"):
                self.assertEqual(np.load(os.path.join(run.folder, f"{name}.steps.npy")).tolist(), [1, 2, 3, 4], name)

    def test_only_in_steps_that_are_due(self):
        for wrap in (lambda f: f, tf.function):
            deck = self.deck(every=2)
            self.train(lambda model, o: tapedeck.tape(model, deck), wrap=wrap, after=deck.step)
            deck.finish()
            for name in ("hidden.error", "out.kernel.gradient", "out.kernel.update", "out.kernel"):
                self.assertEqual(np.load(os.path.join(deck.folder, f"{name}.steps.npy")).tolist(), [2, 4], name)

    def test_a_persistent_tape_and_one_that_asks_for_an_output(self):
        model, deck = network(), self.deck()
        with tapedeck.tape(model, deck, persistent=True) as tape:
            output = model(X[0], training=True)
            loss = loss_fn(Y[0], output)
        error = tape.gradient(loss, output)
        gradient = tape.gradient(loss, model.trainable_variables)
        deck.step()
        deck.finish()
        run = tapedeck.Run(deck.folder)
        np.testing.assert_array_equal(run["out.error"].at(1), error)
        np.testing.assert_array_equal(run["hidden.kernel.gradient"].at(1), gradient[0])

    def test_the_error_of_one_layer_as_write_ups_take_it(self):
        """A layer called by itself, the gradient of its own loss with respect to its output, into a CSV file."""
        def error_of(model, tape, x, target):
            with tape:
                output = model.get_layer("hidden")(x)
                loss = tf.reduce_mean(tf.square(output - target))
            return tape.gradient(loss, output).numpy()

        model, deck = network(), tapedeck.Deck(os.path.join(self.folder.name, "run"))
        deck.track("hidden.error", form="long", to="csv")
        for x in X:
            target = tf.ones((6, 4))
            error = error_of(model, tapedeck.tape(model, deck), x, target)
            np.testing.assert_array_equal(error, error_of(model, tf.GradientTape(), x, target))
            deck.step()
        deck.finish()
        with open(os.path.join(deck.folder, "hidden.error.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 4 * 24)
        np.testing.assert_array_equal(np.array([float(row["value"]) for row in rows[-24:]], "float32"), error.reshape(-1))

    def test_two_models_in_a_deck(self):
        first, second, deck = network(), network(), self.deck()
        with tapedeck.tape(first, deck), self.assertRaisesRegex(ValueError, "prefix"):
            tapedeck.tape(second, deck)
        with tapedeck.tape(second, deck, prefix="critic") as tape:
            loss = loss_fn(Y[0], second(X[0], training=True))
        tape.gradient(loss, second.trainable_variables)
        deck.step()
        deck.finish()
        self.assertIn("critic.hidden.error", tapedeck.Run(deck.folder))

    def test_what_cannot_be_recorded_is_reported(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run = self.check(wrap=lambda f: tf.function(f, jit_compile=True))
        self.assertEqual(sum("jit_compile" in str(w.message) for w in caught), 1)
        self.assertIn("out.kernel", run)
        self.assertNotIn("out.error", [name for name in run if run[name].values is not None and len(run[name].values)])


if __name__ == "__main__":
    unittest.main()
