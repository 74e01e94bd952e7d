"""What docs/experiment.md says of points where a function has no derivative, of cross-entropies of probabilities near 0
and 1, and docs/c-api.md of ids that a batch repeats: measured in TensorFlow, PyTorch and JAX, and here."""
import csv
import os
import subprocess
import sys
import tempfile
import unittest

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import jax
import jax.numpy as jnp
import keras
import numpy as np
import tensorflow as tf
import torch

PROGRAM = os.environ["TAPEDECK"]
F = torch.nn.functional
CELU = np.array([[0, 1, -1]], "float32")
KERAS_LOSS = """
import os, sys
os.environ["KERAS_BACKEND"] = sys.argv[1]
import keras, numpy as np
model = keras.Sequential([keras.Input((2,)), keras.layers.Activation(sys.argv[2])])
model.compile(loss=sys.argv[3])
print("loss", model.evaluate(np.array([[-30, 30]], "float32"), np.array([[1, 0]], "float32"), verbose=0))
"""
# An id that occurs twice in a batch, with gradients 1 and 3.
KERAS_IDS = """
import os, sys
os.environ["KERAS_BACKEND"] = sys.argv[1]
import keras, numpy as np
model = keras.Sequential([keras.Input((2,), dtype="int32"), keras.layers.Embedding(1, 1, embeddings_initializer="ones"),
                          keras.layers.Flatten(), keras.layers.Dense(1, use_bias=False)])
model.layers[-1].set_weights([np.array([[1], [3]], "float32")])
model.layers[-1].trainable = False
model.compile(optimizer=keras.optimizers.Adam(0.1), loss="mae")
model.train_on_batch(np.zeros((1, 2), "int32"), np.full((1, 1), -1000, "float32"))
print("weight", keras.ops.convert_to_numpy(model.layers[0].embeddings)[0, 0])
"""


def tf_gradient(function, value):
    variable = tf.Variable(value)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(function(variable))
    return tape.gradient(total, variable).numpy().ravel().tolist()


def torch_gradient(function, value):
    """value is channels-last."""
    tensor = torch.tensor(np.moveaxis(value, -1, 1) if value.ndim > 2 else value, requires_grad=True)
    function(tensor).sum().backward()
    return tensor.grad.numpy().ravel().tolist()


