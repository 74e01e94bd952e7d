"""Windows over time, and how a validation part is drawn: stratified, in folds, by time. Compared with numpy and pandas."""
import csv
import json
import statistics
import unittest

import numpy
import pandas

from program import Case

SERIES = """
name: series
seed: 1
threads: 1
data: {train: series.csv, label: temp, ignore: [when], window: WINDOW, batch: 8, shuffle: false, validation: VALIDATION, standardize: STANDARD}
model:
  - flatten:
  - dense: {name: out, units: 1}
train: {loss: mse, epochs: 1, metrics: [mae]}
record:
  - {what: [input, label], form: rows, to: [csv]}
"""
CLASSES = """
name: classes
seed: 4
threads: 1
data: {train: classes.csv, label: kind, batch: 8, validation: VALIDATION}
model: [dense: {units: 3}]
train: {loss: sparse_categorical_crossentropy, from_logits: true, epochs: 2, metrics: [accuracy]}
record:
  - {what: prediction, sample: 1000, every: 1 epoch, form: rows, to: [csv]}
"""


class Windows(Case):
    ROWS = 90

    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(1)
        self.frame = pandas.DataFrame({"when": range(self.ROWS), "temp": random.normal(5, 2, self.ROWS).round(3),
                                       "wind": random.normal(-3, 1, self.ROWS).round(3)})
        self.frame.to_csv(self.path("series.csv"), index=False)

    def fit(self, window, validation="0.2", standard="false", status=0):
        text = SERIES.replace("WINDOW", window).replace("VALIDATION", validation).replace("STANDARD", standard)
        return self.train(text, "--quiet", status=status)

    def expected(self, length, horizon, stride, own=True):
        values = self.frame[["wind", "temp"] if own else ["wind"]].to_numpy("float32")
        starts = range(0, self.ROWS - length - horizon + 1, stride)
        return (numpy.stack([values[i:i + length] for i in starts]),
                numpy.array([self.frame["temp"][i + length - 1 + horizon] for i in starts]))

    def recorded(self, name):
        rows = pandas.read_csv(self.path("runs", name, "input.csv"))
        labels = pandas.read_csv(self.path("runs", name, "label.csv"))
        return rows.iloc[:, 3:].to_numpy(), labels.iloc[:, 3:].to_numpy()[:, 0]

    def test_windows_are_those_of_numpy_and_validation_is_the_end(self):
        for i, (text, length, horizon, stride) in enumerate((("6", 6, 1, 1), ("{length: 5, horizon: 3, stride: 2}", 5, 3, 2),
                                                            ("{length: 4, horizon: 0}", 4, 0, 1))):
            self.fit(text)
            inputs, labels = self.expected(length, horizon, stride, own=horizon > 0)
            training = len(labels) - round(0.2 * len(labels))
            ours = self.recorded("series" + (f"-{i + 1}" if i else ""))
            numpy.testing.assert_array_equal(ours[0], inputs[:training].reshape(training, -1).astype("float32").astype(float).round(6))
            numpy.testing.assert_allclose(ours[1], labels[:training], rtol=1e-6)

    def test_each_column_is_standardised_over_all_steps(self):
        self.fit("6", standard="true")
        inputs, labels = self.expected(6, 1, 1)
        training = inputs[:len(labels) - round(0.2 * len(labels))]
        ours = self.recorded("series")[0].reshape(training.shape)
        wanted = (training - training.mean((0, 1))) / training.std((0, 1))
        numpy.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5)

    def test_the_model_knows_its_windows(self):
        self.fit("{length: 6, horizon: 2}", standard="true")
        self.run_program("predict", "runs/series", "series.csv", "--to", "p.csv")
        predictions = pandas.read_csv(self.path("p.csv"))
        inputs, labels = self.expected(6, 2, 1)
        numpy.testing.assert_allclose(predictions["label"], labels, rtol=1e-6)
        self.run_program("weights", "runs/series", "--to", "w.npz")
        weights = numpy.load(self.path("w.npz"))
        kernel, bias = (weights[next(key for key in weights if key.endswith(part))] for part in ("kernel", "bias"))
        training = inputs[:len(labels) - round(0.2 * len(labels))]
        scaled = ((inputs - training.mean((0, 1))) / training.std((0, 1))).reshape(len(inputs), -1)
        numpy.testing.assert_allclose(predictions["value_0"], (scaled @ kernel + bias)[:, 0], rtol=1e-4, atol=1e-5)
        result = json.loads(self.run_program("evaluate", "runs/series", "series.csv", "--json").stdout)
        error = (predictions["value_0"] - predictions["label"]).abs().mean()
        self.assertAlmostEqual(result["outputs"][0]["metrics"]["mae"], error, 5)

    def test_mistakes(self):
        for window, text in (("0", "window"), ("{horizon: 1}", "how many rows"), ("{length: 5, horizn: 1}", "horizon"),
                             ("200", "90 rows are too few for a window of 200")):
            self.assertIn(text, self.fit(window, status=2).stderr)
        self.assertIn("folds", self.fit("5", "{folds: 3, fold: 1}", status=2).stderr)
        self.assertFalse(self.exists("runs"))


