"""Weights of examples and classes: the numbers of Keras's sample_weight and class_weight."""
import csv
import io
import math
import unittest

from program import Case

EXPERIMENT = """
name: weights
threads: 1
data: {{train: d.csv, label: y, batch: 4, shuffle: false{more}}}
model:
  - dense: {{name: out, units: {units}, kernel_initializer: zeros}}
train: {{loss: {loss}, optimizer: {{sgd: {{learning_rate: {rate}}}}}, steps: 1}}
record:
  - {{what: loss, to: [csv]}}
"""


class Weights(Case):
    runs = 0

    def loss(self, loss, more="", units=1):
        self.train(EXPERIMENT.format(loss=loss, more=more, units=units, rate="1e-30"))
        self.runs += 1
        name = "weights" if self.runs == 1 else f"weights-{self.runs}"
        row = next(csv.DictReader(io.StringIO(self.read("runs", name, "metrics.csv"))))
        return float(row["loss"])

    def test_a_column_weighs_examples(self):
        self.write("d.csv", "a,w,y\n1,2,1.5\n2,0,2.5\n3,1,3.5\n4,0.5,4.5\n")
        # the prediction is 0: mean of w * y**2, over examples and not over the sum of weights
        expected = (2 * 1.5 ** 2 + 0 + 3.5 ** 2 + 0.5 * 4.5 ** 2) / 4
        self.assertAlmostEqual(self.loss("mse", ", weight: w"), expected, places=5)
        self.write("d.csv", "a,w,y\n1,2,1.5\n2,-1,2.5\n")
        said = self.train(EXPERIMENT.format(loss="mse", more=", weight: w", units=1, rate=1), status=2).stderr
        self.assertIn("d.csv line 3 (row 2): the weight is -1", said)

    def test_the_column_is_no_input_and_new_data_needs_none(self):
        self.write("d.csv", "a,w,y\n1,2,1.5\n2,0,2.5\n3,1,3.5\n4,0.5,4.5\n")
        self.loss("mse", ", weight: w")
        self.assertIn("inputs: a\n", self.run_program("inspect", "runs/weights").stdout)
        self.run_program("predict", "runs/weights", "d.csv", "--to", "out.csv")
        self.write("new.csv", "a\n1\n")
        self.run_program("predict", "runs/weights", "new.csv", "--to", "out.csv")

    def test_classes_have_weights(self):
        self.write("d.csv", "a,y\n1,cat\n2,dog\n3,dog\n4,dog\n")
        log2 = math.log(2)
        loss = "sparse_categorical_crossentropy, from_logits: true"
        self.assertAlmostEqual(self.loss(loss, units=2), log2, places=5)
        self.assertAlmostEqual(self.loss(loss, ", class_weight: {cat: 5}", units=2), log2 * 8 / 4, places=5)
        self.assertAlmostEqual(self.loss(loss, ", class_weight: balanced", units=2),
                               log2 * (4 / 2 + 3 * 4 / 6) / 4, places=5)
        binary = "binary_crossentropy, from_logits: true"
        self.write("d.csv", "a,y\n1,0\n2,1\n3,1\n4,1\n")
        self.assertAlmostEqual(self.loss(binary, ", class_weight: {0: 5, 1: 2}"), log2 * (5 + 6) / 4, places=5)
        said = self.train(EXPERIMENT.format(loss=binary, more=", class_weight: {cow: 1}", units=1, rate=1),
                          status=2).stderr
        self.assertIn("no class 'cow' in the training part", said)

    def test_validation_counts_the_column_but_not_the_classes(self):
        self.write("d.csv", "a,w,y\n1,2,1\n2,1,0\n3,1,1\n4,3,0\n")
        text = EXPERIMENT.format(loss="binary_crossentropy, from_logits: true", units=1, rate="1e-30",
                                 more=", weight: w, class_weight: {1: 7}, validation: d.csv")
        self.train(text.replace("what: loss", "what: val_loss"))
        row = next(csv.DictReader(io.StringIO(self.read("runs", "weights", "metrics.csv"))))
        self.assertAlmostEqual(float(row["val_loss"]), math.log(2) * 7 / 4, places=5)


if __name__ == "__main__":
    unittest.main()
