"""Our own models as ONNX: every layer and option passes onnx.checker, runs in onnxruntime with our numbers, and
loads back with the same bits of weights."""
import os
import sys
import unittest

import numpy
import onnx
import onnxruntime

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import Case, SMALL  # noqa: E402

ACTIVATIONS = ("relu", "leaky_relu", "elu", "selu", "gelu", "gelu_tanh", "softplus", "sigmoid", "tanh", "swish",
               "softmax", "log_softmax", "exponential", "relu6", "hard_sigmoid", "softsign", "linear", "hard_silu",
               "hard_tanh", "hard_shrink", "soft_shrink", "tanh_shrink", "mish", "celu", "log_sigmoid", "squareplus",
               "sparse_plus", "sparse_sigmoid")
IMAGE, STEPS, ROW = (7, 6, 4), (7, 4), (6,)
CASES = {
    "dense": (ROW, ["dense: {units: 5, use_bias: false}"] + [
        f"dense: {{units: 5, activation: {name}}}" for name in ACTIVATIONS]),
    "dense over steps": (STEPS, ["dense: {units: 3, activation: relu}"]),
    "activation": (ROW, [f"activation: {{function: {name}}}" for name in ACTIVATIONS if name != "exponential"]
                   + ["activation: {function: leaky_relu, alpha: 0.05}", "activation: {function: elu, alpha: 0.5}",
                      "activation: {function: leaky_relu, alpha: 0}"]),
    "conv2d": (IMAGE, [
        "conv2d: {filters: 6, kernel: 3, padding: same, activation: relu}",
        "conv2d: {filters: 4, kernel: [2, 3], stride: [1, 2], padding: same, use_bias: false}",
        "conv2d: {filters: 4, kernel: 2, dilation: 2, padding: same, groups: 2, activation: softmax}",
        "conv2d: {filters: 3, kernel: [3, 1], stride: 2}"]),
    "conv1d": (STEPS, ["conv1d: {filters: 4, kernel: 3, padding: causal, dilation: 2}",
                       "conv1d: {filters: 4, kernel: 2, stride: 2, padding: same, groups: 2, activation: tanh}",
                       "conv1d: {filters: 3, kernel: 2}"]),
    "depthwise": (IMAGE, ["depthwise_conv2d: {kernel: 3, multiplier: 2, padding: same, activation: relu}",
                          "depthwise_conv2d: {kernel: 2, dilation: 2, use_bias: false}",
                          "separable_conv2d: {filters: 5, kernel: 2, stride: 2, padding: same, multiplier: 2}",
                          "separable_conv2d: {filters: 5, kernel: 1, use_bias: false, activation: tanh}"]),
    "pool2d": ((13, 12, 2), ["max_pool2d: {size: 3, stride: 2, padding: same}",
                             "average_pool2d: {size: 3, stride: 1, padding: same}",
                             "average_pool2d: {size: [1, 2]}", "max_pool2d: {size: 2, stride: 1}"]),
    "pool1d": ((23, 2), ["max_pool1d: {size: 3, stride: 2, padding: same}",
                         "average_pool1d: {size: 3, stride: 1, padding: same}", "average_pool1d: {size: 2}",
                         "max_pool1d: {size: 2}"]),
    "global2d": (IMAGE, ["global_average_pool2d: {keepdims: true}", "global_max_pool2d:"]),
    "global2d max": (IMAGE, ["global_max_pool2d: {keepdims: true}", "global_average_pool2d:"]),
    "global1d": (STEPS, ["global_average_pool1d: {keepdims: true}", "global_max_pool1d:"]),
    "global1d max": (STEPS, ["global_max_pool1d: {keepdims: true}", "global_average_pool1d:"]),
    "up": ((3, 2, 2), ["up_sampling2d: {size: [2, 3]}", "up_sampling2d: {size: 2, interpolation: bilinear}"]),
    "borders": (IMAGE, ["zero_padding2d: {top: 1, left: 2, right: 3}", "cropping2d: {bottom: 2, left: 1}"]),
    "borders of steps": (STEPS, ["zero_padding1d: {before: 1, after: 2}", "cropping1d: {after: 1}"]),
    "shapes": (IMAGE, ["reshape: {shape: [-1, 8]}", "flatten:", "dense: {units: 3}"]),
    "same": (ROW, ["dropout: {rate: 0.5}", "gaussian_noise: {stddev: 0.5}", "rescaling: {scale: 0.5, offset: -1}"]),
    "normalization": (IMAGE, ["batch_normalization:", "batch_normalization: {scale: false, epsilon: 0.1}",
                              "layer_normalization:", "layer_normalization: {scale: false}",
                              "layer_normalization: {center: false}", "group_normalization: {groups: 2}",
                              "group_normalization: {groups: -1, scale: false, center: false}",
                              "group_normalization: {groups: 1}"]),
    "embedding": ((5,), ["embedding: {vocabulary: 11, width: 3}", "flatten:", "dense: {units: 2}"]),
    "merge": (ROW, ["dense: {name: a, units: 4}", "dense: {name: b, units: 4, from: input}"] + [
        f"{name}: {{name: {name[:3]}, from: [a, b]}}" for name in
        ("add", "subtract", "multiply", "average", "maximum", "minimum")] + [
        "dot: {name: d, from: [a, b], axes: 1}", "dot: {name: e, from: [a, b], axes: 1, normalize: true}",
        "concatenate: {from: [add, sub, mul, ave, max, min, d, e]}"]),
    "merge of ranks": (STEPS, ["global_max_pool1d: {name: row}", "multiply: {name: m, from: [input, row]}",
                               "dot: {name: t, from: [m, input], axes: [2, 2]}",
                               "dot: {name: u, from: [t, input], axes: 1, normalize: true}",
                               "dot: {name: v, from: [u, row], axes: [2, 1]}",
                               "concatenate: {from: [u, u], axis: 1}"]),
    "attention": (STEPS, ["multi_head_attention: {name: a, heads: 2, key_dim: 3}",
                          "multi_head_attention: {name: b, heads: 3, key_dim: 2, value_dim: 4, causal: true}",
                          "dense: {name: m, units: 5, from: input}",
                          "multi_head_attention: {from: [b, m, a], heads: 2, key_dim: 3, use_bias: false}"]),
}
VOLUME = (5, 4, 6, 2)
CASES.update({
    "volumes": (VOLUME, ["zero_padding3d: {front: 1, right: 2}",
                         "conv3d: {filters: 4, kernel: [2, 3, 1], padding: same, stride: [1, 2, 1], activation: relu}",
                         "conv3d: {filters: 4, kernel: 2, dilation: [2, 1, 1], groups: 2, use_bias: false}",
                         "max_pool3d: {size: [1, 1, 2], padding: same}", "up_sampling3d: {size: [1, 2, 3]}",
                         "average_pool3d: {size: 2, stride: 1, padding: same}", "cropping3d: {back: 1, left: 1}"]),
    "global3d": (VOLUME, ["global_average_pool3d: {keepdims: true}", "global_max_pool3d:"]),
    "global3d max": (VOLUME, ["global_max_pool3d: {keepdims: true}", "global_average_pool3d:"]),
    "given": (STEPS, ["normalization:", "dense: {units: 3}", "normalization: {invert: true}"]),
    "time_distributed": ((3, 6, 5, 2), [
        "time_distributed: {layer: conv2d, filters: 3, kernel: 2, activation: relu}",
        "time_distributed: {layer: batch_normalization}", "time_distributed: {layer: flatten}",
        "time_distributed: {layer: dense, units: 4, activation: tanh}"]),
})
for kind in ("simple_rnn", "lstm", "gru"):
    CASES["bidirectional " + kind] = (STEPS, [
        f"bidirectional: {{layer: {kind}, units: 3, return_sequences: true}}",
        f"bidirectional: {{layer: {kind}, units: 3, return_sequences: true, merge_mode: mul, go_backwards: true}}",
        f"bidirectional: {{layer: {kind}, units: 4, return_sequences: true, merge_mode: ave, use_bias: false}}",
        f"bidirectional: {{layer: {kind}, units: 3, merge_mode: sum}}"])
