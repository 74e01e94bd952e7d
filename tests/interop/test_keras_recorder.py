"""tapedeck.Recorder: training with it is training without it, and what it records is what the backend's own
differentiation gives. KERAS_BACKEND chooses the backend; without it this runs itself once for each."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

BACKENDS = ("tensorflow", "jax", "torch")

if "KERAS_BACKEND" not in os.environ:
    codes = [
        subprocess.run([sys.executable, *sys.argv], env=dict(os.environ, KERAS_BACKEND=backend)).returncode
        for backend in BACKENDS
    ]
    sys.exit(max(codes))

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np

import tapedeck

BACKEND = keras.backend.backend()
if BACKEND == "tensorflow":  # sums in the same order every time
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
rng = np.random.default_rng(0)
X = rng.normal(size=(20, 8, 8, 1)).astype("float32")
Y = rng.integers(0, 3, 20)
STEPS = rng.normal(size=(20, 6, 2)).astype("float32")


def convolutional():
    return keras.Sequential([
        keras.layers.Input((8, 8, 1)), keras.layers.Conv2D(4, 3, activation="relu", name="conv"),
        keras.layers.BatchNormalization(name="norm"), keras.layers.MaxPooling2D(name="pool"),
        keras.layers.Flatten(name="flat"), keras.layers.Dropout(0.2, seed=3, name="drop"),
        keras.layers.Dense(3, name="out"),
    ])


def dense():
    return keras.Sequential([
        keras.layers.Input((8, 8, 1)), keras.layers.Flatten(name="flat"),
        keras.layers.Dense(7, activation="tanh", name="hidden"), keras.layers.Dense(3, name="out"),
    ])


def recurrent():
    return keras.Sequential([
        keras.layers.Input((6, 2)), keras.layers.LSTM(5, name="lstm"), keras.layers.Dense(3, name="out"),
    ])


def shared():
    a = keras.layers.Input((8, 8, 1))
    flat = keras.layers.Flatten(name="flat")(a)
    layer = keras.layers.Dense(5, name="twice")
    both = keras.layers.Concatenate(name="both")([layer(flat), layer(-flat)])
    return keras.Model(a, keras.layers.Dense(3, name="out")(both))


def attention():
    a = keras.layers.Input((6, 2))
    b = keras.layers.MultiHeadAttention(2, 3, name="attention")(a, a)
    c = keras.layers.LayerNormalization(name="norm")(b + a)
    return keras.Model(a, keras.layers.Dense(3, name="out")(keras.layers.Flatten(name="flat")(c)))


def nested():
    """A model in a model: the arithmetic of its normalization depends on whether the size of a batch is known."""
    inner = keras.Sequential([
        keras.layers.Input((8, 8, 1)), keras.layers.Conv2D(4, 3, name="conv"), keras.layers.BatchNormalization(name="norm"),
        keras.layers.Flatten(name="flat"),
    ], name="inner")
    a = keras.layers.Input((8, 8, 1))
    return keras.Model(a, keras.layers.Dense(3, name="out")(inner(a)))


class Scaled(keras.layers.Layer):
    """A layer with a layer inside and a parameter of its own."""

    def build(self, shape):
        self.inside = keras.layers.Dense(3, name="inside")
        self.inside.build(shape)
        self.scale = self.add_weight(shape=(3,), initializer="ones", name="scale")

    def call(self, x):
        return self.inside(x) * self.scale


def composite():
    return keras.Sequential([keras.layers.Input((8, 8, 1)), keras.layers.Flatten(name="flat"), Scaled(name="scaled"),
                             keras.layers.Dense(3, name="out")])


class Looped(keras.layers.Layer):
    """Calls a layer in a loop of the backend: its output is no value of the step."""

    def build(self, shape):
        self.inside = keras.layers.Dense(64, name="inside")
        self.inside.build(shape)

    def call(self, x):
        return keras.ops.fori_loop(0, 2, lambda i, value: self.inside(value), x)


def looped():
    return keras.Sequential([keras.layers.Input((8, 8, 1)), keras.layers.Flatten(name="flat"), Looped(name="looped"),
                             keras.layers.Dense(3, name="out")])


MODELS = {"nested": (nested, X), "composite": (composite, X), "convolutional": (convolutional, X), "dense": (dense, X), "recurrent": (recurrent, STEPS), "shared": (shared, X),
          "attention": (attention, STEPS)}


class Custom(keras.Model):
    """A train_step of one's own; the backend's own way of writing it."""

    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(7, activation="tanh", name="hidden")
        self.out = keras.layers.Dense(3, name="out")

    def call(self, x):
        return self.out(self.hidden(keras.ops.reshape(x, (-1, 64))))

    if BACKEND == "tensorflow":
        def train_step(self, data):
            import tensorflow as tf

            x, y = data[:2]
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True)) * 2
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
            return {"loss": loss}


class Penalty(Custom):
    """A gradient penalty: the inner tape's gradient is no error."""

    def loss_of(self, x, y):
        with tf.GradientTape() as tape, tf.GradientTape() as inner:
            inner.watch(x)
            hidden = self.hidden(tf.reshape(x, (-1, 64)))
            logits = self.out(hidden)
            penalty = tf.reduce_mean(tf.square(inner.gradient(logits, x)))
            loss = self.compute_loss(x=x, y=y, y_pred=logits) + penalty
        return tape, loss, [hidden, logits]

    def train_step(self, data):
        tape, loss, _ = self.loss_of(*data[:2])
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}


