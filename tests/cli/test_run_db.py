"""The queries of docs/run-db.md, run by the sqlite3 shell and by pandas on a run of the program's."""
import os
import re
import sqlite3
import subprocess
import unittest

import pandas

from program import SMALL, SOURCE, Case

RECORD = """
record:
  - what: [loss, accuracy, val_loss]
  - what: "*.error"
    form: [stats, histogram]
    to: [csv]
  - what: hidden.kernel
    every: 5 steps
    form: tensor
    to: [npy]
"""
MAY_BE_EMPTY = {4, 10}  # nothing went wrong in this run


class Queries(Case):
    def queries(self):
        with open(os.path.join(SOURCE, "docs", "run-db.md"), encoding="utf-8") as file:
            blocks = re.findall(r"```sql\n(-- (\d+)\. .*?)```", file.read(), re.S)
        self.assertEqual([int(number) for _, number in blocks], list(range(1, 11)))
        return [(int(number), sql) for sql, number in blocks]

    def test_each_query_gives_rows(self):
        self.train(SMALL + RECORD, "--quiet")
        database = self.path("runs/small/run.db")
        connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
        self.addCleanup(connection.close)
        for number, sql in self.queries():
            shell = subprocess.run(["sqlite3", "-bail", "-csv", database], input=sql, capture_output=True, text=True,
                                   check=False)
            self.assertEqual((shell.returncode, shell.stderr), (0, ""), f"query {number}")
            frame = pandas.read_sql(sql, connection)
            self.assertEqual(len(frame), len(shell.stdout.splitlines()), f"query {number}")
            if number not in MAY_BE_EMPTY:
                self.assertGreater(len(frame), 0, f"query {number} gives nothing")

    def test_the_first_query_has_the_values_of_metrics_csv(self):
        self.train(SMALL + RECORD.replace("val_loss]", "val_loss]\n    to: [csv]"), "--quiet")
        connection = sqlite3.connect(self.path("runs/small/run.db"))
        self.addCleanup(connection.close)
        frame = pandas.read_sql(self.queries()[0][1], connection)
        metrics = pandas.read_csv(self.path("runs/small/metrics.csv"))
        self.assertEqual(list(frame["step"]), list(metrics["step"]))
        self.assertEqual(list(frame["loss"].astype("float32")), list(metrics["loss"].astype("float32")))


if __name__ == "__main__":
    unittest.main()
