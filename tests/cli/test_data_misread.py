"""What would be misread, or accepted and ignored, is an error that says what to do."""
import os
import re
import unittest
import zipfile

import numpy

from program import Case, SMALL

EXPERIMENT = """
name: misread
threads: 1
data: {{{data}}}
model:
  - dense: {{name: out, units: {units}}}
train: {{loss: {loss}, epochs: 1{train}}}
{more}
"""


class Misread(Case):
    def on(self, data, loss="mse", units=1, train="", more="", status=2):
        return self.train(EXPERIMENT.format(data=data, loss=loss, units=units, train=train, more=more),
                          status=status).stderr

    def test_a_header_of_numbers_is_asked_about_and_new_data_follows_the_model(self):
        self.write("pandas.csv", "0,1,2\n5,6,7\n8,9,4\n")
        self.assertIn("pandas.csv: is its first line (0, 1, …) a header or the first example? `header: true`",
                      self.on("train: pandas.csv, label: last"))
        self.on("train: pandas.csv, label: last, header: true", status=0)
        self.run_program("predict", "runs/misread", "pandas.csv", "--to", "out.csv")
        self.assertEqual(len(self.read("out.csv").splitlines()), 3)
        self.on("train: pandas.csv, label: last, header: false", status=0)
        done = self.run_program("predict", "runs/misread-2", "pandas.csv", "--to", "two.csv", status=1)
        self.assertIn("a header or the first example?", done.stderr)
        self.run_program("predict", "runs/misread-2", "pandas.csv", "--to", "two.csv", "--header", "false")
        self.assertEqual(len(self.read("two.csv").splitlines()), 4)

    def test_text_labels_are_no_numbers(self):
        self.write("d.csv", "a,y\n1,cat\n2,dog\n3,cow\n")
        said = self.on("train: d.csv, label: y")
        self.assertIn("experiment.yaml:7: train.loss: mse compares numbers, and the labels are texts: 3 classes ('cat', …)",
                      said)
        self.assertIn("sparse_categorical_crossentropy", said)
        done = self.run_program("check", "experiment.yaml", status=2)
        self.assertIn("mse compares numbers", done.stderr)
        self.on("train: d.csv, label: y, label_kind: values", status=0)
        self.write("d.csv", "a,y\n1,cat\n2,dog\n")
        self.on("train: d.csv, label: y", loss="binary_crossentropy", status=0)

    def test_settings_that_would_do_nothing_are_refused(self):
        self.write("d.csv", "a,y\n1,0\n2,1\n")
        data = "train: d.csv, label: y"
        self.assertIn("data.scale: 0 would make every input 0", self.on(data + ", scale: 0"))
        self.assertIn("data.scale: 0 would", self.on(data + ", scale: 0.0"))
        self.assertIn("`class_weight`: all classes of the training part have the weight 0",
                      self.on(data + ", class_weight: {0: 0, 1: 0}"))
        self.assertIn("`layout` says where examples have their channels", self.on(data + ", layout: channels_first"))
        self.assertIn("record[0].to: an empty list records nothing",
                      self.on(data, more="record: [{what: loss, to: []}]"))
        self.assertIn("record[0].what: an empty list records nothing", self.on(data, more="record: [{what: []}]"))
        self.assertIn("schedule cosine: steps must be at least 1; leave it out",
                      self.on(data, train=", learning_rate_schedule: {cosine: {steps: 0}}"))

    def test_a_number_that_is_missing_in_the_inputs_is_in_their_file_and_one_row(self):
        x = numpy.ones((20, 2), "float32")
        x[6, 1] = numpy.nan
        numpy.save(self.path("x.npy"), x)
        numpy.save(self.path("y.npy"), numpy.ones(20, "float32"))
        said = self.on("train: x.npy, labels: y.npy", status=1)
        self.assertIn("first seen in the input: x.npy row 7", said)
        self.assertEqual(set(re.findall(r"row (\d+)", said)), {"7"})
        found = self.run_program("diagnose", "runs/misread", status=1)
        self.assertEqual(set(re.findall(r"row (\d+)", found.stdout)), {"7"}, found.stdout)

    def test_files_that_are_no_plain_text_are_named(self):
        with open(self.path("wide.csv"), "wb") as file:
            file.write("a,y\n1,0\n".encode("utf-16"))
        self.assertIn("wide.csv: text in UTF-16; make it UTF-8: iconv", self.on("train: wide.csv, label: y"))
        with open(self.path("wide.csv"), "wb") as file:
            file.write("a,y\n1,0\n".encode("utf-16-le"))
        self.assertIn("text in UTF-16", self.on("train: wide.csv, label: y"))
        self.write("d.csv", "a,y\n1,0\n2,1\n")
        with zipfile.ZipFile(self.path("d.zip"), "w") as archive:
            archive.write(self.path("d.csv"), "d.csv")
            archive.write(self.path("d.csv"), "e.csv")
        self.assertIn("d.zip: a zip archive of several files; it has: d.csv, e.csv: name one",
                      self.on("train: d.zip, label: y"))


