"""A saved model: over new data, and its weights out and in."""
import csv
import os
import unittest

import numpy
import pandas

from program import Case

EXPERIMENT = """
name: small
threads: 1
data: {train: table.csv, label: kind, standardize: true}
model:
  - dense: {name: hidden, units: 4, activation: relu}
  - dense: {name: probabilities, units: 2, activation: softmax}
train:
  loss: sparse_categorical_crossentropy
  epochs: 40
  optimizer: {adam: {learning_rate: 0.02}}
record:
  - {what: prediction, every: 40 epochs, to: [csv]}
"""

RANKS = """
name: ranks
threads: 1
data: {train: steps.npz, label: {x: x, y: y}}
model:
  - conv1d: {name: window, filters: 3, kernel: 2}
  - attention: {name: mixed, from: [window, window], use_scale: true}
  - global_average_pool1d: {name: all}
  - dense: {name: out, units: 1}
train: {loss: mse, steps: 1}
"""


class PredictAndWeights(Case):
    def setUp(self):
        super().setUp()
        data = numpy.random.default_rng(5).normal(size=(40, 3)).astype("float32")
        self.labels = (data.sum(1) > 0).astype(int)
        table = pandas.DataFrame(data * 7 + 2, columns=["a", "b", "c"])
        table.to_csv(self.path("new.csv"), index=False)
        table["kind"] = numpy.where(self.labels, "yes", "no")
        table.to_csv(self.path("table.csv"), index=False)
        self.train(EXPERIMENT, "--quiet")

    def test_data_is_prepared_as_in_training(self):
        done = self.run_program("predict", "runs/small", "table.csv", "--to", "out.csv")
        self.assertRegex(done.stdout, r"40 examples, accuracy \d")
        out = pandas.read_csv(self.path("out.csv"))
        self.assertEqual(list(out), ["label", "class_no", "class_yes", "predicted"])
        self.assertEqual(list(out.label), ["yes" if label else "no" for label in self.labels])
        recorded = pandas.read_csv(self.path("runs", "small", "predictions.csv"))
        scores = ["class_no", "class_yes"]
        numpy.testing.assert_allclose(out[scores].to_numpy()[recorded["sample"]],
                                      recorded[scores].to_numpy(), atol=1e-5)

    def test_without_labels_there_is_no_label_column(self):
        self.run_program("predict", "runs/small/model.safetensors", "new.csv", "--to", "out.csv",
                         "--quiet")
        out = pandas.read_csv(self.path("out.csv"))
        self.assertEqual(list(out), ["class_no", "class_yes", "predicted"])
        self.run_program("predict", "runs/small", "new.csv", "--to", "out.npy", "--batch", "7")
        numpy.testing.assert_allclose(numpy.load(self.path("out.npy")),
                                      out[["class_no", "class_yes"]].to_numpy(), atol=1e-6)
        self.run_program("predict", "runs/small", "new.csv", "--to", "pictures/")
        self.assertEqual(len(os.listdir(self.path("pictures"))), 40)

    def test_signals_inside_the_model_are_recorded(self):
        self.run_program("predict", "runs/small", "new.csv", "--record", "hidden.*", "--form",
                         "tensor", "--to", "npy", "--batch", "40")
        output = numpy.load(self.path("runs", "predict", "hidden.output.npy"))
        self.assertEqual(output.shape, (1, 40, 4))
        self.run_program("predict", "runs/small", "new.csv", "--record", "hidden.preactivation",
                         "--form", "tensor", "--to", "npy", "--batch", "40")
        before = numpy.load(self.path("runs", "predict-2", "hidden.preactivation.npy"))
        numpy.testing.assert_allclose(output, numpy.maximum(before, 0), atol=1e-6)

    def test_weights_go_out_and_come_back_exactly(self):
        self.run_program("weights", "runs/small", "--to", "weights.csv")
        with open(self.path("weights.csv"), newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(list(rows[0]), ["layer", "parameter", "index", "value"])
        self.assertEqual(len(rows), 3 * 4 + 4 + 4 * 2 + 2)
        self.assertEqual(rows[5]["index"], "1,1")
        self.assertEqual(rows[12]["index"], "0")
        self.run_program("weights", "runs/small", "--from", "weights.csv", "--to",
                         "again.safetensors")
        self.run_program("weights", "again.safetensors", "--to", "again.csv")
        self.assertEqual(self.read("weights.csv"), self.read("again.csv"))
        self.run_program("weights", "runs/small", "--to", "weights.npz")
        arrays = numpy.load(self.path("weights.npz"))
        self.assertEqual(arrays["hidden.kernel"].shape, (3, 4))
        self.assertEqual(arrays["hidden.kernel"][1, 1], numpy.float32(rows[5]["value"]))

    def test_weights_come_back_from_numpy_in_any_type(self):
        self.run_program("weights", "runs/small", "--to", "weights.npz")
        arrays = dict(numpy.load(self.path("weights.npz")))
        numpy.savez(self.path("back.npz"), **{name: numpy.asfortranarray(array.astype(">f8"))
                                              for name, array in arrays.items()})
        self.run_program("weights", "runs/small", "--from", "back.npz", "--to", "back.safetensors")
        self.run_program("weights", "runs/small", "--to", "first.csv")
        self.run_program("weights", "back.safetensors", "--to", "second.csv")
        self.assertEqual(self.read("first.csv"), self.read("second.csv"))
        arrays["hidden.kernel"] = arrays["hidden.kernel"].T
        arrays["hiden.bias"] = arrays.pop("hidden.bias")
        numpy.savez_compressed(self.path("bad.npz"), **arrays)
        done = self.run_program("weights", "runs/small", "--from", "bad.npz", "--to", "x.csv",
                                status=1)
        self.assertIn("bad.npz: 3 problems: ", done.stderr)
        self.assertIn("hidden.kernel has shape (4, 3), the model's has (3, 4)", done.stderr)
        self.assertIn("no parameter hiden.bias; the nearest is 'hidden.bias'", done.stderr)
        self.assertIn("hidden.bias is missing", done.stderr)
        self.assertFalse(self.exists("x.csv"))

    def test_parameters_of_any_rank_come_back_from_every_format(self):
        numpy.savez(self.path("steps.npz"), x=numpy.ones((4, 5, 2), "float32"), y=numpy.ones((4, 1), "float32"))
        self.train(RANKS, "--quiet")
        self.run_program("weights", "runs/ranks", "--to", "first.npz")
        first = dict(numpy.load(self.path("first.npz")))
        self.assertEqual({array.ndim for array in first.values()}, {0, 1, 2, 3})
        numpy.savez(self.path("own.npz"), **{name: array + 1 for name, array in first.items()})
        self.run_program("weights", "runs/ranks", "--from", "own.npz", "--to", "own.safetensors")
        for ending in ("npz", "csv", "safetensors", "keras", "h5"):
            with self.subTest(ending):
                self.run_program("weights", "own.safetensors", "--to", f"out.{ending}")
                self.run_program("weights", "runs/ranks", "--from", f"out.{ending}", "--to", f"{ending}.npz")
                back = dict(numpy.load(self.path(f"{ending}.npz")))
                self.assertEqual(set(back), set(first))
                for name, array in first.items():
                    self.assertEqual(back[name].shape, array.shape, name)
                    numpy.testing.assert_array_equal(back[name], array + 1, name)

    def test_an_exported_model_prepares_data_as_its_run_does(self):
        self.run_program("weights", "runs/small", "--to", "model.safetensors")
        for model in ("runs/small", "model.safetensors"):
            self.run_program("predict", model, "table.csv", "--to", "out.csv", "--quiet")
            os.rename(self.path("out.csv"), self.path(os.path.basename(model) + ".csv"))
        self.assertEqual(self.read("small.csv"), self.read("model.safetensors.csv"))

    def test_training_starts_from_exported_weights(self):
        self.run_program("weights", "runs/small", "--to", "weights.csv")
        self.run_program("weights", "runs/small", "--to", "weights.npz")
        self.train(EXPERIMENT + "weights: weights.csv\n", "--set", "train.steps=1", "--set",
                   "record=[{what: [hidden.kernel, hidden.kernel.update], form: tensor, to: npy}]",
                   "--quiet")
        after, change = (numpy.load(self.path("runs", "small-2", name + ".npy"))[0]
                         for name in ("hidden.kernel", "hidden.kernel.update"))
        self.assertGreater(numpy.abs(change).max(), 0)
        numpy.testing.assert_allclose(after - change,
                                      numpy.load(self.path("weights.npz"))["hidden.kernel"],
                                      atol=1e-6)

    def test_weights_that_do_not_fit_are_refused(self):
        self.run_program("weights", "runs/small", "--to", "weights.csv")
        good = self.read("weights.csv")
        last = good.splitlines(keepends=True)[-1]
        bad = {
            "missing": (good[:-len(last)], "probabilities.bias is missing"),
            "twice": (good + last, "twice"),
            "range": (good.replace('"0,0"', '"9,0"', 1), "weights.csv:2: the index lies outside"),
            "name": (good.replace("hidden,", "hiden,"), "'hidden.kernel'"),
            "number": (good.replace("hidden,bias,0,", "hidden,bias,0,x"), "not a number"),
            "header": (good.replace("layer,", "layers,", 1), "expected the header"),
        }
        for name, (text, message) in bad.items():
            with self.subTest(name):
                self.write("weights.csv", text)
                done = self.run_program("weights", "runs/small", "--from", "weights.csv", "--to",
                                        "x.npz", status=1)
                self.assertIn(message, done.stderr)
                self.assertFalse(self.exists("x.npz"))

    def test_what_is_no_model_says_so(self):
        self.write("broken.safetensors", "not a model at all")
        self.assertIn("broken.safetensors", self.run_program(
            "weights", "broken.safetensors", "--to", "w.csv", status=1).stderr)
        self.assertIn("model.safetensors", self.run_program(
            "weights", ".", "--to", "w.csv", status=1).stderr)
        self.assertIn(".csv, .npz, .safetensors, .keras, .h5, .onnx or a folder/", self.run_program(
            "weights", "runs/small", "--to", "w.txt", status=1).stderr)


if __name__ == "__main__":
    unittest.main()