class Recording(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def train(self, build, x=X, recorder=None, compiled={}, epochs=2):
        keras.utils.set_random_seed(1)
        model = build()
        own = build is Custom
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      metrics=None if own else ["accuracy"], **compiled)
        history = model.fit(x, Y, batch_size=8, epochs=epochs, verbose=0, shuffle=False,
                            validation_data=None if own else (x[:8], Y[:8]), callbacks=[recorder] if recorder else [])
        return history.history, model.get_weights(), model

    def recorder(self, name="run", **track):
        track = {"what": "*.*", "every": 1, "form": "tensor", "to": "npy"} | track
        return tapedeck.Recorder(os.path.join(self.folder.name, name), track=[track])

    def test_the_network_is_noted_with_its_connections(self):
        edges = {}
        for name, (build, x) in {**MODELS, "custom": (Custom, X)}.items():
            self.train(build, x, self.recorder(name), epochs=1)
            layers = json.loads(tapedeck.Run(os.path.join(self.folder.name, name)).notes["network"])
            edges[name] = {layer["name"]: layer["from"] for layer in layers}
            kinds = {layer["name"]: (layer["kind"], layer["parameters"]) for layer in layers}
            if name == "convolutional":
                self.assertEqual(kinds, {"conv": ("Conv2D", 40), "norm": ("BatchNormalization", 16), "pool": ("MaxPooling2D", 0),
                                         "flat": ("Flatten", 0), "drop": ("Dropout", 0), "out": ("Dense", 111)})
                self.assertEqual(layers[0]["shape"], "(6, 6, 4)")
        self.assertEqual(edges["nested"], {"conv": [], "norm": ["conv"], "flat": ["norm"], "out": ["flat"]})
        self.assertEqual(edges["composite"], {"flat": [], "inside": ["flat"], "out": ["inside"]})
        self.assertEqual(edges["shared"], {"flat": [], "twice": ["flat"], "both": ["twice"], "out": ["both"]})
        self.assertEqual(edges["attention"], {"attention": [], "norm": ["attention"], "flat": ["norm"], "out": ["flat"]})
        self.assertEqual(edges["custom"], {"hidden": [], "out": ["hidden"]})

    def assert_same(self, build, x=X, name="run", exact=True, compiled={}, **track):
        bare, weights, _ = self.train(build, x, compiled=compiled)
        recorder = self.recorder(name, **track)
        history, trained, _ = self.train(build, x, recorder, compiled)
        for a, b in zip(weights, trained):
            (np.testing.assert_array_equal if exact else
             lambda p, q: np.testing.assert_allclose(p, q, atol=2e-6, rtol=1e-4))(a, b)
        for key in bare:
            np.testing.assert_allclose(bare[key], history[key], rtol=0 if exact else 1e-4)
        return tapedeck.Run(recorder.folder)

    def test_every_model_trains_as_without(self):
        for name, (build, x) in MODELS.items():
            with self.subTest(name):
                run = self.assert_same(build, x, name, every=2, compiled={"jit_compile": False})
                self.assertEqual(run.problems, [])
                self.assertEqual(run.steps, 6)
                self.assertIn("out.error", run)
                if name == "composite":  # parameters beside layers
                    self.assertLessEqual({"inside.kernel.gradient", "scaled.scale.gradient", "scaled.scale.update"}, set(run))

    @unittest.skipIf(BACKEND == "torch", "compiles with Triton or not at all")
    def test_compiled_by_xla(self):
        self.assert_same(convolutional, X, exact=False, every=2, compiled={"jit_compile": True})

    def test_eagerly(self):
        self.assert_same(dense, every=2, compiled={"run_eagerly": True})

    @unittest.skipIf(BACKEND == "torch", "not with this backend")
    def test_several_steps_an_execution(self):
        run = self.assert_same(dense, every=4, compiled={"steps_per_execution": 2, "jit_compile": False})
        self.assertEqual(np.load(os.path.join(run.folder, "out.error.steps.npy")).tolist(), [4])
        self.assertEqual(run.steps, 6)

    @unittest.skipUnless(BACKEND == "tensorflow", "written for TensorFlow")
    def test_a_train_step_of_ones_own(self):
        run = self.assert_same(Custom, every=2, compiled={"jit_compile": False})
        self.assertLessEqual({"hidden.error", "hidden.kernel.gradient", "out.bias.update"}, set(run))

    @unittest.skipUnless(BACKEND == "tensorflow", "written for TensorFlow")
    def test_a_gradient_penalty(self):
        recorder = self.recorder()
        keras.utils.set_random_seed(1)
        model = Penalty()
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), run_eagerly=True)
        model.build((None, 8, 8, 1))
        x, y = tf.constant(X[:8]), Y[:8]
        tape, loss, outputs = model.loss_of(x, y)
        errors = tape.gradient(loss, outputs)
        recorder.attach(model)
        model.train_on_batch(x, y)
        recorder.finish()
        run = tapedeck.Run(recorder.folder)
        np.testing.assert_array_equal(run["hidden.error"].at(1), errors[0])
        np.testing.assert_array_equal(run["out.error"].at(1), errors[1])
        self.assertEqual(run["loss"].values["value"][0], float(loss))

    def test_train_on_batch(self):
        def train(recorder):
            keras.utils.set_random_seed(1)
            model = dense()
            model.compile("sgd", "mse", jit_compile=False)
            if recorder:
                recorder.attach(model)
            for i in range(5):
                model.train_on_batch(X[i : i + 8], np.ones((8, 3), "float32"))
            if recorder:
                recorder.finish()
            return model.get_weights()

        recorder = self.recorder()
        for a, b in zip(train(None), train(recorder)):
            np.testing.assert_array_equal(a, b)
        run = tapedeck.Run(recorder.folder)
        self.assertEqual(np.load(os.path.join(run.folder, "out.error.steps.npy")).tolist(), [1, 2, 3, 4, 5])

    def test_values_are_the_backends(self):
        """The first step of a dense model, worked out with NumPy."""
        keras.utils.set_random_seed(1)
        model = dense()
        w1, b1, w2, b2 = [w.astype("float64") for w in model.get_weights()]
        x, y = X[:8].reshape(8, -1).astype("float64"), Y[:8]
        h = np.tanh(x @ w1 + b1)
        z = h @ w2 + b2
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        error = (p - np.eye(3)[y]) / 8
        recorder = self.recorder(to="npy")
        _, trained, _ = self.train(dense, recorder=recorder, compiled={"jit_compile": False})
        run = tapedeck.Run(recorder.folder)
        expected = {
            "hidden.output": h, "out.output": z, "out.error": error, "hidden.error": error @ w2.T,
            "out.kernel.gradient": h.T @ error, "out.bias.gradient": error.sum(0),
            "hidden.kernel.gradient": x.T @ (error @ w2.T * (1 - h * h)),
        }
        for name, value in expected.items():
            np.testing.assert_allclose(run[name].at(1), value, atol=1e-5, err_msg=name)
        np.testing.assert_array_equal(run["out.kernel"].at(6), trained[2])
        np.testing.assert_array_equal(run["out.kernel.update"].at(6), run["out.kernel"].at(6) - run["out.kernel"].at(5))
        self.assertEqual(run["hidden.output"].at(3).shape, (4, 7))  # the short last batch

    def test_epochs_have_keras_metrics(self):
        recorder = tapedeck.Recorder(os.path.join(self.folder.name, "run"), every=4)
        history, _, _ = self.train(dense, recorder=recorder)
        run = tapedeck.Run(recorder.folder)
        for key, values in history.items():
            np.testing.assert_allclose(run[key].values["value"], values, err_msg=key)
            self.assertEqual(run[key].values["epoch"].tolist(), [1, 2])
        self.assertIn("learning_rate", run)
        with open(os.path.join(run.folder, "metrics.csv")) as file:
            self.assertEqual(len(file.readlines()), 3)

    def test_conditions_see_the_loss_of_each_step(self):
        recorder = self.recorder(what="out.error", every=1, when="loss > 0", history=2)
        self.train(dense, recorder=recorder)
        run = tapedeck.Run(recorder.folder)
        self.assertEqual(len(np.load(os.path.join(run.folder, "out.error.steps.npy"))) +
                         len(np.load(os.path.join(run.folder, "out.error@4x3.steps.npy"))), 6)

    # ---- values -------------------------------------------------------------------------------

    def test_every_value_of_every_step(self):
        """Weights of the step before, the backend's own differentiation: the same numbers."""
        recorder = self.recorder()
        keras.utils.set_random_seed(1)
        model = dense()
        before = dict(zip(("hidden.kernel", "hidden.bias", "out.kernel", "out.bias"), model.get_weights()))
        self.train(dense, recorder=recorder, compiled={"jit_compile": False, "run_eagerly": True})
        run = tapedeck.Run(recorder.folder)
        for step in range(1, 7):
            rows = slice(8 * ((step - 1) % 3), min(8 * ((step - 1) % 3) + 8, 20))
            for name, value in differentiated(before, X[rows].reshape(-1, 64), Y[rows]).items():
                np.testing.assert_array_equal(run[name].at(step), value, err_msg=f"step {step}: {name}")
            after = {name: np.array(run[name].at(step)) for name in before}
            for name in before:
                np.testing.assert_array_equal(run[f"{name}.update"].at(step), after[name] - before[name])
            before = after

    def test_a_scaled_loss(self):
        """The scale grows in every second step; what is recorded is what the optimizer uses."""
        def optimizer(scaled):
            plain = keras.optimizers.SGD(0.1)
            return keras.optimizers.LossScaleOptimizer(plain, initial_scale=1024.0, dynamic_growth_steps=2) if scaled else plain

        def train(scaled, recorder=None):
            keras.utils.set_random_seed(1)
            model = dense()
            model.compile(optimizer(scaled), keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
            model.fit(X[:16], Y[:16], batch_size=8, epochs=2, verbose=0, shuffle=False, callbacks=[recorder] if recorder else [])
            return model.get_weights()

        runs = []
        for scaled in (False, True):
            recorder = self.recorder(f"scaled-{scaled}")
            for a, b in zip(train(scaled), train(scaled, recorder)):
                np.testing.assert_array_equal(a, b)
            runs.append(tapedeck.Run(recorder.folder))
        for name in ("hidden.error", "out.error", "hidden.kernel.gradient", "out.bias.gradient"):
            for step in range(1, 5):
                np.testing.assert_allclose(runs[1][name].at(step), runs[0][name].at(step), rtol=1e-5, atol=1e-7,
                                           err_msg=f"{name}, step {step}")
        np.testing.assert_allclose(*[run["loss"].values["value"] for run in runs], rtol=1e-6)

    def test_half_precision(self):
        keras.config.set_dtype_policy("mixed_float16")
        self.addCleanup(keras.config.set_dtype_policy, "float32")
        run = self.assert_same(dense, every=2, compiled={"jit_compile": False})
        self.assertEqual(run.problems, [])
        self.assertIn("hidden.error", run)

    # ---- options ------------------------------------------------------------------------------

    def test_options_with_a_deck(self):
        deck = tapedeck.Deck(os.path.join(self.folder.name, "run"))
        deck.track("out.bias", every=5, form="tensor", to="npy")
        self.train(dense, recorder=tapedeck.Recorder(deck=deck, track=["hidden.error"], every=2, form="tensor"))
        self.train(dense, recorder=tapedeck.Recorder(deck=deck, log="weights", every=6, form="tensor", prefix="second"))
        deck.finish()
        found = {name: np.load(os.path.join(deck.folder, f"{name}.steps.npy")).tolist()
                 for name in ("hidden.error", "out.bias", "second.out.bias")}
        self.assertEqual(found["second.out.bias"], [12])
        self.assertEqual(found["hidden.error"], [2, 4])
        self.assertEqual(found["out.bias"], [5])
        run = tapedeck.Run(deck.folder)
        self.assertEqual(run["loss"].values["epoch"].max(), 4)  # the second fit's epochs go on
        for wrong in (dict(folder="a"), dict(seed=3)):
            with self.assertRaisesRegex(ValueError, "with deck="):
                tapedeck.Recorder(deck=deck, **wrong)
        with self.assertRaisesRegex(ValueError, "log="):
            tapedeck.Recorder(track="*.error", log="all")

    # ---- one recorder a model -----------------------------------------------------------------

    def test_a_second_recorder_finishes_the_first(self):
        keras.utils.set_random_seed(1)
        model = dense()
        model.compile("sgd", "mse", jit_compile=False)
        first, second = self.recorder("first"), self.recorder("second")
        first.attach(model)
        model.train_on_batch(X[:8], np.ones((8, 3), "float32"))
        with self.assertWarnsRegex(UserWarning, "recorded this model until now"):
            second.attach(model)
        model.train_on_batch(X[:8], np.ones((8, 3), "float32"))
        second.finish()
        self.assertEqual(tapedeck.Run(first.folder).state, "finished")
        for recorder in (first, second):
            self.assertEqual(tapedeck.Run(recorder.folder).steps, 1)

    def test_the_same_recorder_again(self):
        """After a fit that an exception ended, and after another compile."""
        class Stop(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                raise KeyboardInterrupt

        keras.utils.set_random_seed(1)
        model, recorder, folders = dense(), self.recorder(), []
        for callbacks in ([Stop()], []):
            model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
            try:
                model.fit(X, Y, batch_size=8, verbose=0, callbacks=[recorder, *callbacks])
            except KeyboardInterrupt:
                pass
            folders.append(recorder.folder)
        self.assertEqual([tapedeck.Run(folder).state for folder in folders], ["interrupted", "finished"])
        self.assertEqual(len(np.load(os.path.join(folders[1], "hidden.error.steps.npy"))), 2)
        self.assertEqual(tapedeck.Run(folders[1]).steps, 3)

    # ---- never stops a training ---------------------------------------------------------------

    def test_what_cannot_be_recorded_is_reported_once(self):
        def failing(recorder):
            attach = recorder.attach

            def attached(model):
                attach(model)
                plain = recorder.deck.record

                def record(name, value):
                    if name == "hidden.error":
                        raise TypeError("no such type")
                    plain(name, value)

                recorder.deck.record = record

            recorder.attach = attached
            return recorder

        bare, weights, _ = self.train(dense, compiled={"jit_compile": False})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            recorder = failing(self.recorder())
            _, trained, _ = self.train(dense, recorder=recorder, compiled={"jit_compile": False})
        for a, b in zip(weights, trained):
            np.testing.assert_array_equal(a, b)
        self.assertEqual([str(w.message) for w in caught if "not recorded" in str(w.message)],
                         ["tapedeck: hidden.error is not recorded: no such type"])
        run = tapedeck.Run(recorder.folder)
        self.assertEqual(run.notes["not_recorded.hidden.error"], "no such type")
        self.assertEqual(len(np.load(os.path.join(run.folder, "hidden.output.steps.npy"))), 4)

    def test_a_layer_in_a_loop_of_the_backend(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run = self.assert_same(looped, compiled={"jit_compile": False})
        self.assertIn("out.kernel.gradient", run)
        if BACKEND == "tensorflow":
            self.assertEqual(sum("inside.output is not recorded" in str(w.message) for w in caught), 1)
            self.assertIn("out.error", run)


def differentiated(weights, x, y):
    """Outputs, errors and gradients of `dense`, by the backend's own means."""
    names = list(weights)
    if BACKEND == "tensorflow":
        values = [tf.Variable(weights[name]) for name in names]
        with tf.GradientTape() as tape:
            h = tf.tanh(tf.matmul(x, values[0]) + values[1])
            z = tf.matmul(h, values[2]) + values[3]
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, z))
        found = tape.gradient(loss, [h, z, *values])
    elif BACKEND == "torch":
        import torch

        values = [torch.tensor(weights[name], requires_grad=True) for name in names]
        h = torch.tanh(torch.matmul(torch.tensor(x), values[0]) + values[1])
        z = torch.matmul(h, values[2]) + values[3]
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(torch.tensor(y), z)
        found = torch.autograd.grad(loss, [h, z, *values])
    else:
        import jax

        def loss_of(values, taps):
            h = jax.numpy.tanh(jax.numpy.matmul(x, values[0]) + values[1]) + taps[0]
            z = jax.numpy.matmul(h, values[2]) + values[3] + taps[1]
            return keras.losses.SparseCategoricalCrossentropy(from_logits=True)(y, z), (h, z)

        values = [jax.numpy.asarray(weights[name]) for name in names]
        taps = [jax.numpy.zeros((len(x), 7)), jax.numpy.zeros((len(x), 3))]
        (_, (h, z)), (gradients, errors) = jax.value_and_grad(loss_of, argnums=(0, 1), has_aux=True)(values, taps)
        found = [*errors, *gradients]
    found = [np.asarray(value) for value in found]
    return {"hidden.output": np.asarray(h.detach() if BACKEND == "torch" else h),
            "out.output": np.asarray(z.detach() if BACKEND == "torch" else z), "hidden.error": found[0], "out.error": found[1],
            **{f"{name}.gradient": value for name, value in zip(names, found[2:])}}


if __name__ == "__main__":
    unittest.main()
