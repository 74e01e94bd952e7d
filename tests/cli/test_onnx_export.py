"""A model of layers as ONNX, and back: the same predictions, and the same bits of weights by the same names."""
import unittest

import numpy

from program import Case, SMALL

MODEL = """model:
  - reshape: {shape: [2, 1, 1]}
  - conv2d: {name: conv, filters: 3, kernel: [2, 1], padding: same, activation: relu}
  - batch_normalization: {name: norm}
  - reshape: {shape: [2, 3]}
  - gru: {name: gru, units: 4, return_sequences: true}
  - multi_head_attention: {name: mix, heads: 2, key_dim: 2}
  - flatten:
  - dense: {name: logits, units: 2}
"""


class OnnxExport(Case):
    def test_there_and_back(self):
        text = SMALL[:SMALL.index("model:")] + MODEL + SMALL[SMALL.index("train:"):]
        self.train(text, "--quiet")
        self.run_program("weights", "runs/small", "--to", "small.onnx")
        numpy.save(self.path("x.npy"), numpy.random.default_rng(1).standard_normal((9, 2)).astype("float32"))
        for model, name in (("runs/small", "a"), ("small.onnx", "b")):
            self.run_program("predict", model, "x.npy", "--to", name + ".npy", "--quiet")
            self.run_program("weights", model, "--to", name + ".npz")
        numpy.testing.assert_allclose(numpy.load(self.path("b.npy")), numpy.load(self.path("a.npy")), rtol=1e-6,
                                      atol=1e-6)
        a, b = numpy.load(self.path("a.npz")), numpy.load(self.path("b.npz"))
        self.assertEqual(sorted(value.tobytes() for value in a.values()),
                         sorted(value.tobytes() for value in b.values()))

    def test_what_onnx_has_not_is_named_and_nothing_written(self):
        self.train(SMALL.replace("model:\n", "model:\n  - reshape: {shape: [2, 1]}\n"
                                 "  - lstm: {name: one, units: 2, activation: gelu}\n"), "--quiet")
        error = self.run_program("weights", "runs/small", "--to", "small.onnx", status=1).stderr
        self.assertIn("small.onnx: 1 layer cannot be written as ONNX: LSTM 'one' (ONNX's LSTM has no activation gelu)",
                      error)
        self.assertFalse(self.exists("small.onnx"))


if __name__ == "__main__":
    unittest.main()
