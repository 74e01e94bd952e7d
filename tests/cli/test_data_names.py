"""Columns and classes are what their names say: in predict, gradients, validation files and resumed runs."""
import csv
import io
import json
import random
import unittest

from program import Case

REGRESSION = """
name: plane
threads: 1
seed: 5
data: {{train: train.csv, label: y{more}}}
model:
  - dense: {{name: out, units: 1}}
train: {{loss: mse, optimizer: {{sgd: {{learning_rate: 0.05}}}}, epochs: {epochs}, checkpoint: {{every: 1 epoch}}}}
"""


def table(columns, rows):
    lines = [",".join(columns)]
    for a, b in rows:
        values = {"a": a, "b": b, "y": 3 * a - b, "id": 7}
        lines.append(",".join(str(values.get(column, 0)) for column in columns))
    return "\n".join(lines) + "\n"


class Names(Case):
    def setUp(self):
        super().setUp()
        generator = random.Random(3)
        self.rows = [(generator.randint(-9, 9) / 8, generator.randint(-9, 9) / 8) for _ in range(40)]
        self.write("train.csv", table(["a", "b", "y"], self.rows))

    def run_plane(self, more="", epochs=3, status=0):
        record = "record: [{what: val_loss, every: 1 epoch, to: [csv]}]\n" if "validation" in more else ""
        return self.train(REGRESSION.format(more=more, epochs=epochs) + record, status=status)

    def predicted(self, model, data, status=0):
        done = self.run_program("predict", model, data, "--to", "out.csv", status=status)
        if status:
            return done.stderr
        rows = list(csv.DictReader(io.StringIO(self.read("out.csv"))))
        return [row["value_0"] for row in rows], done.stderr

    def test_another_order_gives_the_same_numbers_and_is_said(self):
        self.run_plane()
        self.write("turned.csv", table(["b", "y", "a"], self.rows))
        self.write("unlabelled.csv", table(["b", "a"], self.rows))
        expected, said = self.predicted("runs/plane", "train.csv")
        self.assertEqual(said, "")
        for name in ("turned.csv", "unlabelled.csv"):
            found, said = self.predicted("runs/plane", name)
            self.assertEqual(found, expected)
            self.assertIn(f"note: {name}: its columns are in another order than in training", said)
        self.assertEqual(self.run_program("gradients", "runs/plane", "turned.csv", "--json").stdout,
                         self.run_program("gradients", "runs/plane", "train.csv", "--json").stdout)

    def test_other_columns_are_refused_and_listed(self):
        self.run_plane()
        self.write("other.csv", table(["c", "d"], self.rows))
        said = self.predicted("runs/plane", "other.csv", status=1)
        self.assertIn("missing 'a', 'b'; unknown 'c', 'd'", said)
        self.write("more.csv", table(["a", "b", "id"], self.rows))
        self.assertIn("unknown 'id'", self.predicted("runs/plane", "more.csv", status=1))
        said = self.run_program("gradients", "runs/plane", "other.csv", status=1).stderr
        self.assertIn("missing 'a', 'b'", said)

    def test_without_a_header_the_order_counts_and_is_said(self):
        self.run_plane()
        self.write("plain.csv", table(["a", "b"], self.rows).split("\n", 1)[1])
        expected, _ = self.predicted("runs/plane", "train.csv")
        found, said = self.predicted("runs/plane", "plain.csv")
        self.assertEqual(found, expected)
        self.assertIn("plain.csv: it has no header; its columns were taken in this order: 'a', 'b'", said)
        self.write("plain.csv", table(["a", "b", "id"], self.rows).split("\n", 1)[1])
        said = self.predicted("runs/plane", "plain.csv", status=1)
        self.assertIn("3 columns for the 2 inputs", said)

    def test_a_validation_file_in_another_order(self):
        self.write("same.csv", table(["a", "b", "y"], self.rows[:9]))
        self.write("turned.csv", table(["y", "b", "a"], self.rows[:9]))
        self.run_plane(more=", validation: same.csv")
        done = self.run_plane(more=", validation: turned.csv")
        self.assertIn("note: turned.csv: its columns are in another order", done.stderr)
        self.assertEqual(self.read("runs", "plane", "metrics.csv"),
                         self.read("runs", "plane-2", "metrics.csv"))
        self.write("turned.csv", table(["y", "b", "c"], self.rows[:9]))
        said = self.run_plane(more=", validation: turned.csv", status=2).stderr
        self.assertIn("missing 'a'; unknown 'c'", said)

    def test_a_resumed_run_takes_columns_by_name(self):
        self.run_plane(epochs=6)
        self.run_plane(epochs=3)
        self.write("train.csv", table(["b", "y", "a"], self.rows))
        done = self.run_program("train", "--resume", "runs/plane-2", "--set", "train.epochs=6")
        self.assertIn("in another order", done.stderr)
        whole, resumed = (self.run_program("weights", run, "--to", "w.csv") and self.read("w.csv")
                          for run in ("runs/plane", "runs/plane-2"))
        self.assertEqual(whole, resumed)

    def test_training_goes_on_with_the_columns_of_the_model(self):
        self.run_plane()
        expected, _ = self.predicted("runs/plane", "train.csv")
        self.write("train.csv", table(["b", "a", "y"], self.rows))
        again = REGRESSION.format(more="", epochs=1).replace("name: plane", "name: again").replace(
            "learning_rate: 0.05", "learning_rate: 1e-30")
        again = again[:again.index("model:")] + "model: {file: runs/plane}\n" + again[again.index("train: {loss"):]
        self.assertIn("in another order", self.train(again).stderr)
        found, _ = self.predicted("runs/again", "train.csv")
        self.assertEqual(found, expected)

    def test_a_model_keeps_its_names_in_every_file_of_ours(self):
        self.run_plane(more=", standardize: true")
        expected, _ = self.predicted("runs/plane", "train.csv")
        self.write("turned.csv", table(["b", "y", "a"], self.rows))
        for name in ("copy.safetensors", "copy.keras"):
            self.run_program("weights", "runs/plane", "--to", name)
            found, said = self.predicted(name, "turned.csv")
            self.assertEqual(found, expected, name)
            self.assertIn("in another order", said)
            page = self.run_program("inspect", name).stdout
            for line in ("inputs: a, b", "labels: y", "inputs are standardised"):
                self.assertIn(line + "\n", page)
            about = json.loads(self.run_program("inspect", name, "--json").stdout)
            self.assertEqual(about["inputs"], ["a", "b"])
            self.assertEqual(about["labels"], ["y"])
            self.assertEqual(len(about["mean"]), 2)

    def test_names_that_are_not_utf8_are_kept_apart(self):
        text = table(["a", "b", "y"], self.rows).replace("a,b,y", "gr\u00f6\u00dfe,gr\u00fc\u00dfe,y")
        for name in ("train.csv", "again.csv"):
            with open(self.path(name), "wb") as file:
                file.write(text.encode("latin-1"))
        self.run_plane()
        expected, said = self.predicted("runs/plane", "again.csv")
        self.assertEqual(said, "")
        self.assertEqual(len(expected), 40)
        self.assertEqual(json.loads(self.run_program("inspect", "runs/plane", "--json").stdout)["inputs"],
                         ["gr\\xF6\\xDFe", "gr\\xFC\\xDFe"])

    def test_the_last_column_of_training_is_found_by_its_name(self):
        self.train(REGRESSION.format(more="", epochs=1).replace("label: y", "label: last"))
        expected, _ = self.predicted("runs/plane", "train.csv")
        self.write("turned.csv", table(["y", "a", "b"], self.rows))
        found, said = self.predicted("runs/plane", "turned.csv")
        self.assertEqual(found, expected)
        self.assertEqual(said, "")


if __name__ == "__main__":
    unittest.main()