class Outputs(Case):
    def setUp(self):
        super().setUp()
        self.train(SMALL)
        numpy.save(self.path("x.npy"), numpy.ones((3, 2), "float32"))

    def test_predictions_go_to_every_file_that_is_named(self):
        done = self.run_program("predict", "runs/small", "x.npy", "--to", "a.csv", "--to", "b.npy", "--to", "c.csv")
        self.assertIn("3 examples; outputs in a.csv, b.npy, c.csv", done.stdout)
        self.assertEqual(self.read("a.csv"), self.read("c.csv"))
        self.assertEqual(numpy.load(self.path("b.npy")).shape, (3, 2))
        done = self.run_program("predict", "runs/small", "x.npy", "--record", "logits.output", "--to", "csv",
                                "--to", "npy", status=2)
        self.assertIn("sinks go in one list, --to csv,npy", done.stderr)

    def test_no_file_is_replaced_unless_that_is_asked_for(self):
        self.write("mine.csv", "my,own\n1,2\n")
        os.mkdir(self.path("folder"))
        self.write("folder/mine.png", "…")
        mine = self.read("mine.csv")
        commands = (("predict", "runs/small", "x.npy", "--to"), ("weights", "runs/small", "--to"),
                    ("report", "runs/small", "-o"))
        for command in commands:
            done = self.run_program(*command, "mine.csv", status=1)
            self.assertIn("mine.csv is there already", done.stderr)
            self.assertIn("--force replaces it", done.stderr)
            self.assertEqual(self.read("mine.csv"), mine)
        self.assertIn("folder/ is there already",
                      self.run_program("predict", "runs/small", "x.npy", "--to", "folder/", status=1).stderr)
        numpy.save(self.path("y.npy"), numpy.array([0, 1, 0]))
        self.assertIn("mine.csv is there already", self.run_program(
            "gradients", "runs/small", "x.npy", "--labels", "y.npy", "--to", "mine.csv", status=1).stderr)
        for command in commands:
            self.run_program(*command, "mine.csv", "--force")
            self.assertNotEqual(self.read("mine.csv"), mine)
            self.write("mine.csv", mine)

    def test_what_the_command_wrote_before_is_replaced(self):
        for to in ("a.csv", "a.npy", "pictures/"):
            for _ in range(2):
                self.run_program("predict", "runs/small", "x.npy", "--to", to)
        for to in ("w.csv", "w.npz", "w.safetensors", "w.keras", "w.h5", "w.onnx", "folder/"):
            for _ in range(2):
                self.run_program("weights", "runs/small", "--to", to)
        self.assertIn("is there already", self.run_program("report", "runs/small", "-o", "a.csv", status=1).stderr)
        self.write("d.csv", 'a,y\n3,"red, or so"\n2,blue\n')
        self.train(EXPERIMENT.format(data="train: d.csv, label: y", loss="sparse_categorical_crossentropy", units=2,
                                     train=", from_logits: true", more=""))
        for _ in range(2):
            self.run_program("predict", "runs/misread", "d.csv", "--to", "named.csv")

    def test_what_a_command_reads_is_not_replaced_by_what_it_writes(self):
        before = self.bytes("x.npy")
        done = self.run_program("predict", "runs/small", "x.npy", "--to", "x.npy", status=1)
        self.assertIn("x.npy is what is read here; --force replaces it", done.stderr)
        self.run_program("weights", "runs/small", "--to", "w.npz")
        self.run_program("weights", "runs/small", "--from", "w.npz", "--to", "w.npz", status=1)
        self.assertEqual(self.bytes("x.npy"), before)
        self.assertIn("--to a.csv is given twice", self.run_program(
            "predict", "runs/small", "x.npy", "--to", "a.csv", "--to", "a.csv", status=2).stderr)

    def test_a_report_is_replaced_by_the_next_one(self):
        self.run_program("report", "runs/small")
        self.run_program("report", "runs/small")
        self.assertIn("<!doctype html>", self.read("report.html")[:20])

    def test_an_option_given_twice_is_not_dropped(self):
        done = self.run_program("weights", "runs/small", "--to", "a.csv", "--to", "b.csv", status=2)
        self.assertIn("--to is given twice: a.csv and b.csv", done.stderr)


if __name__ == "__main__":
    unittest.main()
