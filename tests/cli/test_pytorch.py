"""PyTorch's state dictionaries as weights: what the network put out there, it puts out here."""
import json
import os
import shutil
import struct
import unittest

import numpy

from program import Case, SOURCE

FIXTURES = os.path.join(SOURCE, "tests", "fixtures", "models", "pytorch")
MODELS = {
    "cnn": """
  - conv2d: {name: conv1, filters: 4, kernel: 3, use_bias: false}
  - batch_normalization: {name: bn1, epsilon: 1.0e-5}
  - activation: {function: relu}
  - max_pool2d: {size: 2}
  - conv2d: {name: conv2, filters: 6, kernel: [3, 2], groups: 2, activation: relu}
  - flatten:
  - batch_normalization: {name: bn2, epsilon: 1.0e-5}
  - dense: {name: fc1, units: 8, activation: relu}
  - dense: {name: fc2, units: 3}
""",
    "sequence": """
  - embedding: {name: embedding, vocabulary: 11, width: 6}
  - lstm: {name: lstm, units: 5, return_sequences: true}
  - gru: {name: gru, units: 6, return_sequences: true}
  - multi_head_attention: {name: attention, heads: 2, key_dim: 3}
  - layer_normalization: {name: norm, epsilon: 1.0e-5}
  - conv1d: {name: conv, filters: 4, kernel: 3}
  - max_pool1d: {size: 2}
  - flatten:
  - dense: {name: fc, units: 7}
  - simple_rnn: {name: rnn, units: 3, from: norm}
  - concatenate: {name: both, from: [fc, rnn]}
  - dense: {name: head, units: 2}
""",
    "generator": """
  - dense: {name: fc, units: 24}
  - batch_normalization: {name: bn, epsilon: 1.0e-5}
  - activation: {function: relu}
  - reshape: {shape: [3, 2, 4]}
  - conv2d_transpose: {name: up, filters: 3, kernel: 3, stride: 2, activation: relu}
  - conv2d: {name: out, filters: 2, kernel: 1, activation: sigmoid}
""",
}


