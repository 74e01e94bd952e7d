"""Separators, missing values and categories, from training to prediction."""
import csv
import io
import unittest

from program import Case

EXPERIMENT = """
name: cells
threads: 1
data: {{train: train.csv, label: y{more}}}
model:
  - dense: {{name: out, units: 1}}
train: {{loss: mse, epochs: 2}}
"""
TABLE = "a;colour;y\n1;red;1\n2;blue;2\n;red;3\n4;green;4\n"


class Cells(Case):
    def train_on(self, more="", status=0):
        return self.train(EXPERIMENT.format(more=more), status=status)

    def predicted(self, data, status=0):
        done = self.run_program("predict", "runs/cells", data, "--to", "out.csv", status=status)
        if status:
            return done.stderr
        return [row["value_0"] for row in csv.DictReader(io.StringIO(self.read("out.csv")))]

    def test_what_is_wrong_is_listed_before_training(self):
        self.write("train.csv", TABLE)
        self.assertIn("text among the inputs, in 'colour'; `categories`", self.train_on(status=2).stderr)
        said = self.train_on(", categories: [colour]", status=2).stderr
        self.assertIn("1 value is missing (a: 1, the first in line 4); `missing: mean`", said)
        said = self.train_on(", missing: mode", status=2).stderr
        self.assertIn("expected mean, drop, or a number", said)
        said = self.train_on(", separator: x", status=2).stderr
        self.assertIn('expected ",", ";", "|" or tab', said)

    def test_new_data_is_treated_as_training_data_was(self):
        self.write("train.csv", TABLE)
        self.train_on(", categories: [colour], missing: mean")
        before = self.predicted("train.csv")
        self.write("new.csv", "colour,a\nred,1\nblue,2\nred,\ngreen,4\n")
        self.assertEqual(self.predicted("new.csv"), before)
        self.write("filled.csv", f"a,colour\n{7 / 3},red\n")
        self.assertEqual(self.predicted("filled.csv"), before[2:3])
        self.write("other.csv", "a,colour\n1,mauve\n")
        self.assertIn("'mauve' is none of the 3 categories of training",
                      self.predicted("other.csv", status=1))
        self.assertIn("inputs: a, colour=blue, colour=green, colour=red\n",
                      self.run_program("inspect", "runs/cells").stdout)

    def test_rows_are_left_out_of_predictions_too_and_it_is_said(self):
        self.write("train.csv", TABLE)
        done = self.train_on(", ignore: colour, missing: drop")
        self.assertIn("note: train.csv: 1 of 4 rows are left out: values are missing", done.stderr)
        self.assertEqual(len(self.predicted("train.csv")), 3)

    def test_a_decimal_comma_is_named(self):
        self.write("train.csv", "a;y\n1,5;2,5\n3,5;4,5\n")
        self.assertIn("'1,5' has a decimal comma", self.train_on(status=2).stderr)


if __name__ == "__main__":
    unittest.main()
