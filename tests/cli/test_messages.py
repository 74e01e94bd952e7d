"""What is reported when a model or an output is not what was expected; outputs to a pipe, pictures in a grid."""
import os
import struct
import unittest

import numpy

from program import Case, SMALL


class Models(Case):
    def refused(self, path):
        return self.run_program("inspect", path, status=1).stderr

    def test_models_of_others_are_named_with_what_converts_them(self):
        os.makedirs(self.path("saved"))
        for graph in (b"\x08\x01\x12\x04abcd", b"\x0a\x04node"):
            with open(self.path("saved", "saved_model.pb"), "wb") as file:
                file.write(graph)
            for path in ("saved", "saved/saved_model.pb"):
                self.assertIn("saved/saved_model.pb: not a sound SavedModel: it has no graph", self.refused(path))
            with open(self.path("frozen.pb"), "wb") as file:
                file.write(graph)
            self.assertIn("--graphdef FILE", self.refused("frozen.pb"))
        with open(self.path("m.tflite"), "wb") as file:
            file.write(b"\x1c\0\0\0TFL3" + bytes(40))
        self.assertIn("not a sound file of TensorFlow Lite: it has no graph", self.refused("m.tflite"))
        with open(self.path("m.pt"), "wb") as file:
            file.write(b"\x80\x02}q\x00.")
        self.assertIn("torch.onnx.export(", self.refused("m.pt"))


class Memory(Case):
    """More than any machine has: refused before anything is allocated."""

    def test_a_layer_that_does_not_fit_into_memory_is_named(self):
        numpy.save(self.path("x.npy"), numpy.ones((8, 6, 2), "float32"))
        numpy.save(self.path("ids.npy"), numpy.ones((8, 6), "float32"))
        numpy.save(self.path("y.npy"), numpy.ones((8, 1), "float32"))
        for data, layer, kind in (
                ("x.npy", "dense: {name: wide, units: 2000000000}", "dense"),
                ("x.npy", "conv1d: {name: wide, filters: 2000000000, kernel: 3}", "conv1d"),
                ("x.npy", "lstm: {name: wide, units: 5000000, return_sequences: true}", "lstm"),
                ("ids.npy", "embedding: {name: wide, vocabulary: 1000000000, width: 100000}", "embedding")):
            first = "flatten: {}" if kind == "embedding" else "dense: {units: 1000000}"
            self.write("experiment.yaml", f"name: big\ndata: {{train: {data}, labels: y.npy}}\nmodel:\n  - {first}\n"
                       f"  - {layer}\n  - global_average_pool1d\n  - dense: {{units: 1}}\n"
                       "train: {loss: mse, steps: 1}\n")
            for command in (("train",), ("check",), ("train", "--dry-run")):
                with self.subTest([kind, command]):
                    said = self.run_program(*command, "experiment.yaml", status=2).stderr
                    self.assertIn("experiment.yaml:5: model: a training step takes at least ", said)
                    self.assertIn(f"layer 'wide' ({kind})", said)
                    self.assertRegex(said, r"this process may take [\d.]+ [MGT]iB")
        self.assertFalse(self.exists("runs"))


