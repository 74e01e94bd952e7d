"""`tapedeck show RUN loss.rows --step N`: the rows that a spike of the loss comes from, compared with run.db by SQL."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import PROGRAM, Case  # noqa: E402

EXPERIMENT = """
name: rows
seed: 1
data: {train: data.csv, label: y, batch: 8, shuffle: false}
model: [{dense: {units: 4, activation: relu}}, {dense: {units: 1}}]
train: {loss: mse, optimizer: {sgd: {learning_rate: 0.001}}, steps: 6}
record:
  - {what: loss.rows, every: 2 steps, form: rows, to: [sqlite]}
  - {what: prediction, every: 2 steps, form: rows, to: [sqlite]}
"""


class ShowRows(Case):
    def setUp(self):
        super().setUp()
        self.write("data.csv", "a,b,y\n" + "".join(f"{i % 7},{i % 5},{1000 if i == 13 else i % 3}\n" for i in range(48)))
        self.write("rows.yaml", EXPERIMENT)
        self.call("train", "rows.yaml", "--quiet")

    def call(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], cwd=self.folder, capture_output=True, text=True, check=False)

    def show(self, *arguments):
        return self.call("show", "runs/rows", *arguments)

    def test_the_largest_come_first_with_their_share(self):
        lines = self.show("loss.rows", "--step", "2").stdout.splitlines()
        self.assertEqual(lines[0], "loss.rows at step 2: 8 rows of the data, the largest first")
        self.assertEqual(lines[1], "row\tlabel\tvalue\tshare")
        row, label, _, share = lines[2].split("\t")
        self.assertEqual((row, label), ("13", "1000"))
        self.assertGreater(float(share.split()[0]), 99)
        sql = self.call("sql", "runs/rows", "select sample from examples where signal = 'loss.rows' and step = 2 order by json_extract(value, '$[0]') desc").stdout.split()[1:]
        self.assertEqual([line.split("\t")[0] for line in lines[2:]], sql)

    def test_the_last_step_before_is_named(self):
        self.assertIn("at step 4: 8 rows", self.show("loss.rows", "--step", "5").stdout)
        self.assertIn("at step 6: 8 rows", self.show("loss.rows").stdout)
        self.assertIn("prediction at step 6: 48 rows of the data\nrow\tlabel\tvalues\n0\t0\t", self.show("prediction").stdout)

    def test_no_rows_before_a_step_is_an_error(self):
        done = self.show("loss.rows", "--step", "1")
        self.assertIn("has no rows in run.db at or before step 1", done.stderr)


if __name__ == "__main__":
    unittest.main()
