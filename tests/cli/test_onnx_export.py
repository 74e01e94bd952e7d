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

    def test_every_kind_of_layer(self):
        """By our own reader, which is compared with onnxruntime elsewhere."""
        sequence = ["reshape: {shape: [2, 1]}", "conv1d_transpose: {filters: 4, kernel: 3, stride: 2, padding: same}",
                    "bidirectional: {layer: lstm, units: 3, return_sequences: true}",
                    "bidirectional: {layer: gru, units: 3, return_sequences: true, merge_mode: mul}",
                    "time_distributed: {layer: dense, units: 4, activation: mish}", "normalization:",
                    "rms_normalization:", "prelu: {shared_axes: [1]}", "relu: {max_value: 2, negative_slope: 0.1}",
                    "unit_normalization:", "depthwise_conv1d: {kernel: 2, padding: same}",
                    "separable_conv1d: {filters: 4, kernel: 2}", "permute: {dims: [2, 1]}", "up_sampling1d:",
                    "spatial_dropout1d: {rate: 0.2}", "group_normalization: {groups: 1}", "flatten:",
                    "repeat_vector: {n: 3}", "identity: {name: v}", "dense: {name: q, units: 24, activation: squareplus}",
                    "additive_attention: {name: a, from: [q, v], causal: true}", "attention: {from: [a, v]}", "flatten:"]
        volume = ["reshape: {shape: [1, 2, 1, 1]}", "zero_padding3d: {front: 2, bottom: 1, left: 3}",
                  "conv3d: {filters: 4, kernel: 2, padding: same, activation: hard_silu}",
                  "max_pool3d: {size: [1, 1, 2]}", "up_sampling3d: {size: [1, 1, 2]}", "average_pool3d: {size: [1, 2, 1]}",
                  "cropping3d: {back: 1}", "conv3d_transpose: {filters: 2, kernel: 2, stride: 2, groups: 2}",
                  "global_average_pool3d: {keepdims: true}", "flatten:"]
        for name, layers in (("sequence", sequence), ("volume", volume)):
            with self.subTest(name):
                model = "model:\n" + "".join(f"  - {layer}\n" for layer in layers) + "  - dense: {name: logits, units: 2}\n"
                self.train((SMALL[:SMALL.index("model:")] + model + SMALL[SMALL.index("train:"):]).replace(
                    "name: small", f"name: {name}"), "--quiet")
                self.run_program("weights", f"runs/{name}", "--to", name + ".onnx")
                numpy.save(self.path("x.npy"), numpy.random.default_rng(1).standard_normal((9, 2)).astype("float32"))
                for saved, to in ((f"runs/{name}", "a"), (name + ".onnx", "b")):
                    self.run_program("predict", saved, "x.npy", "--to", to + ".npy", "--quiet")
                numpy.testing.assert_allclose(numpy.load(self.path("b.npy")), numpy.load(self.path("a.npy")),
                                              rtol=1e-5, atol=1e-6)

    def test_what_the_data_was_is_read_back(self):
        text = ("name: table\ndata: {train: table.csv, label: kind, standardize: true, batch: 4}\n"
                "model:\n  - dense: {name: logits, units: 2}\ntrain: {loss: sparse_categorical_crossentropy, from_logits: true, epochs: 2}\n")
        rows = [f"{i * 3},{i % 5},{'cat' if i % 2 else 'dog'}" for i in range(20)]
        self.write("table.csv", "\n".join(["weight,size,kind", *rows]) + "\n")
        self.train(text, "--quiet")
        self.run_program("weights", "runs/table", "--to", "table.onnx")
        self.write("new.csv", "size,weight\n1,30\n4,2\n")  # other order, no labels: columns are found by name
        found = []
        for saved in ("runs/table", "table.onnx"):
            self.run_program("predict", saved, "new.csv", "--to", "p.csv", "--quiet")
            found.append(self.read("p.csv"))
        self.assertRegex(found[0], "cat|dog")
        self.assertEqual(*found)

    def test_what_onnx_has_not_is_named_and_nothing_written(self):
        self.train(SMALL.replace("model:\n", "model:\n  - reshape: {shape: [2, 1]}\n"
                                 "  - lstm: {name: one, units: 2, activation: gelu}\n"), "--quiet")
        error = self.run_program("weights", "runs/small", "--to", "small.onnx", status=1).stderr
        self.assertIn("small.onnx: 1 layer cannot be written as operators: LSTM 'one' (the operator LSTM has no activation gelu)",
                      error)
        self.assertFalse(self.exists("small.onnx"))


if __name__ == "__main__":
    unittest.main()