CASES.update({
    "transposed over steps": (STEPS, ["conv1d_transpose: {filters: 4, kernel: 3, stride: 2, padding: same, groups: 2}",
                                      "conv1d_transpose: {filters: 3, kernel: 2, stride: 3, activation: tanh}",
                                      "conv1d_transpose: {filters: 3, kernel: 2, dilation: 2}"]),
    "transposed volume": ((3, 2, 2, 4), [
        "conv3d_transpose: {filters: 4, kernel: [2, 3, 1], stride: [3, 2, 1], padding: same, groups: 2}",
        "conv3d_transpose: {filters: 2, kernel: 2, stride: 1, use_bias: false, activation: relu}"]),
    "depthwise over steps": (STEPS, ["depthwise_conv1d: {kernel: 3, multiplier: 2, padding: same, activation: relu}",
                                     "separable_conv1d: {filters: 5, kernel: 2, stride: 2, multiplier: 2}"]),
    "repeat and permute": (ROW, ["repeat_vector: {n: 4}", "dense: {units: 3}", "up_sampling1d: {size: 3}",
                                 "permute: {dims: [2, 1]}"]),
    "cut off": (ROW, ["dense: {units: 5}", "relu: {max_value: 1, negative_slope: 0.25, threshold: 0.1}",
                      "prelu:", "relu: {negative_slope: 0.5}", "relu: {max_value: 2}", "identity:",
                      "alpha_dropout: {rate: 0.2}", "gaussian_dropout: {rate: 0.2}"]),
    "attention scores with numbers": (STEPS, [
        "dense: {name: q, units: 4}",
        "attention: {from: [q, input], causal: true, use_scale: true, score_mode: concat}"]),
    "lengths": (IMAGE, ["prelu: {shared_axes: [1, 2]}", "unit_normalization: {axis: [1, 3]}", "rms_normalization:",
                        "spatial_dropout2d: {rate: 0.5}", "unit_normalization:"]),
    "attention scores": (STEPS, ["dense: {name: q, units: 4}", "attention: {name: a, from: [q, input]}",
                                 "additive_attention: {name: c, from: [a, q], causal: true}",
                                 "additive_attention: {from: [c, a], use_scale: false}"]),
})
for k, s, p, o in ((3, 2, "same", ""), (2, 3, "valid", ""), ("[3, 2]", 1, "valid", ""), (4, 3, "same", ""),
                   (2, 3, "same", ""), (3, 2, "same", ", output_padding: 1"), (3, 2, "valid", ", output_padding: 0"),
                   (3, 2, "same", ", output_padding: 0"), (3, "[2, 1]", "valid", ", activation: relu"),
                   (3, 2, "same", ", groups: 1")):
    CASES[f"conv2d_transpose {len(CASES)}"] = (
        IMAGE, [f"conv2d_transpose: {{filters: 3, kernel: {k}, stride: {s}, padding: {p}{o}}}"])
