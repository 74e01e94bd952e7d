"""hessian.max_eigenvalue and hessian.update_curvature of `tapedeck train`, against Hessians that NumPy computes in double precision."""
import os
import subprocess
import sys
import unittest

import numpy

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import PROGRAM, Case  # noqa: E402

TRAIN = "train: {loss: mse, optimizer: {sgd: {learning_rate: 0.05}}, steps: 6}\n"
DATA = "name: curved\nseed: 3\ndata: {train: x.npy, labels: y.npy, batch: 24, shuffle: false}\n"
RECORD = """record:
  - {what: ["hessian.max_eigenvalue", "hessian.update_curvature"], every: 2 steps, to: [sqlite]}
  - {what: ["*.kernel", "*.bias"], form: tensor, to: [npy]}
"""
NOISY = """model:
  - dense: {name: hidden, units: 8}
  - batch_normalization:
  - activation: {function: tanh}
  - dropout: {rate: 0.5}
  - dense: {name: out, units: 1}
"""


class Curvature(Case):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(1)
        self.x = random.normal(size=(24, 4)).astype("float32")
        self.y = (numpy.sin(self.x.sum(1, keepdims=True)) + 0.1 * random.normal(size=(24, 1))).astype("float32")
        numpy.save(self.path("x.npy"), self.x)
        numpy.save(self.path("y.npy"), self.y)

    def train(self, model, record=RECORD, name="curved"):
        self.write(f"{name}.yaml", DATA.replace("curved", name) + model + TRAIN + record)
        done = subprocess.run([PROGRAM, "train", f"{name}.yaml", "--quiet"], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def sql(self, query, run="curved"):
        done = subprocess.run([PROGRAM, "sql", f"runs/{run}", query], cwd=self.folder, capture_output=True, text=True, check=True)
        return [line.split() for line in done.stdout.splitlines()[1:]]

    def recorded(self, word):
        return {int(step): float(value) for step, value in self.sql(f"select step, value from scalars where signal = 'hessian.{word}' order by step")}

    def weights(self, *names):
        """Of each step, from 0 on, in a row; in double precision."""
        parts = [numpy.load(self.path("runs", "curved", f"{name}.npy")).astype(float) for name in names]
        return numpy.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    def compare(self, hessian_of, rows, tolerance):
        eigenvalues, updates = self.recorded("max_eigenvalue"), self.recorded("update_curvature")
        self.assertEqual((sorted(eigenvalues), sorted(updates)), ([2, 4, 6], [2, 4, 6]))
        for step, value in eigenvalues.items():
            hessian, d = hessian_of(rows[step - 1]), rows[step - 1] - rows[step - 2]
            self.assertAlmostEqual(value / numpy.linalg.eigvalsh(hessian)[-1], 1, delta=tolerance)
            self.assertAlmostEqual(updates[step] / (d @ hessian @ d / (d @ d)), 1, delta=tolerance)

    def test_a_linear_model(self):
        self.train("model: [{dense: {name: out, units: 1}}]\n")
        x = numpy.hstack([self.x.astype(float), numpy.ones((24, 1))])
        self.compare(lambda row: 2 / 24 * x.T @ x, self.weights("out.kernel", "out.bias"), 1e-3)

    def test_a_network_with_a_hidden_layer(self):
        self.train("model: [{dense: {name: hidden, units: 3, activation: tanh}}, {dense: {name: out, units: 1}}]\n")
        x, y = self.x.astype(float), self.y.astype(float)

        def gradient(row):
            w, b, u, c = row[:12].reshape(4, 3), row[12:15], row[15:18].reshape(3, 1), row[18:]
            h = numpy.tanh(x @ w + b)
            e = 2 / 24 * (h @ u + c - y)
            back = e @ u.T * (1 - h * h)
            return numpy.concatenate([(x.T @ back).ravel(), back.sum(0), (h.T @ e).ravel(), e.sum(0)])

        def hessian(row):
            columns = [(gradient(row + 1e-5 * unit) - gradient(row - 1e-5 * unit)) / 2e-5 for unit in numpy.eye(len(row))]
            return (numpy.array(columns) + numpy.array(columns).T) / 2

        self.compare(hessian, self.weights("hidden.kernel", "hidden.bias", "out.kernel", "out.bias"), 2e-3)

    def test_the_training_has_the_same_bits(self):
        self.train(NOISY)
        self.train(NOISY, "record: [{what: loss, to: [csv]}]\n", "plain")
        self.assertEqual(sorted(self.recorded("max_eigenvalue")), [2, 4, 6])
        self.assertEqual(self.tensors("curved"), self.tensors("plain"))

    def test_a_weight_of_minus_zero_keeps_its_sign(self):
        self.x[:, 0] = 0  # so that its gradient is 0
        numpy.save(self.path("x.npy"), self.x)
        numpy.savez(self.path("start.npz"), **{"out.kernel": numpy.array([[-0.0], [1], [1], [1]], "float32"), "out.bias": numpy.zeros(1, "float32")})
        model = "weights: start.npz\nmodel: [{dense: {name: out, units: 1}}]\n"
        self.train(model)
        self.train(model, "record: [{what: loss, to: [csv]}]\n", "plain")
        self.assertEqual(self.tensors("curved"), self.tensors("plain"))
        kernel = numpy.load(self.path("runs", "curved", "out.kernel.npy"))[-1]
        self.assertTrue(numpy.signbit(kernel[0]), kernel)

    def tensors(self, run):
        """What follows the header, which has the run's name."""
        data = self.bytes("runs", run, "model.safetensors")
        return data[8 + int.from_bytes(data[:8], "little"):]

    def test_a_star_alone_does_not_ask_for_it(self):
        self.train("model: [{dense: {name: out, units: 1}}]\n", 'record: [{what: "*", form: stats, to: [sqlite]}]\n')
        self.assertEqual(self.recorded("max_eigenvalue"), {})


if __name__ == "__main__":
    unittest.main()