def read_safetensors(path):
    with open(path, "rb") as file:
        bytes_ = file.read()
    length, = struct.unpack("<Q", bytes_[:8])
    header = json.loads(bytes_[8:8 + length])
    header.pop("__metadata__", None)
    kinds = {"F32": "<f4", "I64": "<i8"}
    return {name: numpy.frombuffer(bytes_[8 + length:][slice(*entry["data_offsets"])],
                                   kinds[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()}


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, array in tensors.items():
        part = array.tobytes()
        header[name] = {"dtype": {"f4": "F32", "i8": "I64", "f8": "F64"}[array.dtype.str[1:]],
                        "shape": array.shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class PyTorch(Case):
    def experiment(self, name, weights="weights.safetensors"):
        for part in ("input", "output"):
            shutil.copy(os.path.join(FIXTURES, f"{name}.{part}.npy"), self.path(f"{part}.npy"))
        return (f"name: {name}\nthreads: 1\ndata: {{train: input.npy, labels: output.npy}}\n"
                f"model:{MODELS[name]}weights: {weights}\n"
                "train: {loss: mse, steps: 1}\n")

    def tensors(self, name):
        return read_safetensors(os.path.join(FIXTURES, f"{name}.safetensors"))

    def refusal(self, name, tensors):
        write_safetensors(self.path("weights.safetensors"), tensors)
        return self.train(self.experiment(name), status=2).stderr

    def test_outputs_are_pytorchs(self):
        for name in MODELS:
            with self.subTest(name):
                shutil.copy(os.path.join(FIXTURES, f"{name}.safetensors"),
                            self.path("weights.safetensors"))
                self.train(self.experiment(name), "--quiet")
                self.run_program("predict", f"runs/{name}/initial.safetensors", "input.npy", "--to",
                                 "out.npy", "--quiet")
                numpy.testing.assert_allclose(numpy.load(self.path("out.npy")),
                                              numpy.load(self.path("output.npy")), atol=1e-5)

    def test_the_order_of_features_is_kept_through_layers_that_keep_it(self):
        shutil.copy(os.path.join(FIXTURES, "cnn.safetensors"), self.path("weights.safetensors"))
        text = self.experiment("cnn").replace(
            "  - flatten:\n", "  - reshape: {shape: [-1]}\n  - dropout: {rate: 0.5}\n"
            "  - rescaling: {scale: 1}\n  - maximum: {from: [rescaling, rescaling]}\n"
            "  - average: {from: [maximum, rescaling]}\n  - flatten:\n")
        self.train(text, "--quiet")
        self.run_program("predict", "runs/cnn/initial.safetensors", "input.npy", "--to", "out.npy",
                         "--quiet")
        numpy.testing.assert_allclose(numpy.load(self.path("out.npy")),
                                      numpy.load(self.path("output.npy")), atol=1e-5)

    def test_every_normalisation_takes_features_in_pytorchs_order(self):
        tensors = self.tensors("cnn")
        channels, places = 6, 4
        scale = numpy.arange(channels * places, dtype="f4")
        tensors["rms.weight"] = scale
        write_safetensors(self.path("weights.safetensors"), tensors)
        self.train(self.experiment("cnn").replace(
            "  - batch_normalization: {name: bn2",
            "  - rms_normalization: {name: rms}\n  - batch_normalization: {name: bn2"), "--quiet")
        ours = read_safetensors(self.path("runs/cnn/initial.safetensors"))["rms.scale"]
        numpy.testing.assert_array_equal(ours, scale.reshape(channels, places).T.ravel())

    def test_groups_of_flattened_maps_are_refused(self):
        tensors = self.tensors("cnn")
        tensors["gn.weight"] = tensors["gn.bias"] = numpy.ones(24, "f4")
        write_safetensors(self.path("weights.safetensors"), tensors)
        text = self.experiment("cnn").replace(
            "  - batch_normalization: {name: bn2",
            "  - group_normalization: {name: gn, groups: 2}\n  - batch_normalization: {name: bn2")
        self.assertIn("gn reads flattened maps, of which PyTorch's groups are other features",
                      self.train(text, status=2).stderr)

    def test_weights_go_into_a_saved_model(self):
        shutil.copy(os.path.join(FIXTURES, "cnn.safetensors"), self.path("weights.safetensors"))
        self.train(self.experiment("cnn").replace("weights: weights.safetensors\n", ""), "--quiet")
        self.run_program("weights", "runs/cnn", "--from", "weights.safetensors", "--to",
                         "model.safetensors")
        self.run_program("predict", "model.safetensors", "input.npy", "--to", "out.npy", "--quiet")
        numpy.testing.assert_allclose(numpy.load(self.path("out.npy")),
                                      numpy.load(self.path("output.npy")), atol=1e-5)

    def test_all_problems_are_told_with_both_names(self):
        tensors = self.tensors("cnn")
        tensors["fc1.weight"] = tensors["fc1.weight"][:, :-1].copy()
        tensors["fc3.weight"] = tensors.pop("fc2.weight")
        text = self.refusal("cnn", tensors)
        self.assertIn("experiment.yaml:14: weights: ", text)
        self.assertIn("3 problems", text)
        self.assertIn("fc1.weight has shape (8, 23); for fc1.kernel (24, 8) it must have (8, 24)",
                      text)
        self.assertIn("fc2.weight, for fc2.kernel, is missing", text)
        self.assertIn("the model has no place for fc3.weight", text)

    def test_what_cannot_be_the_same_is_refused(self):
        tensors = self.tensors("sequence")
        write_safetensors(self.path("weights.safetensors"), tensors)
        before = self.experiment("sequence").replace("units: 6, return",
                                                     "units: 6, reset_after: false, return")
        self.assertIn("gru: PyTorch's GRU resets after", self.train(before, status=2).stderr)
        mixed = self.experiment("cnn").replace(
            "  - batch_normalization: {name: bn2", "  - flatten: {name: raw, from: input}\n"
            "  - concatenate: {from: [flatten, raw]}\n  - batch_normalization: {name: bn2")
        self.assertIn("whose order PyTorch's file does not say",
                      self.train(mixed, status=2).stderr)

    def test_other_element_types_are_converted(self):
        tensors = {name: array.astype("float64") for name, array in self.tensors("generator").items()
                   if "num_batches" not in name}
        write_safetensors(self.path("weights.safetensors"), tensors)
        self.train(self.experiment("generator"), "--quiet")
        self.run_program("predict", "runs/generator/initial.safetensors", "input.npy", "--to",
                         "out.npy", "--quiet")
        numpy.testing.assert_allclose(numpy.load(self.path("out.npy")),
                                      numpy.load(self.path("output.npy")), atol=1e-5)


if __name__ == "__main__":
    unittest.main()
