"""Labels are looked at before the first step: file, line and value of the first that cannot be."""
import os
import unittest

import numpy

from program import Case

EXPERIMENT = """
name: labels
threads: 1
data: {{{data}}}
model:
  - dense: {{name: out, units: {units}, activation: {activation}}}
train: {{loss: {loss}, epochs: 1}}
"""


class Labels(Case):
    def train_on(self, data, loss, units=1, activation="linear", status=0):
        return self.train(EXPERIMENT.format(data=data, loss=loss, units=units, activation=activation),
                          status=status)

    def test_a_class_without_an_output_is_refused_with_its_line(self):
        self.write("d.csv", 'a,y\n1,0\n\n2,1\n"3",2\n4,7\n')
        done = self.train_on("train: d.csv, label: y, shuffle: false", "sparse_categorical_crossentropy",
                             units=3, activation="softmax", status=2)
        self.assertIn("d.csv line 6 (row 4): the label is 7; expected is a number from 0 to 2", done.stderr)
        self.assertIn("layer 'out' has 3 units", done.stderr)
        self.assertFalse(self.exists("runs"))

    def test_a_class_by_name_is_named(self):
        self.write("d.csv", "a,y\n1,ant\n2,bee\n3,cow\n")
        done = self.train_on("train: d.csv, label: y", "sparse_categorical_crossentropy", units=2,
                             activation="softmax", status=2)
        self.assertIn("d.csv line 4 (row 3): the label is 2 ('cow')", done.stderr)

    def test_labels_that_are_no_probabilities_are_said(self):
        self.write("d.csv", "a,y\n1,1\n2,1\n3,2\n4,2\n")
        done = self.train_on("train: d.csv, label: y", "binary_crossentropy", activation="sigmoid")
        self.assertIn("d.csv line 4 (row 3): the label is 2; expected is a number from 0 to 1 for "
                      "train.loss: binary_crossentropy", done.stderr)

    def test_whole_numbers_are_values_for_a_loss_of_values(self):
        self.write("d.csv", "a,y\n0,3\n0,4\n0,5\n")
        text = EXPERIMENT.format(data="train: d.csv, label: y", loss="mse", units=1, activation="linear")
        self.train(text + "record: [{what: label, form: rows, to: [csv]}]\n")
        rows = self.read("runs", "labels", "label.csv").split()[1:]
        self.assertEqual(sorted(row.split(",")[-1] for row in rows), ["3", "4", "5"])

    def test_a_label_that_is_no_number_is_named_by_its_row(self):
        numpy.save(self.path("x.npy"), numpy.ones((6, 2), "float32"))
        numpy.save(self.path("y.npy"), numpy.array([1, 2, 3, 4, numpy.nan, 5], "float32"))
        done = self.train_on("train: x.npy, labels: y.npy", "mse", status=1)
        self.assertIn("y.npy row 5: the label is nan; expected is a finite number", done.stderr)

    def test_a_validation_label_counts_too(self):
        self.write("d.csv", "a,y\n1,0\n2,1\n")
        self.write("v.csv", "y,a\n1,1\n5,2\n")
        done = self.train_on("train: d.csv, label: y, validation: v.csv", "sparse_categorical_crossentropy",
                             units=2, activation="softmax", status=2)
        self.assertIn("v.csv line 3 (row 2): the label is 5", done.stderr)

    def test_a_broken_class_number_names_its_line(self):
        self.write("d.csv", "a,y\n1,0\n2,1.5\n")
        done = self.train_on("train: d.csv, label: y, label_kind: class", "sparse_categorical_crossentropy",
                             units=2, status=2)
        self.assertIn("d.csv line 3 (row 2): the label is 1.5, which is no class number", done.stderr)

    def steps(self, labels, status=0):
        """A class for each of five steps."""
        numpy.save(self.path("x.npy"), numpy.random.default_rng(1).standard_normal((8, 5, 2)).astype("float32"))
        numpy.save(self.path("y.npy"), labels)
        return self.train_on("train: x.npy, labels: y.npy", "sparse_categorical_crossentropy", units=3,
                             activation="softmax", status=status)

    def test_integers_for_each_step_are_classes(self):
        labels = numpy.random.default_rng(2).integers(0, 3, (8, 5))
        self.steps(labels)
        os.rename(self.path("runs", "labels"), self.path("before"))
        self.train(EXPERIMENT.format(data="train: x.npy, labels: y.npy", loss="sparse_categorical_crossentropy",
                                     units=3, activation="softmax") + "weights: before/model.safetensors\n")
        for model, loss, why in (("model", [], "as in training"), ("initial", [], "guessed: class labels"),
                                 ("initial", ["--loss", "sparse_categorical_crossentropy"], "as asked for")):
            with self.subTest(why):
                done = self.run_program("gradients", f"runs/labels/{model}.safetensors", "x.npy", "--labels", "y.npy",
                                        *loss, "--to", "g.npz")
                self.assertIn(f"sparse_categorical_crossentropy over 8 examples ({why}", done.stdout)
                error = numpy.load(self.path("g.npz"))["out.error"]
                numpy.testing.assert_array_equal(error.argmin(-1), labels)

    def test_a_step_without_a_class_is_named(self):
        labels = numpy.zeros((8, 5), "int64")
        labels[6, 3] = -1
        self.assertIn("y.npy row 7: the label is -1, which is no class number", self.steps(labels, status=2).stderr)
        labels[6, 3] = 3
        self.assertIn("y.npy row 7: the label is 3; expected is a number from 0 to 2",
                      self.steps(labels, status=2).stderr)
        self.assertIn("needs class numbers, and the labels are other numbers",
                      self.steps(labels.astype("float32"), status=2).stderr)


if __name__ == "__main__":
    unittest.main()