class Names(Case):
    def refused(self, track, text=SMALL):
        return "\n".join(self.problems(text + f"record: [{track}]\n"))

    def test_a_layer_that_is_not_there_gets_the_nearest_or_all(self):
        self.assertIn("no signal 'layr.loss'; the layers are hidden, logits", self.refused("{what: layr.loss}"))
        self.assertIn("no signal 'hiden.loss'; did you mean 'hidden.loss'?", self.refused("{what: hiden.loss}"))
        layers = "".join(f"  - dropout: {{name: quite_a_long_name_{i}, rate: 0}}\n" for i in range(60))
        many = SMALL.replace("model:\n", "model:\n" + layers)
        self.assertRegex(self.refused("{what: zz.loss}", many), "the layers are quite_a_long_name_0, .*, …$")

    def test_a_metric_that_is_not_measured_is_to_be_added(self):
        bare = SMALL.replace("  metrics: [accuracy]\n", "")
        for what, metric in (("accuracy", "accuracy"), ("val_accuracy", "accuracy"), ("epoch_mae", "mae")):
            self.assertIn(f"no signal '{what}'; add {metric} to train.metrics", self.refused(f"{{what: {what}}}", bare))
            self.assertIn(f"    add {metric} to train.metrics",
                          self.refused(f"{{what: loss, when: {what} > 0.5}}", bare))
        self.assertIn("did you mean 'accuracy'?", self.refused("{what: acuracy}"))

    def test_words_far_from_all_others_get_the_list(self):
        self.assertIn("there is no optimizer 'zzzzzz'; there are sgd, adam, adamw,",
                      self.refused("{what: loss}", SMALL.replace("adam:", "zzzzzz:")))
        self.assertIn("there is no optimizer 'adm'; did you mean 'adam'?",
                      self.refused("{what: loss}", SMALL.replace("adam:", "adm:")))

    def test_show_names_the_nearest_signal(self):
        self.train(SMALL + "record: [{what: loss}]\n", "--quiet")
        said = self.run_program("show", "runs/small", "lss", status=1).stderr
        self.assertIn("no signal 'lss' in this run; did you mean 'loss'?", said)
        self.assertIn("no signal 'lss'", self.run_program("show", "runs/small", "lss", "--json", status=1).stderr)
        said = self.run_program("show", "runs/small", "zzzzzz", status=1).stderr
        self.assertIn("`tapedeck show RUN` lists them", said)
        for form in ((), ("--json",)):
            for names in (("loss", "lss"), ("loss,lss",), ("lss", "los*")):
                done = self.run_program("show", "runs/small", *names, *form, status=1)
                self.assertIn("loss", done.stdout)
                self.assertIn("no signal 'lss' in this run; did you mean 'loss'?", done.stderr)
            self.run_program("show", "runs/small", "loss", "los*", *form)


class Outputs(Case):
    def setUp(self):
        super().setUp()
        self.train(SMALL, "--quiet")
        numpy.save(self.path("new.npy"), numpy.zeros((3, 2), "float32"))

    def test_a_name_that_is_neither_file_nor_sink_is_said(self):
        said = self.run_program("predict", "runs/small", "new.npy", "--to", "pics2", status=1).stderr
        self.assertIn("pics2: predictions are written to .csv, .npy, -", said)
        self.assertIn("pics2/", said)

    def test_predictions_go_to_standard_output(self):
        done = self.run_program("predict", "runs/small", "new.npy", "--to", "-")
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "class_0,class_1,predicted")
        self.assertEqual(len(lines), 4)
        self.assertIn("3 examples", done.stderr)
        self.run_program("predict", "runs/small", "new.npy", "--to", "out.csv")
        self.assertEqual(self.read("out.csv"), done.stdout)

    def test_many_channels_are_a_grid(self):
        numpy.save(self.path("images.npy"), numpy.ones((1, 4, 4, 1), "float32"))
        numpy.save(self.path("labels.npy"), numpy.zeros((1, 1), "float32"))
        self.train("""
name: wide
threads: 1
data: {train: images.npy, labels: labels.npy}
model:
  - conv2d: {name: conv, filters: 32, kernel: 1}
  - flatten:
  - dense: {units: 1}
train: {loss: mse, steps: 1}
record:
  - {what: conv.output, form: image, to: [png]}
""")
        folder = self.path("runs", "wide", "images", "conv.output")
        with open(os.path.join(folder, os.listdir(folder)[0]), "rb") as file:
            width, height = struct.unpack(">II", file.read(24)[16:])
        self.assertEqual(width, height)  # 32 tiles: 6 x 6

    def test_small_gradients_keep_their_digits(self):
        self.write("t.csv", "a,y\n1,0.5\n0.0001,0.2\n")
        self.train("name: tiny\nthreads: 1\ndata: {train: t.csv, label: y}\nmodel: [{dense: {name: out, units: 1}}]\n"
                   "train: {loss: mse, steps: 1}\n", "--quiet")
        said = self.run_program("gradients", "runs/tiny", "t.csv", "--layer", "input").stdout
        for line in said.splitlines():
            self.assertNotRegex(line, r"[ \[-]0\.0000")


if __name__ == "__main__":
    unittest.main()