for kind in ("simple_rnn", "lstm", "gru"):
    CASES[kind] = (STEPS, [
        f"{kind}: {{units: 5, return_sequences: true}}",
        f"{kind}: {{units: 4, return_sequences: true, go_backwards: true, use_bias: false, activation: relu}}",
        f"{kind}: {{units: 4, return_sequences: true, activation: elu}}",
        f"{kind}: {{units: 3, go_backwards: true, activation: softsign}}"])
    CASES[kind + " with numbers"] = (STEPS, [f"{kind}: {{units: 4, return_sequences: true, activation: linear}}",
                                             f"{kind}: {{units: 4, activation: leaky_relu}}"])
CASES["gru"][1].insert(0, "gru: {units: 4, return_sequences: true, reset_after: false}")
CASES["lstm with numbers"][1].insert(0, "lstm: {units: 4, return_sequences: true, "
                                        "recurrent_activation: hard_sigmoid}")


class Export(Case):
    def make(self, name, shape, steps):
        """A run of this model, its weights moved away from where they started."""
        rng = numpy.random.default_rng(len(name))
        x = rng.standard_normal((9, *shape)).astype("float32")
        if name == "embedding":
            x = rng.integers(0, 11, (9, *shape)).astype("int32")
        numpy.savez(self.path("data.npz"), x=x, y=numpy.zeros((9, 1), "float32"))
        model = "".join(f"  - {step}\n" for step in steps)
        self.train("name: t\nseed: 4\ndata: {train: data.npz, label: {x: x, y: y}, batch: 3}\nmodel:\n" + model
                   + "  - flatten: {name: end}\n  - dense: {name: out, units: 1}\n"
                   "train: {loss: mse, steps: 5, optimizer: {adam: {learning_rate: 0.02}}}\n", "--quiet")
        return x

    def predict(self, model, x):
        numpy.save(self.path("x.npy"), x)
        self.run_program("predict", model, self.path("x.npy"), "--to", self.path("y.npy"), "--quiet")
        return numpy.load(self.path("y.npy"))

    def close(self, a, b, what):
        self.assertLessEqual(numpy.abs(a - b).max() / max(1, numpy.abs(a).max()), 1e-6, what)

    def weights(self, model):
        self.run_program("weights", model, "--to", self.path("w.npz"))
        return sorted(value.tobytes() for value in numpy.load(self.path("w.npz")).values())

    def check(self, name, shape, steps):
        x = self.make(name, shape, steps)
        run, file = self.path("runs", "t"), self.path("t.onnx")
        self.run_program("weights", run, "--to", file)
        onnx.checker.check_model(file, full_check=True)
        ours = self.predict(run, x)
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        self.close(ours, session.run(None, {"input": x})[0], "onnxruntime")
        if "numbers" not in name:  # activations with numbers of their own, and single numbers, are not read back
            self.close(ours, self.predict(file, x), "read back")
            self.assertEqual(self.weights(run), self.weights(file))

    def test_every_layer_runs_in_onnxruntime(self):
        top = self.folder
        for name, (shape, steps) in CASES.items():
            with self.subTest(name):
                self.folder = os.path.join(top, name.replace(" ", "_"))
                os.makedirs(self.folder)
                self.check(name, shape, steps)

    def test_what_the_data_was_is_kept(self):
        self.train(SMALL.replace("epochs: 4", "epochs: 1"), "--quiet")
        self.run_program("weights", self.path("runs", "small"), "--to", self.path("s.onnx"))
        model = onnx.load(self.path("s.onnx"))
        self.assertEqual(model.producer_name, "tapedeck")
        self.assertEqual([value.name for value in model.graph.output], ["logits"])
        notes = {entry.key: entry.value for entry in model.metadata_props}
        self.assertIn("sparse_categorical_crossentropy", notes["tapedeck.data"])

    def test_what_onnx_has_not_is_listed(self):
        self.train(SMALL.replace("epochs: 4", "epochs: 1").replace(
            "model:\n", "model:\n  - reshape: {shape: [2, 1]}\n  - lstm: {name: one, units: 2, activation: gelu, "
            "return_sequences: true}\n  - gru: {name: two, units: 2, activation: swish}\n"), "--quiet")
        error = self.run_program("weights", self.path("runs", "small"), "--to", self.path("s.onnx"), status=1).stderr
        self.assertIn("2 layers cannot be written as operators: LSTM 'one' (the operator LSTM has no activation gelu), GRU 'two'",
                      error)
        self.assertFalse(self.exists("s.onnx"))


if __name__ == "__main__":
    unittest.main()
