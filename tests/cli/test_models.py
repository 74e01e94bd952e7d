"""Saved models in experiments: training goes on from a file, with layers frozen, and resumes. And every
command with files of other programs."""
import json
import os
import shutil
import unittest

import numpy

from program import Case, SMALL, SOURCE

LAYERS = SMALL[SMALL.index("model:"):SMALL.index("train:")]
RECORD = """
record:
  - {what: [loss, accuracy], to: [csv]}
"""


def from_file(text=SMALL, model="{file: first/small/model.safetensors}"):
    return text.replace(LAYERS, f"model: {model}\n")


class ModelFile(Case):
    def setUp(self):
        super().setUp()
        self.train(SMALL, "--quiet", "--out", "first")

    def weights(self, run, name):
        self.run_program("weights", run, "--to", "w.npz")
        return numpy.load(self.path("w.npz"))[name]

    def test_training_goes_on_with_frozen_layers_as_they_were(self):
        before = self.weights("first/small", "hidden.kernel"), self.weights("first/small",
                                                                           "logits.kernel")
        self.train(from_file(model="{file: first/small, frozen: ['hid*']}"), "--quiet")
        numpy.testing.assert_array_equal(self.weights("runs/small", "hidden.kernel"), before[0])
        self.assertTrue((self.weights("runs/small", "logits.kernel") != before[1]).any())

    def test_frozen_says_exactly_which_layers(self):
        self.train(from_file(model="{file: first/small, frozen: [hidden]}"), "--quiet")
        kept = self.weights("runs/small", "hidden.kernel")
        self.train(from_file(model="{file: runs/small}"), "--quiet")
        numpy.testing.assert_array_equal(self.weights("runs/small-2", "hidden.kernel"), kept)
        self.train(from_file(model="{file: runs/small, frozen: []}"), "--quiet")
        self.assertTrue((self.weights("runs/small-3", "hidden.kernel") != kept).any())

    def test_the_run_needs_no_other_file_and_resumes_bit_for_bit(self):
        text = from_file(model="{file: first/small/model.safetensors, frozen: [logits]}") + RECORD
        self.train(text.replace("epochs: 4", "epochs: 8"), "--quiet")
        self.train(text, "--quiet")
        os.remove(self.path("first", "small", "model.safetensors"))
        os.rename(self.path("runs", "small-2"), self.path("elsewhere"))
        self.run_program("train", "--resume", "elsewhere", "--set", "train.epochs=8", "--quiet")
        for name in ("metrics.csv", "model.safetensors"):
            self.assertEqual(self.bytes("runs", "small", name), self.bytes("elsewhere", name))

    def test_weights_are_kept_in_the_run_too(self):
        self.run_program("weights", "first/small", "--to", "w.csv")
        self.train(SMALL + "weights: w.csv\n", "--quiet")
        os.remove(self.path("w.csv"))
        self.run_program("train", "--resume", "runs/small", "--set", "train.epochs=5", "--quiet")

    def test_problems_name_the_line(self):
        def problem(model, text=SMALL):
            return self.train(from_file(text, model), status=2).stderr
        self.assertRegex(problem("{file: first/small, frozen: [hidden, logit]}"),
                         r"experiment.yaml:9: model.frozen: no layer 'logit' in .*did you mean "
                         r"'logits'\?")
        self.assertIn("nothing to train", problem("{file: first/small, frozen: '*'}"))
        self.assertIn("did you mean 'frozen'?", problem("{file: first/small, frosen: []}"))
        self.assertRegex(problem("{file: nowhere}"), "experiment.yaml:9: model.file: no file")
        self.write("text.keras", "neither zip nor anything else\n")
        self.assertRegex(problem("{file: text.keras}"),
                         "experiment.yaml:9: model.file: .*text.keras: no model file")
        self.assertRegex(
            problem("{file: first/small}", SMALL.replace("two_moons", "sine").replace(
                "sparse_categorical_crossentropy", "mse")),
            r"it reads examples of shape \(2,\), and data has")