class Kinks(unittest.TestCase):
    def train(self, inputs, labels, layers, train):
        """Trains one step; the folder of the run."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        np.save(os.path.join(folder.name, "x.npy"), inputs)
        np.save(os.path.join(folder.name, "y.npy"), labels)
        with open(os.path.join(folder.name, "e.yaml"), "w", encoding="utf-8") as file:
            file.write("name: run\ndata: {train: x.npy, labels: y.npy, label_kind: values, batch: 1}\nmodel:\n"
                       "  - rescaling: {name: first, scale: 1}\n"
                       + "".join(f"  - {layer}\n" for layer in layers)
                       + f"train: {{{train}, steps: 1, optimizer: {{sgd: {{learning_rate: 0.1}}}}}}\nrecord:\n"
                       "  - {what: first.error, form: rows, to: [csv]}\n  - {what: loss, to: [csv]}\n")
        subprocess.run([PROGRAM, "train", "e.yaml", "--quiet"], cwd=folder.name, check=True, timeout=60)
        return os.path.join(folder.name, "runs", "run")

    def ours(self, value, output, *layers):
        """The gradient of the output's sum; output: what the layers put out, flat."""
        output = np.asarray(output, "float32").reshape(1, -1)
        run = self.train(value, output - output.size / 2, [
            *layers, "flatten: {}", f"dense: {{units: {output.size}, kernel_initializer: identity}}"], "loss: mse")
        with open(os.path.join(run, "first.error.csv"), encoding="utf-8") as file:
            return [round(float(cell), 5) for cell in list(csv.reader(file))[1][3:]]

    def test_equal_inputs_of_maximum_and_minimum(self):
        for name in ("maximum", "minimum"):
            layers = ("dense: {name: a, from: first, units: 1, kernel_initializer: ones}",
                      "dense: {name: b, from: first, units: 1, kernel_initializer: ones}",
                      f"{name}: {{from: [a, b]}}")
            run = self.train(np.ones((1, 1), "float32"), np.array([[0.5]], "float32"),
                             [*layers, "dense: {name: out, units: 1, kernel_initializer: identity}"], "loss: mse")
            model = os.path.join(run, "model.safetensors")
            table = os.path.join(run, "weights.csv")
            subprocess.run([PROGRAM, "weights", model, "--to", table], check=True, timeout=60)
            with open(table, encoding="utf-8") as file:
                kernels = {row["layer"]: float(row["value"]) for row in csv.DictReader(file)
                           if row["parameter"] == "kernel"}
            # the error of `out`, 1, halved, is what either lost, times the learning rate
            self.assertAlmostEqual(1 - kernels["a"], 0.05, 6)
            self.assertAlmostEqual(1 - kernels["b"], 0.05, 6)
            self.assertEqual(jax.grad(lambda a, b: getattr(jnp, name)(a, b), argnums=(0, 1))(1.0, 1.0), (0.5, 0.5))
            pair = [torch.ones(1, requires_grad=True) for _ in "ab"]
            getattr(torch, name)(*pair).sum().backward()
            self.assertEqual([float(one.grad) for one in pair], [0.5, 0.5])
            pair = [tf.Variable([1.0]) for _ in "ab"]
            with tf.GradientTape() as tape:
                value = getattr(tf, name)(*pair)
            self.assertEqual([float(one[0]) for one in tape.gradient(value, pair)], [1, 0])

    def test_equal_values_of_pools(self):
        first = lambda count: [1.0] + [0.0] * (count - 1)
        for name, shape, keras_layer, torch_pool in (
                ("max_pool1d: {size: 4}", (1, 4, 1), keras.layers.MaxPooling1D(4), lambda x: F.max_pool1d(x, 4)),
                ("max_pool2d: {size: 2}", (1, 2, 2, 1), keras.layers.MaxPooling2D(2), lambda x: F.max_pool2d(x, 2))):
            ones = np.ones(shape, "float32")
            self.assertEqual(self.ours(ones, [1], name), first(4), name)
            self.assertEqual(tf_gradient(keras_layer, ones), first(4), name)
            self.assertEqual(torch_gradient(torch_pool, ones), first(4), name)
        ones = np.ones((1, 2, 2, 2, 1), "float32")
        self.assertEqual(self.ours(ones, [1], "max_pool3d: {size: 2}"), first(8))
        self.assertEqual(torch_gradient(lambda x: F.max_pool3d(x, 2), ones), first(8))
        self.assertEqual(tf_gradient(keras.layers.MaxPooling3D(2), ones), [1.0] * 8)
        for name, shape, keras_layer in (("global_max_pool1d: {}", (1, 4, 1), keras.layers.GlobalMaxPooling1D()),
                                         ("global_max_pool2d: {}", (1, 2, 2, 1), keras.layers.GlobalMaxPooling2D())):
            ones = np.ones(shape, "float32")
            self.assertEqual(self.ours(ones, [1], name), [0.25] * 4, name)
            self.assertEqual(tf_gradient(keras_layer, ones), [0.25] * 4, name)

    def test_celu_at_zero(self):
        ours = self.ours(CELU, F.celu(torch.tensor(CELU)).numpy(), "activation: {activation: celu}")
        self.assertEqual(ours[0], 1)
        self.assertEqual(torch_gradient(F.celu, CELU)[0], 1)
        self.assertEqual(tf_gradient(keras.activations.celu, CELU)[0], 2)

    def test_an_id_that_repeats_under_adam(self):
        found = {}
        for backend in ("tensorflow", "jax", "torch"):
            done = subprocess.run([sys.executable, "-c", KERAS_IDS, backend], check=True, capture_output=True, text=True,
                                  timeout=300)
            found[backend] = float(done.stdout.split("weight ")[-1])
        weight = torch.nn.Parameter(torch.ones(1, 1))
        optimizer = torch.optim.Adam([weight], lr=0.1)
        (F.embedding(torch.zeros(2, dtype=torch.long), weight).ravel() @ torch.tensor([1.0, 3.0])).backward()
        optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            np.save(os.path.join(folder, "x.npy"), np.zeros((1, 2), "int64"))
            np.save(os.path.join(folder, "y.npy"), np.full((1, 1), -1000, "float32"))
            np.savez(os.path.join(folder, "w.npz"),
                     **{"ids.embeddings": np.ones((1, 1), "float32"), "out.kernel": np.array([[1], [3]], "float32")})
            with open(os.path.join(folder, "e.yaml"), "w", encoding="utf-8") as file:
                file.write("name: run\ndata: {train: x.npy, labels: y.npy, batch: 1}\nweights: w.npz\nmodel:\n"
                           "  - embedding: {name: ids, input_dim: 1, output_dim: 1}\n  - flatten\n"
                           "  - dense: {name: out, units: 1, use_bias: false}\n"
                           "train: {loss: mae, steps: 1, optimizer: {adam: {learning_rate: 0.1}}}\n")
            subprocess.run([PROGRAM, "train", "e.yaml", "--quiet"], cwd=folder, check=True, timeout=60)
            subprocess.run([PROGRAM, "weights", "runs/run", "--to", "end.npz"], cwd=folder, check=True, timeout=60)
            with np.load(os.path.join(folder, "end.npz")) as end:
                ours = float(end["ids.embeddings"][0, 0])
        for value in (ours, found["jax"], found["torch"], float(weight.detach())):
            self.assertAlmostEqual(value, 0.9, 5)
        self.assertAlmostEqual(found["tensorflow"], 1 - 0.1 * 4 / 10**0.5, 5)

    def test_cross_entropies_of_probabilities(self):
        for activation, loss in (("softmax", "categorical_crossentropy"), ("sigmoid", "binary_crossentropy")):
            found = {}
            for backend in ("tensorflow", "jax", "torch"):
                done = subprocess.run([sys.executable, "-c", KERAS_LOSS, backend, activation, loss], check=True,
                                      capture_output=True, text=True, timeout=300)
                found[backend] = float(done.stdout.split("loss ")[-1])
            run = self.train(np.array([[-30, 30]], "float32"), np.array([[1, 0]], "float32"),
                             ["dense: {units: 2, kernel_initializer: identity, activation: %s}" % activation],
                             f"loss: {loss}")
            with open(os.path.join(run, "metrics.csv"), encoding="utf-8") as file:
                ours = float(next(csv.DictReader(file))["loss"])
            self.assertAlmostEqual(ours, found["jax"], 3)
            self.assertAlmostEqual(ours, found["torch"], 3)
            self.assertGreater(found["tensorflow"], 29)


if __name__ == "__main__":
    unittest.main()
