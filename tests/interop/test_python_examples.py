"""examples/python: they run, and their results are what the write-ups' own TensorFlow and PyTorch code computes."""

import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np

import tapedeck

EXAMPLES = os.path.join(os.environ["TD_SOURCE"], "examples", "python")


# The rules for errors of the program that trains: those that read facts about its loop.
RULES = pathlib.Path(os.environ["TD_SOURCE"], "src", "training", "diagnose", "rules")
LOOP_RULES = [path.stem for path in RULES.glob("*.c") if "diagnose/loop.h" in path.read_text(encoding="utf-8")]
assert len(LOOP_RULES) > 20


class Examples(unittest.TestCase):
    def run_example(self, name, *causes):
        """causes: what diagnose finds in the example's own data and model, and should."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        run = os.path.join(folder.name, "run")
        result = subprocess.run([sys.executable, "-W", "ignore", os.path.join(EXAMPLES, name + ".py"), run], capture_output=True,
                                text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_no_other_error(run, causes)
        return result.stdout, run

    def assert_no_other_error(self, run, causes=()):
        found = subprocess.run([os.environ["TAPEDECK"], "diagnose", run, "--only", ",".join(LOOP_RULES), "--json"],
                               capture_output=True, text=True, timeout=60)
        findings = json.loads(found.stdout)["findings"]
        self.assertEqual([finding["cause"] for finding in findings], list(causes), f"{findings} {found.stderr}")

    def test_layer_errors(self):
        """Against a loop with tf.GradientTape and the same weights."""
        import keras
        import tensorflow as tf

        out, run = self.run_example("layer_errors", "wrong_output_activation")  # its last layer is a relu, its targets are not
        self.assertIn("layer MSE: 0.25", out)
        keras.utils.set_random_seed(0)
        model = keras.Sequential([
            keras.layers.Input((5,)), keras.layers.Dense(10, activation="relu", name="layer1"),
            keras.layers.Dense(5, activation="relu", name="layer2"),
        ])
        x, y = np.random.normal(size=(100, 5)).astype("float32"), np.random.normal(size=(100, 5)).astype("float32")
        with open(os.path.join(run, "layer1.error.csv")) as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 300)
        at = 0
        for step in range(1, 13):
            first = (step - 1) % 4 * 32
            bx, by = x[first : first + 32], y[first : first + 32]
            with tf.GradientTape() as tape:
                hidden = model.get_layer("layer1")(bx)
                loss = tf.reduce_mean(tf.square(model.get_layer("layer2")(hidden) - by))
            weights = [v.value for v in model.trainable_variables]
            error, *gradients = tape.gradient(loss, [hidden, *weights])
            for i in range(len(bx)):
                row = rows[at]
                at += 1
                self.assertEqual((int(row["epoch"]), int(row["step"])), ((step + 3) // 4, step))
                found = [float(row[f"error_{k}"]) for k in range(10)]
                np.testing.assert_allclose(found, error[i], atol=1e-6)
            for v, g in zip(model.trainable_variables, gradients):
                v.assign_sub(0.01 * g)

    def test_results(self):
        out, run = self.run_example("results")
        self.assertIn("the same weights: True", out)
        with open(os.path.join(run, "metrics.csv")) as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["epoch"] for row in rows], ["1", "2", "3", "4", "5"])
        with open(run + "-predictions/predictions.csv") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 20)
        self.assertAlmostEqual(sum(float(rows[0][f"class_{i}"]) for i in range(3)), 1, places=5)

    def test_samples(self):
        _, run = self.run_example("samples")
        with open(os.path.join(run, "predictions.csv")) as file:
            self.assertEqual([row["epoch"] for row in csv.DictReader(file)], ["2"] * 5 + ["4"] * 5)
        self.assertEqual(np.load(os.path.join(run, "outputs.npy")).shape, (64, 3))

    def test_gradients(self):
        """Against retain_grad."""
        import torch
        import torch.nn.functional as F

        _, run = self.run_example("gradients")
        torch.manual_seed(0)
        conv1, conv2, dense = torch.nn.Conv2d(1, 8, 3), torch.nn.Conv2d(8, 16, 3), torch.nn.Linear(400, 10)
        x, y = torch.randn(32, 1, 28, 28), torch.randint(0, 10, (32,))
        middle = conv2(F.max_pool2d(F.relu(conv1(x)), 2))
        middle.retain_grad()
        F.cross_entropy(dense(F.max_pool2d(F.relu(middle), 2).flatten(1)), y).backward()
        stats = tapedeck.Run(run)["conv2.error"].stats
        self.assertAlmostEqual(stats.loc[1, "norm"], middle.grad.norm().item(), places=5)

    def test_intermediate(self):
        out, run = self.run_example("intermediate", "bad_labels")  # they are drawn at random
        self.assertIn("arrays: (4, 16, 128)", out)
        loss = tapedeck.Run(run)["loss"].to_pandas()
        fired = loss[loss > 2.35].index[0]
        kept = np.load(os.path.join(run, "0.error.steps.npy")).tolist()
        self.assertEqual(kept[:3], [fired - 2, fired - 1, fired])


if __name__ == "__main__":
    unittest.main()