MODELS = os.path.join(SOURCE, "tests", "fixtures", "models")
FOREIGN = {"model.keras": "keras/images", "model.h5": "keras/images_2_13", "model.onnx": "onnx/cnn_13"}


class Foreign(Case):
    """Files of Keras 3, Keras 2 and PyTorch's ONNX exporter, under each command."""
    def fetch(self, model):
        fixture = os.path.join(MODELS, FOREIGN[model])
        shutil.copy(fixture + os.path.splitext(model)[1], self.path(model))
        for part in ("input", "output"):
            shutil.copy(f"{fixture}.{part}.npy", self.path(f"{part}.npy"))

    def outputs(self, model):
        self.run_program("predict", model, "input.npy", "--to", "out.npy", "--quiet")
        return numpy.load(self.path("out.npy"))

    def each(self):
        for model in FOREIGN:
            with self.subTest(model):
                self.fetch(model)
                yield model

    def test_predict_puts_out_what_the_original_did(self):
        for model in self.each():
            numpy.testing.assert_allclose(self.outputs(model), numpy.load(self.path("output.npy")),
                                          atol=1e-5)

    def test_images_are_taken_in_the_layout_of_the_file(self):
        for model in self.each():
            first = model.endswith(".onnx")
            x = numpy.load(self.path("input.npy"))
            want = self.outputs(model)
            moved = numpy.moveaxis(x, -1, 1)
            numpy.save(self.path("input.npy"), moved)
            if first:
                text = self.run_program("predict", model, "input.npy", "--to", "out.npy").stderr
                self.assertIn("with the channels first, as the model's file has them", text)
                numpy.testing.assert_array_equal(numpy.load(self.path("out.npy")), want)
            else:
                text = self.run_program("predict", model, "input.npy", "--to", "no.npy", status=1).stderr
                self.assertIn("its channels come first (layout: channels_first)", text)
                text = self.run_program("gradients", model, "input.npy", status=1).stderr
                self.assertIn("an example in input.npy is", text)
            self.run_program("predict", model, "input.npy", "--layout", "channels_first", "--to", "out.npy", "--quiet")
            numpy.testing.assert_array_equal(numpy.load(self.path("out.npy")), want)
            for rows in (x, moved):
                is_first = rows is moved
                numpy.save(self.path("input.npy"), rows.reshape(len(x), -1))
                if is_first == first:
                    numpy.testing.assert_array_equal(self.outputs(model), want)
                self.run_program("predict", model, "input.npy", "--quiet", "--to", "out.npy",
                                 "--layout", "channels_first" if is_first else "channels_last")
                numpy.testing.assert_array_equal(numpy.load(self.path("out.npy")), want)

    def test_a_layout_that_could_be_either_is_the_file_s_and_said(self):
        x = numpy.random.default_rng(4).normal(size=(2, 3, 3, 3)).astype("float32")
        shutil.copy(os.path.join(MODELS, "onnx", "open_11.onnx"), self.path("model.onnx"))
        numpy.save(self.path("x.npy"), x)
        text = self.run_program("predict", "model.onnx", "x.npy", "--to", "first.npy").stderr
        self.assertIn("though they could come last (layout: channels_last)", text)
        self.run_program("predict", "model.onnx", "x.npy", "--to", "last.npy", "--layout", "channels_last")
        numpy.save(self.path("x.npy"), numpy.moveaxis(x, 1, -1))
        self.run_program("predict", "model.onnx", "x.npy", "--to", "moved.npy", "--layout", "channels_last")
        first, last, moved = (numpy.load(self.path(f"{name}.npy")) for name in ("first", "last", "moved"))
        numpy.testing.assert_array_equal(first, numpy.moveaxis(moved, -1, 1))
        self.assertFalse(numpy.array_equal(last, moved))
        numpy.save(self.path("x.npy"), numpy.zeros((2, 5, 4, 7), "float32"))
        text = self.run_program("predict", "model.onnx", "x.npy", "--to", "no.npy", status=1).stderr
        self.assertIn("an example in x.npy is (5, 4, 7), but the model takes (3, -1, -1), or (-1, -1, 3) with the "
                      "channels last (-1: any size)", text)

    def test_outputs_have_the_shape_that_the_file_declares(self):
        for name in ("open_11", "transposed_11"):
            fixture = os.path.join(MODELS, "onnx", name)
            want = numpy.load(fixture + ".output.npy")
            self.run_program("predict", fixture + ".onnx", fixture + ".input.npy", "--to", "y.npy", "--quiet")
            got = numpy.load(self.path("y.npy"))
            self.assertEqual(got.shape, want.shape)
            numpy.testing.assert_allclose(got, want, atol=1e-5)
            about = json.loads(self.run_program("inspect", fixture + ".onnx", "--json").stdout)
            self.assertEqual([n for n in about["output"] if n >= 0],
                             [n for n, open in zip(want.shape[1:], about["output"]) if open >= 0])

    def test_a_fixed_batch_runs_as_that_batch(self):
        for batch in (1, 2):
            fixture = os.path.join(MODELS, "onnx", f"batch_of_{batch}")
            done = self.run_program("predict", fixture + ".onnx", fixture + ".input.npy", "--to", "y.npy",
                                    "--record", "*.output", "--form", "tensor", "--to", "npy", "--out", f"runs/{batch}")
            self.assertIn(f"it runs on {batch} at a time", done.stderr)
            self.assertEqual(done.stderr.count("at a time"), 1)
            want = numpy.load(fixture + ".output.npy")
            numpy.testing.assert_allclose(numpy.load(self.path("y.npy")), want, atol=1e-6)
            done = self.run_program("predict", fixture + ".onnx", fixture + ".input.npy", "--to", "y.npy",
                                    "--batch", str(batch))
            self.assertEqual(done.stderr, "")
            numpy.save(self.path("labels.npy"), want)
            self.run_program("gradients", fixture + ".onnx", fixture + ".input.npy", "--labels", "labels.npy", "--quiet")

    def test_whole_numbers_have_no_gradient(self):
        fixture = os.path.join(MODELS, "onnx", "transformer_13")
        numpy.save(self.path("labels.npy"), numpy.load(fixture + ".output.npy"))
        done = self.run_program("gradients", fixture + ".onnx", fixture + ".input.npy", "--labels", "labels.npy",
                                "--layer", "input", status=1)
        self.assertIn("the model's input is whole numbers, which have no gradient", done.stderr)

    def test_running_takes_no_more_memory_than_is_allowed(self):
        fixture = os.path.join(MODELS, "onnx", "open_11")
        numpy.save(self.path("x.npy"), numpy.zeros((1, 3, 1000, 1000), "float32"))
        done = self.run_program("predict", fixture + ".onnx", "x.npy", "--to", "y.npy", "--memory", "8 MiB", status=1)
        self.assertIn("no memory left", done.stderr)
        self.assertFalse(self.exists("y.npy") or self.exists(".y.npy.new"))
        self.run_program("predict", fixture + ".onnx", "x.npy", "--to", "y.npy", "--memory", "1G", "--quiet")

    def test_gradients_take_no_more_memory_than_is_allowed(self):
        fixture = os.path.join(MODELS, "keras", "images")
        numpy.save(self.path("labels.npy"), numpy.load(fixture + ".output.npy"))
        arguments = ("gradients", fixture + ".keras", fixture + ".input.npy", "--labels", "labels.npy", "--loss", "mse", "--quiet")
        self.assertIn("no memory", self.run_program(*arguments, "--memory", "100", status=1).stderr)
        self.run_program(*arguments, "--memory", "1GiB")
        self.run_program(*arguments, "--memory", "much", status=2)

    def test_inputs_and_outputs_by_name(self):
        fixture = os.path.join(MODELS, "onnx", "several_13")
        arrays = dict(numpy.load(fixture + ".arrays.npz"))
        inputs, outputs = ("x", "state", "rate"), ("turned", "best", "above")
        for name in inputs:
            numpy.save(self.path(f"{name}.npy"), arrays[name])
        given = [word for name in inputs for word in ("--input", f"{name}={name}.npy")]
        wanted = [word for name in outputs for word in ("--output", f"{name}={name}.npy")]
        self.run_program("predict", fixture + ".onnx", *given, *wanted)
        for name in outputs:
            made = numpy.load(self.path(f"{name}.npy"))
            self.assertEqual((made.dtype, made.shape), (arrays[name].dtype, arrays[name].shape))
            numpy.testing.assert_allclose(made, arrays[name], rtol=1e-6)
        for words, text in ((given[:4] + wanted[:2], "input 'rate', int64 (), is not given"),
                            (["--input", "y=x.npy"] + wanted[:2], "no input 'y'; it has: x, state, rate"),
                            (given + ["--output", "z=z.npy"], "no output 'z'; it has: turned, best, above"),
                            (given[:2] + given[:2] + wanted, "input 'x' is given twice"),
                            (["--input", "rate=x.npy"] + wanted, "'rate' takes () (-1: any), got (2, 3)")):
            self.assertIn(text, self.run_program("predict", fixture + ".onnx", *words, status=1).stderr)
        self.run_program("predict", fixture + ".onnx", "x.npy", *given, *wanted, status=2)
        refused = self.run_program("predict", fixture + ".onnx", "x.npy", "--to", "y.npy", status=1)
        self.assertIn("--input NAME=FILE", refused.stderr)
        shown = self.run_program("inspect", fixture + ".onnx").stdout
        self.assertRegex(shown, r"a graph of \d+ nodes; inputs x float \(.*\), state .*, rate int64 \(\); outputs turned ")

    def test_pictures_of_outputs_have_the_channels_last(self):
        fixture = os.path.join(MODELS, "onnx", "open_11")
        self.run_program("predict", fixture + ".onnx", fixture + ".input.npy", "--to", "pictures/", "--quiet")
        self.assertEqual(self.bytes("pictures", "000000.png")[16:26].hex(), "00000004000000060802")

    def test_the_loss_is_guessed_from_labels_and_output(self):
        self.fetch("model.keras")
        examples, classes = numpy.load(self.path("output.npy")).shape
        numbers = numpy.arange(examples) % classes
        labels = {"numbers": (numbers, "sparse_categorical_crossentropy"),
                  "rows": (numpy.eye(classes, dtype="float32")[numbers], "categorical_crossentropy")}
        for name, (values, loss) in labels.items():
            numpy.save(self.path("labels.npy"), values)
            text = self.run_program("gradients", "model.keras", "input.npy", "--labels", "labels.npy",
                                    "--layer", "dense", "--json").stdout
            self.assertEqual(json.loads(text.splitlines()[0])["loss"], loss, name)
        numpy.save(self.path("labels.npy"), numbers + 0.5)
        text = self.run_program("gradients", "model.keras", "input.npy", "--labels", "labels.npy",
                                status=1).stderr
        self.assertIn("class numbers are stored as integers; otherwise give --loss", text)

    def test_a_table_with_labels_says_how_to_name_them(self):
        shutil.copy(os.path.join(MODELS, "onnx", "mlp_9.onnx"), self.path("model.onnx"))
        x = numpy.load(os.path.join(MODELS, "onnx", "mlp_9.input.npy"))
        want = numpy.load(os.path.join(MODELS, "onnx", "mlp_9.output.npy"))
        rows = [",".join(map(repr, row.tolist())) + f",{i % 2}\n" for i, row in enumerate(x)]
        self.write("data.csv", ",".join(f"x{i}" for i in range(x.shape[1])) + ",kind\n" + "".join(rows))
        text = self.run_program("predict", "model.onnx", "data.csv", "--to", "out.csv", status=1).stderr
        self.assertIn("if a column holds the labels, name it (--label)", text)
        self.run_program("predict", "model.onnx", "data.csv", "--label", "kind", "--to", "out.csv")
        table = numpy.genfromtxt(self.path("out.csv"), delimiter=",", names=True)
        self.assertEqual(table["label"].tolist(), [i % 2 for i in range(len(x))])
        numpy.testing.assert_allclose(table["class_0"], want[:, 0], atol=1e-5)

    def test_weights_go_out_and_back_in(self):
        for model in self.each():
            self.run_program("weights", model, "--to", "first.csv")
            for ending in ("csv", "npz"):
                self.run_program("weights", model, "--to", "w." + ending)
                self.run_program("weights", model, "--from", "w." + ending, "--to", "second.csv")
                self.assertEqual(self.read("first.csv"), self.read("second.csv"))
            self.run_program("weights", model, "--to", "again.safetensors")
            numpy.testing.assert_array_equal(self.outputs("again.safetensors"), self.outputs(model))

    def test_inspect_tells_the_format(self):
        formats = {"model.keras": "Keras", "model.h5": "Keras HDF5", "model.onnx": "ONNX"}
        for model in self.each():
            about = json.loads(self.run_program("inspect", model, "--json").stdout)
            self.assertEqual(about["format"], formats[model])
            self.assertTrue(all(len(p["shape"]) and p["count"] for p in about["parameters"]))

    def test_gradients_fit_finite_differences(self):
        for model in self.each():
            labels = numpy.load(self.path("output.npy")) + 0.5
            numpy.save(self.path("labels.npy"), labels)
            done = self.run_program("gradients", model, "input.npy", "--labels", "labels.npy", "--loss",
                                    "mse", "--to", "g.npz", "--json")
            value = json.loads(done.stdout.splitlines()[0])["value"]
            gradients = numpy.load(self.path("g.npz"))
            self.run_program("weights", model, "--to", "w.npz")
            arrays = dict(numpy.load(self.path("w.npz")))
            name = next(n for n in reversed(list(arrays)) if n.endswith("kernel"))
            gradient = gradients[name + ".gradient"]
            at = numpy.unravel_index(numpy.abs(gradient).argmax(), gradient.shape)
            arrays[name][at] += 1e-3
            numpy.savez(self.path("moved.npz"), **arrays)
            self.run_program("weights", model, "--from", "moved.npz", "--to", "moved.safetensors")
            moved = json.loads(self.run_program(
                "gradients", "moved.safetensors", "input.npy", "--labels", "labels.npy", "--loss", "mse",
                "--json").stdout.splitlines()[0])["value"]
            self.assertAlmostEqual((moved - value) / 1e-3, gradient[at], delta=0.02 + 0.05 * abs(gradient[at]))

    def test_frozen_layers_stay_as_they_were(self):
        for model in self.each():
            self.run_program("weights", model, "--to", "before.npz")
            before = numpy.load(self.path("before.npz"))
            kernels = [name for name in before.files if name.endswith(".kernel")]
            frozen = kernels[0].rpartition(".")[0]
            runs = model.replace(".", "_")
            self.train(f"name: on\nthreads: 1\ndata: {{train: input.npy, labels: output.npy}}\n"
                       f"model: {{file: {model}, frozen: ['{frozen}']}}\n"
                       "train: {loss: mae, epochs: 4}\n", "--quiet", "--out", runs)
            self.run_program("weights", f"{runs}/on", "--to", "after.npz")
            after = numpy.load(self.path("after.npz"))
            numpy.testing.assert_array_equal(after[kernels[0]], before[kernels[0]])
            self.assertTrue((after[kernels[-1]] != before[kernels[-1]]).any())

    def test_training_goes_on_and_resumes_bit_for_bit(self):
        for model in self.each():
            text = (f"name: on\nthreads: 1\ndata: {{train: input.npy, labels: output.npy, batch: 2}}\n"
                    f"model: {{file: {model}}}\ntrain: {{loss: mse, epochs: 6}}\n"
                    "record:\n  - {what: loss, to: csv}\n")
            runs = model.replace(".", "_")
            self.train(text, "--quiet", "--out", runs)
            self.train(text, "--quiet", "--out", runs, "--set", "train.epochs=3")
            os.remove(self.path(model))
            self.run_program("train", "--resume", f"{runs}/on-2", "--set", "train.epochs=6", "--quiet")
            for name in ("metrics.csv", "model.safetensors"):
                self.assertEqual(self.bytes(runs, "on", name), self.bytes(runs, "on-2", name))
            self.outputs(f"{runs}/on")


if __name__ == "__main__":
    unittest.main()
