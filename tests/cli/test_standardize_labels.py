"""Labels with mean 0 and variance 1 in training; predictions in the file's own units."""
import csv
import io
import json
import unittest

from program import Case

EXPERIMENT = """
name: prices
threads: 1
seed: 4
data: {{train: prices.csv, label: [price, tax], shuffle: false, batch: 4, standardize_labels: true}}
model:
  - dense: {{name: out, units: 2{more}}}
train: {{loss: {loss}, optimizer: {{adam: {{learning_rate: 0.1}}}}, epochs: {epochs}}}
record:
  - {{what: label, at: [1], form: rows, to: [csv]}}
  - {{what: loss, to: [csv]}}
  - {{what: prediction, every: {epochs} epochs, form: rows, to: [csv]}}
"""
PRICES = [(1, 1000.0, 7.0), (2, 3000.0, 7.0), (3, 5000.0, 7.0), (4, 7000.0, 7.0)]


class Prices(Case):
    def rows(self, *path):
        return list(csv.DictReader(io.StringIO(self.read(*path))))

    def setUp(self):
        super().setUp()
        self.write("prices.csv", "a,price,tax\n" + "".join(f"{a},{p},{t}\n" for a, p, t in PRICES))

    def test_labels_are_standardised_and_predictions_are_not(self):
        self.train(EXPERIMENT.format(more="", loss="mse", epochs=300))
        deviation = (sum((p - 4000) ** 2 for _, p, _ in PRICES) / 4) ** 0.5
        for row, (_, price, _) in zip(self.rows("runs", "prices", "label.csv"), PRICES):
            self.assertAlmostEqual(float(row["label_0"]), (price - 4000) / deviation, places=5)
            self.assertEqual(float(row["label_1"]), 0)  # it never changes
        self.run_program("predict", "runs/prices", "prices.csv", "--to", "out.csv")
        for path in (("out.csv",), ("runs", "prices", "predictions.csv")):
            for row, (_, price, tax) in zip(self.rows(*path), PRICES):
                self.assertEqual((float(row["label_0"]), float(row["label_1"])), (price, tax))
                self.assertAlmostEqual(float(row["value_0"]), price, delta=30)
                self.assertAlmostEqual(float(row["value_1"]), tax, delta=0.1)
        last = float(self.rows("runs", "prices", "metrics.csv")[-1]["loss"])
        said = self.run_program("gradients", "runs/prices", "prices.csv", "--json").stdout
        self.assertLess(json.loads(said.splitlines()[0])["value"], 10 * last + 1e-3)

    def test_classes_are_refused(self):
        said = self.train(EXPERIMENT.format(more="", loss="sparse_categorical_crossentropy", epochs=1)
                          .replace("[price, tax]", "tax"), status=2).stderr
        self.assertIn("standardize_labels: sparse_categorical_crossentropy takes classes", said)


if __name__ == "__main__":
    unittest.main()
