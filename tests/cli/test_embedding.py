"""An embedding trained with Adam and ids that a batch repeats: the gradient of an id is the sum over its
places, and its square that of the sum. Against the equations in numpy, double precision."""
import unittest

import numpy as np

from program import Case

BATCH, STEPS, RATE, IDS, WIDTH, PLACES = 8, 20, 0.01, 10, 3, 5
EXPERIMENT = """
name: ids
threads: 1
data: {train: ids.npy, labels: y.npy, batch: 8, shuffle: false}
model:
- embedding: {name: words, input_dim: 10, output_dim: 3}
- flatten
- dense: {name: out, units: 1}
weights: begin.npz
train: {loss: mse, optimizer: {adam: {learning_rate: 0.01}}, steps: 20}
"""


def reference(ids, y, begin):
    parameters = [begin[name].astype("float64") for name in ("words.embeddings", "out.kernel", "out.bias")]
    first, second = ([np.zeros_like(p) for p in parameters] for _ in range(2))
    for step in range(STEPS):
        part = slice(step * BATCH, step * BATCH + BATCH)
        words, kernel, bias = parameters
        read = words[ids[part]].reshape(BATCH, -1)
        error = 2 * (read @ kernel + bias - y[part]) / BATCH
        of_words = np.zeros_like(words)
        np.add.at(of_words, ids[part], (error @ kernel.T).reshape(BATCH, PLACES, WIDTH))
        rate = RATE * np.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
        for p, m, v, g in zip(parameters, first, second, (of_words, read.T @ error, error.sum(0))):
            m += (g - m) * 0.1
            v += (g * g - v) * 0.001
            p -= rate * m / (np.sqrt(v) + 1e-7)
    return parameters


class Embedding(Case):
    def test_repeated_ids_under_adam(self):
        generator = np.random.default_rng(0)
        ids = generator.integers(0, IDS, size=(BATCH * STEPS, PLACES))
        ids[:, :2] = 3
        y = generator.normal(size=(BATCH * STEPS, 1)).astype("float32")
        begin = {"words.embeddings": generator.normal(size=(IDS, WIDTH)).astype("float32"),
                 "out.kernel": generator.normal(size=(WIDTH * PLACES, 1)).astype("float32"),
                 "out.bias": np.zeros(1, "float32")}
        np.save(self.path("ids.npy"), ids)
        np.save(self.path("y.npy"), y)
        np.savez(self.path("begin.npz"), **begin)
        self.train(EXPERIMENT, "--out", "runs")
        self.run_program("weights", "runs/ids", "--to", "end.npz")
        with np.load(self.path("end.npz")) as found:
            for name, expected in zip(begin, reference(ids, y, begin)):
                np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=5e-6, err_msg=name)

    def test_ids_are_not_scaled(self):
        np.save(self.path("ids.npy"), np.array([[1, 2], [3, 4], [0, 1], [2, 2]]))
        np.save(self.path("y.npy"), np.zeros((4, 1), "float32"))
        single = EXPERIMENT.replace("weights: begin.npz\n", "")
        named = single.replace("train: ids.npy", "inputs: {x: y.npy, ids: ids.npy}").replace(
            "model:\n- embedding: {", "model:\n  inputs: [x, ids]\n  layers:\n  - embedding: {from: ids, ").replace(
            "\n- flatten\n- dense", "\n  - flatten\n  - dense")
        for text in (single, named):
            for option in ("standardize: true", "scale: 2"):
                with self.subTest(option):
                    key = option.split(":")[0]
                    said = self.train(text.replace("batch: 8", f"batch: 8, {option}"), status=2).stderr
                    self.assertIn(f"4: data.{key}: layer 'words' takes inputs as ids", said)


if __name__ == "__main__":
    unittest.main()
