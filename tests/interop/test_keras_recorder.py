"""tapedeck.Recorder: training with it is training without it, and what it records is what the backend's own
differentiation gives. KERAS_BACKEND chooses the backend; without it this runs itself once for each."""

import os
import subprocess
import sys
import tempfile
import unittest

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


MODELS = {"convolutional": (convolutional, X), "dense": (dense, X), "recurrent": (recurrent, STEPS), "shared": (shared, X),
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


if __name__ == "__main__":
    unittest.main()
