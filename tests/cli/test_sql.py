"""SQL over runs: the rows are those of run.db, nothing can be written, hostile files and statements end."""
import csv
import io
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
import unittest

from program import Case, PROGRAM, SMALL
from test_hostile_run_db import make_endless

RECORD = """
record:
  - {what: [loss, val_loss], every: 1 epoch, to: csv}
  - {what: "*.gradient", every: 2 steps, form: [stats, histogram], to: csv}
  - {what: "hidden.kernel", every: 1 epoch, form: tensor, to: npy}
"""
REFUSED = ("delete from scalars", "insert into scalars values('a','b',1,2)", "update runs set state='x'",
           "create table a(b)", "create temp table a(b)", "drop table scalars", "attach 'x.db' as y", "pragma journal_mode=wal",
           "vacuum", "vacuum into 'x.db'", "select load_extension('x')", "begin", "reindex", "analyze",
           "select * from pragma_database_list", "select 1; select 2", "", "/* nothing */ --", "select", "select nothing",
           "replace into config values(1,2,3)", "create view a as select 1", "create trigger t after insert on scalars begin select 1; end",
           "select writefile('x', 'y')", "select * from sqlite_dbpage")


class Sql(Case):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.made.cleanup)
        with open(os.path.join(cls.made.name, "experiment.yaml"), "w", encoding="utf-8") as file:
            file.write(SMALL + RECORD)
        subprocess.run([PROGRAM, "train", "experiment.yaml", "--quiet"], cwd=cls.made.name, check=True)

    def setUp(self):
        super().setUp()
        shutil.copytree(os.path.join(self.made.name, "runs"), self.path("runs"))

    def query(self, statement, *runs, status=0):
        return json.loads(self.run_program("sql", *(runs or ("runs/small",)), statement, "--json", status=status).stdout)

    def database(self):
        return sqlite3.connect(f"file:{self.path('runs', 'small', 'run.db')}?mode=ro", uri=True)

    def test_rows_are_those_of_the_database(self):
        database = self.database()
        pairs = (
            ("select signal, step, value from scalars order by 1, 2",
             "select name, step, value from scalar join signal on id = signal order by 1, 2"),
            ("select signal, step, count, mean, std, min, max, norm, zeros, nan, inf, first_nonfinite from stats order by 1, 2",
             "select name, step, count, mean, std, min, max, norm, zeros, nan, inf, first_nonfinite from stats"
             " join signal on id = signal order by 1, 2"),
            ("select step, epoch, wall_time from steps", "select step, epoch, wall_time from step order by step"),
            ("select signal, step, form, file, record from tensors order by 1, 2",
             "select name, step, form, file, record from tensor join signal on id = signal order by 1, 2"),
            ("select kind, step, count, text from events", "select kind, step, count, text from event order by id"),
            ("select signal, kind, layer, parameter from signals", "select name, kind, layer, parameter from signal order by id"),
        )
        for ours, theirs in pairs:
            rows = [tuple(row.values()) for row in self.query(ours)]
            expected = database.execute(theirs).fetchall()
            self.assertEqual(rows, expected, ours)
        self.assertGreater(len(self.query("select * from stats")), 10)
        for ours, theirs in (("notes", "run"), ("config", "experiment"), ("environment", "environment")):
            expected = dict(database.execute(f"select key, value from {theirs}"))
            rows = {row["key"]: row["value"] for row in self.query(f"select key, value from {ours}")}
            self.assertEqual(set(rows), set(expected))
            for key, value in rows.items():
                self.assertEqual(float(expected[key]) if isinstance(value, (int, float)) else expected[key], value)
        self.assertEqual(self.query("select value from config where key = 'seed' and value > 2.5"), [{"value": 3}])

    def test_histograms_have_a_row_for_each_bin(self):
        database = self.database()
        rows = {}
        for row in self.query("select signal, step, low, high, count from histograms"):
            rows.setdefault((row["signal"], row["step"]), []).append([row["low"], row["high"], row["count"]])
        expected = {(name, step): json.loads(bins) for name, step, bins in database.execute(
            "select name, step, bins from histogram join signal on id = signal")}
        self.assertEqual(rows, expected)
        self.assertGreater(len(rows), 3)

    def test_comparisons_narrow_what_is_read_and_change_nothing(self):
        everything = self.query("select * from stats")
        signal = everything[0]["signal"]
        steps = sorted({row["step"] for row in everything})
        low, high = steps[1], steps[-2]
        for where, keep in (
                (f"signal = '{signal}'", lambda r: r["signal"] == signal),
                (f"step = {low}", lambda r: r["step"] == low),
                (f"step between {low} and {high}", lambda r: low <= r["step"] <= high),
                (f"step > {low} and step < {high} + 0.5", lambda r: low < r["step"] < high + 0.5),
                (f"step >= {low} - 0.5 and signal = '{signal}' and run = 'small'",
                 lambda r: r["step"] >= low and r["signal"] == signal),
                (f"signal = '{signal.upper()}' collate nocase", lambda r: r["signal"] == signal),
                ("run = 'other'", lambda r: False), ("signal = 'other'", lambda r: False), ("step = 'x'", lambda r: False),
                ("step > 1e300", lambda r: False), ("step < -1e300", lambda r: False), ("step is null", lambda r: False)):
            rows = self.query(f"select * from stats where {where}")
            self.assertEqual(rows, [row for row in everything if keep(row)], where)
        rows = self.query("select * from stats where signal in (select signal from signals where kind = 'gradient')")
        self.assertEqual(len(rows), len(everything))
        joined = self.query("select s.step, epoch, value from scalars s join steps using (run, step)"
                            " where signal = 'loss' order by 1")
        self.assertEqual([row["epoch"] for row in joined], [1, 2, 3, 4])

    def test_many_runs_and_runs_of_one_name(self):
        shutil.copytree(self.path("runs", "small"), self.path("other", "small"))
        shutil.copytree(self.path("runs", "small"), self.path("runs", "b"))
        rows = self.query("select run, count(*) as n from scalars group by run order by run", "runs", "other", "runs/b")
        self.assertEqual([row["run"] for row in rows], ["b", "other/small", "runs/small"])
        self.assertEqual(len({row["n"] for row in rows}), 1)
        rows = self.query("select s.run from runs s join scalars t on s.run = t.run where t.signal = 'loss'"
                          " and t.step = (select max(step) from steps where run = s.run)", "runs", "other")
        self.assertEqual(len(rows), 3)

    def test_more_runs_than_are_open_at_once(self):
        for i in range(130):
            shutil.copytree(self.path("runs", "small"), self.path("many", f"r{i}"))
        rows = self.query("select run, count(*) as n from scalars where signal = 'loss' group by run"
                          " having count(*) < (select count(*) from runs)", "many")
        self.assertEqual(len(rows), 130)
        self.assertEqual({row["n"] for row in rows}, {4})

    def test_nothing_but_a_query_is_taken(self):
        before = self.bytes("runs", "small", "run.db")
        files = sorted(os.listdir(self.folder))
        for statement in REFUSED:
            done = self.run_program("sql", "runs/small", statement, status=1)
            self.assertEqual(done.stdout, "", statement)
            self.assertIn("tapedeck: ", done.stderr)
        self.assertEqual(self.bytes("runs", "small", "run.db"), before)
        self.assertEqual(sorted(os.listdir(self.folder)), files)

    def test_a_statement_without_end_ends(self):
        began = time.monotonic()
        for statement in ("with recursive a(x) as (select 1 union all select x + 1 from a) select count(*) from a",
                          "select count(*) from stats a, stats b, stats c, stats d, stats e, histograms f"):
            done = self.run_program("sql", "runs/small", statement, "--seconds", "0.3", status=1)
            self.assertIn("took longer than it may", done.stderr)
        self.assertLess(time.monotonic() - began, 60)
        self.run_program("sql", "runs/small", "select length(randomblob(1000000000))", status=1)

    def test_hostile_databases(self):
        shutil.copytree(self.path("runs", "small"), self.path("hostile", "endless"))
        make_endless(self.path("hostile", "endless", "run.db"), "event")
        shutil.copytree(self.path("runs", "small"), self.path("hostile", "garbage"))
        with open(self.path("hostile", "garbage", "run.db"), "wb") as file:
            file.write(b"SQLite format 3\0" + bytes(range(256)) * 40)
        shutil.copytree(self.path("runs", "small"), self.path("hostile", "views"))
        database = sqlite3.connect(self.path("hostile", "views", "run.db"))
        database.execute("drop table scalar")
        database.execute("create view scalar as with recursive a(x) as (select 1 union all select x + 1 from a)"
                         " select 1 as signal, x as step, 1.0 as value from a")
        database.commit()
        database.close()
        shutil.copytree(self.path("runs", "small"), self.path("hostile", "sound"))
        done = self.run_program("sql", "hostile", "select run, count(*) n from scalars group by run", "--json", status=1)
        rows = {row["run"]: row["n"] for row in json.loads(done.stdout)}
        self.assertEqual(set(rows), {"endless", "sound"})
        self.assertIn("garbage", done.stderr)
        self.assertIn("views", done.stderr)
        done = self.run_program("sql", "hostile", "select run, error from runs", "--json", status=1)
        errors = {row["run"]: row["error"] for row in json.loads(done.stdout)}
        self.assertEqual(set(errors), {"endless", "garbage", "sound", "views"})
        self.assertIsNotNone(errors["garbage"])
        done = self.run_program("sql", "hostile/endless", "select count(*) from events", "--seconds", "3", status=1)
        self.assertRegex(done.stderr, "would not end|took longer")

    def test_csv_and_tables(self):
        text = self.run_program("sql", "runs/small", "--csv", "select 'a,\"b\"' as x, 0.1 as y, null as z, 2 as w union all"
                                " select 'line' || char(10) || 'end', 1e300, 3, 4").stdout
        self.assertEqual(list(csv.reader(io.StringIO(text))),
                         [["x", "y", "z", "w"], ['a,"b"', "0.1", "", "2"], ["line\nend", "1e+300", "3", "4"]])
        table = self.run_program("sql", "runs/small", "select 1 as number, 'x' || char(27) || '[31m' as text").stdout
        self.assertEqual(table, "number  text\n     1  x\\x1b[31m\n")
        self.assertEqual(self.run_program("sql", "runs/small", "--csv", "select step from steps where 0").stdout, "step\n")
        self.assertEqual(self.query("select step from steps where 0"), [])
        done = self.run_program("sql", "runs/small", "with recursive a(x) as (select 1 union all select x + 1 from a)"
                                " select x from a limit 10001", status=1)
        self.assertEqual(len(done.stdout.splitlines()), 10001)
        self.assertIn("only the first 10000 rows", done.stderr)

    def test_event_files_and_mistakes(self):
        self.run_program("export", "runs/small", "--to", "tensorboard", "--what", "*loss", "--out", "events")
        ours = self.query("select signal, step, value from scalars order by 1, 2")
        for theirs, row in zip(self.query("select signal, step, value from scalars order by 1, 2", "events"), ours, strict=True):
            self.assertEqual((theirs["signal"], theirs["step"]), (row["signal"], row["step"]))
            self.assertAlmostEqual(theirs["value"], row["value"], places=6)  # event files have floats
        self.assertEqual(self.query("select state from runs", "events"), [{"state": "events"}])
        self.assertIn("no run", self.run_program("sql", "nowhere", "select 1", status=1).stderr)
        self.run_program("sql", "select 1", status=2)
        self.run_program("sql", "runs", "select 1", "--json", "--csv", status=2)
        self.run_program("sql", "runs", "select 1", "--seconds", "0", status=2)
        self.assertIn("scalars", self.run_program("sql", "--tables").stdout)


if __name__ == "__main__":
    unittest.main()