class Drawn(Case):
    COUNTS = {"a": 60, "b": 30, "c": 10}

    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(2)
        kinds = sum(([kind] * count for kind, count in self.COUNTS.items()), [])
        random.shuffle(kinds)
        pandas.DataFrame({"x": random.normal(size=100).round(3), "kind": kinds}).to_csv(self.path("classes.csv"), index=False)

    def fit(self, validation, *arguments, status=0):
        return self.train(CLASSES.replace("VALIDATION", validation), "--quiet", *arguments, status=status)

    def validation(self, name="classes"):
        with open(self.path("runs", name, "predictions.csv"), encoding="utf-8") as file:
            return [(int(row["sample"]), row["label"]) for row in csv.DictReader(file) if row["epoch"] == "1"]

    def test_a_stratified_part_has_each_class_by_its_share(self):
        self.fit("{share: 0.2, stratified: true}")
        labels = [label for _, label in self.validation()]
        self.assertEqual({kind: labels.count(kind) for kind in self.COUNTS}, {"a": 12, "b": 6, "c": 2})
        self.assertNotEqual([sample for sample, _ in self.validation()], list(range(80, 100)))
        self.fit("{share: 0.2}")
        self.fit("0.2")
        self.assertEqual(self.validation("classes-2"), self.validation("classes-3"))

    def test_folds_have_every_example_once_and_their_spread_is_printed(self):
        self.write("e.yaml", CLASSES.replace("VALIDATION", "{folds: 5, stratified: true}"))
        lines = self.json_lines(self.run_program("train", "e.yaml", "--json").stdout)
        parts = [self.validation(f"classes-fold-{i}") for i in range(1, 6)]
        self.assertEqual(sorted(sample for part in parts for sample, _ in part), list(range(100)))
        for part in parts:
            labels = [label for _, label in part]
            self.assertEqual({kind: labels.count(kind) for kind in self.COUNTS}, {"a": 12, "b": 6, "c": 2})
        ends = [line for line in lines if line["event"] == "end"]
        self.assertEqual((len(ends), lines[-1]["event"], lines[-1]["folds"]), (5, "folds", 5))
        for name in ("val_loss", "val_accuracy"):
            values = [end[name] for end in ends]
            self.assertAlmostEqual(lines[-1][name]["mean"], statistics.mean(values), 9)
            self.assertAlmostEqual(lines[-1][name]["std"], statistics.stdev(values), 9)
        self.assertRegex(self.run_program("train", "e.yaml").stdout, r"over 5 folds\n.*\n.*\n  val_loss +\S+ ± \S+")
        self.run_program("train", "e.yaml", "--quiet", "--set", "data.validation.fold=3", "--set", "name=third")
        self.assertEqual(self.validation("third"), parts[2])
        self.assertIn("a trial is one fold", self.run_program("sweep", "e.yaml", "--set", "seed=1,2", status=2).stderr)

    def test_mistakes(self):
        for validation, text in (("{folds: 1}", "2 or more"), ("{folds: 3, fold: 4}", "fold is one of folds"),
                                 ("{share: 0.2, folds: 3}", "share or folds"), ("{stratified: true}", "share or folds"),
                                 ("{folds: 200, fold: 1}", "100 examples cannot be cut into 200 folds"), ("{share: 0.2, stratified: 3}", "true")):
            self.assertIn(text, self.fit(validation, status=2).stderr)
        self.assertFalse(self.exists("runs"))


if __name__ == "__main__":
    unittest.main()
