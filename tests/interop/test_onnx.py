"""ONNX both ways: what PyTorch and tf2onnx exported, and what Tapedeck wrote, onnxruntime and Tapedeck agree on.

Inputs are random, so that this checks more than the fixtures' own arrays.
"""
import glob
import os
import sys
import unittest

import keras
import numpy
import onnx
import onnxruntime
import tensorflow
import tf2onnx
from keras import layers
from onnx import numpy_helper
from safetensors.numpy import load_file, save_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import SOURCE, Case  # noqa: E402

FIXTURES = os.path.join(SOURCE, "tests", "fixtures", "models", "onnx")
TYPES = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(int32)": "int32"}


def channels_first(name):
    """PyTorch's images and signals, whose arrays here have the channels last, which Tapedeck takes too."""
    return not name.startswith(("keras", "lstm", "gru", "rnn", "bidirectional", "transformer", "mlp", "open", "transposed",
                                "batch_of", "steps_text"))


class Onnx(Case):
    def infer(self, path, x, first):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        given = session.get_inputs()[0]
        x = (numpy.moveaxis(x, -1, 1) if first else x).astype(TYPES[given.type])
        if not isinstance(given.shape[0], int):
            return session.run(None, {given.name: x})[0]
        batch, outputs = given.shape[0], []  # a fixed one: the last is filled up
        for begin in range(0, len(x), batch):
            part = x[begin:begin + batch]
            full = numpy.concatenate([part, numpy.zeros((batch - len(part), *x.shape[1:]), x.dtype)])
            outputs.append(session.run(None, {given.name: full})[0][:len(part)])
        return numpy.concatenate(outputs)

    def predict(self, path, x):
        numpy.save(self.path("x.npy"), x)
        self.run_program("predict", path, "x.npy", "--to", "y.npy", "--quiet")
        return numpy.load(self.path("y.npy"))

    def agree(self, ours, theirs, what):
        self.assertEqual(ours.shape, theirs.shape, what)
        numpy.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5, err_msg=what)

    def fixtures(self):
        for path in sorted(glob.glob(os.path.join(FIXTURES, "*.onnx"))):
            name = os.path.basename(path)[:-5]
            # Trained ones normalise by the batch, for onnxruntime; those without an array have tests of their own.
            if not name.startswith(("refused", "trained")) and os.path.exists(path[:-4] + "input.npy"):
                x = numpy.load(path[:-4] + "input.npy")
                random = numpy.random.default_rng(3)
                x = random.permutation(x.ravel()).reshape(x.shape)
                # A file with a fixed batch runs in onnxruntime with that batch alone.
                yield name, path, x[:1] if name.startswith("fixed") else x

    def test_models_of_others_predict_as_onnxruntime_has_it(self):
        for name, path, x in self.fixtures():
            with self.subTest(name):
                self.agree(self.predict(path, x), self.infer(path, x, channels_first(name)), name)

    def test_changed_weights_are_onnxruntime_s_after_writing(self):
        for name, path, x in self.fixtures():
            with self.subTest(name):
                self.run_program("weights", path, "--to", "start.safetensors")
                changed = {key: value * numpy.float32(1.25) for key, value in
                           load_file(self.path("start.safetensors")).items()}
                save_file(changed, self.path("changed.safetensors"))
                self.run_program("weights", path, "--from", "changed.safetensors", "--to", "changed.onnx")
                onnx.checker.check_model(self.path("changed.onnx"))
                theirs = self.infer(self.path("changed.onnx"), x, channels_first(name))
                self.agree(self.predict("changed.onnx", x), theirs, name)
                if not name.startswith("keras_text"):  # its first weights are multiplied away
                    self.assertGreater(numpy.abs(theirs - self.infer(path, x, channels_first(name))).max(), 1e-4)

    def test_writing_changes_nothing_but_the_weights(self):
        path = os.path.join(FIXTURES, "residual_11.onnx")
        self.run_program("weights", path, "--to", "same.onnx")
        before, after = onnx.load(path), onnx.load(self.path("same.onnx"))
        for a, b in zip(before.graph.initializer, after.graph.initializer):
            numpy.testing.assert_array_equal(numpy_helper.to_array(a), numpy_helper.to_array(b))
        del before.graph.initializer[:], after.graph.initializer[:]
        self.assertEqual(before.SerializeToString(), after.SerializeToString())

    def test_a_model_fresh_from_tf2onnx_trains_and_goes_back(self):
        model = keras.Sequential([
            layers.Input((8, 8, 1)), layers.Conv2D(4, 3, activation="relu", name="conv"),
            layers.MaxPooling2D(name="pool"), layers.Flatten(name="flatten"), layers.Dense(3, name="logits")])
        function = tensorflow.function(lambda x: model(x, training=False))
        tf2onnx.convert.from_function(function, [tensorflow.TensorSpec((None, 8, 8, 1), "float32", name="x")], opset=15,
                                      output_path=self.path("model.onnx"))
        random = numpy.random.default_rng(5)
        x = random.standard_normal((40, 8, 8, 1), "float32")
        self.agree(self.predict("model.onnx", x), model.predict(x, verbose=0), "tf2onnx")
        numpy.savez(self.path("data.npz"), x=x, y=(x.mean((1, 2, 3)) > 0).astype("int64"))
        self.train("""
name: onnx
data: {train: data.npz, label: {x: x, y: y}, batch: 8}
model: {file: model.onnx}
train: {loss: sparse_categorical_crossentropy, from_logits: true, optimizer: {adam: {learning_rate: 0.01}}, epochs: 30}
record:
  - {what: loss, to: [csv]}
  - {what: ["*.output", "*.error", "*.gradient"], at: [1], form: stats, to: [csv]}
""", "--quiet")
        losses = [float(row.split(",")[2]) for row in self.read("runs", "onnx", "metrics.csv").split()[1:]]
        self.assertLess(losses[-1], 0.5 * losses[0])
        self.run_program("weights", "runs/onnx", "--to", "trained.onnx")
        self.agree(self.predict("runs/onnx", x), self.infer(self.path("trained.onnx"), x, False), "trained")


if __name__ == "__main__":
    unittest.main()
