"""Many runs: filtered, sorted, as columns and over seeds; tagged, noted, renamed and removed."""
import csv
import io
import os
import signal
import statistics
import subprocess
import time
import unittest

import pandas

from program import Case, PROGRAM, SMALL

RATES = ("0.001", "0.02", "0.05")


class ManyRuns(Case):
    """Three learning rates with two seeds each."""

    def setUp(self):
        super().setUp()
        self.write("experiment.yaml", SMALL)
        for rate in RATES:
            for seed in (1, 2):
                self.run_program("train", "experiment.yaml", "--quiet", "--set", f"seed={seed}", "--set",
                                 f"train.optimizer.adam.learning_rate={rate}")

    def table(self, *arguments, status=0):
        return list(csv.DictReader(io.StringIO(self.run_program("runs", *arguments, "--csv", status=status).stdout)))

    def best(self, name):
        """The least validation loss, as pandas reads it from the run's own CSV."""
        return pandas.read_csv(self.path("runs", name, "metrics.csv"))["val_loss"].min()

    def test_columns_are_settings_and_metrics(self):
        rows = self.table("--columns", "name,differing,val_loss.best,train.epochs")
        self.assertEqual(list(rows[0]), ["name", "seed", "train.optimizer.adam.learning_rate", "val_loss.best", "train.epochs"])
        self.assertEqual([row["seed"] for row in rows], ["1", "2"] * 3)
        self.assertEqual([row["train.optimizer.adam.learning_rate"] for row in rows], [rate for rate in RATES for _ in "ab"])
        for row in rows:
            self.assertAlmostEqual(float(row["val_loss.best"]), self.best(row["name"]), 6)
            self.assertEqual(row["train.epochs"], "4")
        error = self.run_program("runs", "--columns", "nme", status=2).stderr
        self.assertIn("no run has a 'nme'; did you mean 'name'?", error)

    def test_runs_are_sorted(self):
        for key, down in (("val_loss.best", False), ("-val_loss.best", True)):
            rows = self.table("--sort", key)
            values = [self.best(row["name"]) for row in rows]
            self.assertEqual(values, sorted(values, reverse=down))
        self.assertIn("no run has a 'vl'", self.run_program("runs", "--sort", "vl", status=2).stderr)

    def test_runs_are_filtered(self):
        def names(*filters):
            return {row["name"] for row in self.table("--columns", "name", *(word for one in filters for word in ("--filter", one)))}
        everything = {"small", *(f"small-{i}" for i in range(2, 7))}
        self.assertEqual(names(), everything)
        self.assertEqual(names("seed=1"), {"small", "small-3", "small-5"})
        self.assertEqual(names("seed=1", "train.optimizer.adam.learning_rate > 0.01"), {"small-3", "small-5"})
        self.assertEqual(names("name=small-[23]"), {"small-2", "small-3"})
        self.assertEqual(names("name!=small-*"), {"small"})
        bound = sorted(self.best(name) for name in everything)[2]
        self.assertEqual(names(f"val_loss.best <= {bound + 1e-7:.9f}"), {name for name in everything if self.best(name) <= bound + 1e-7})
        last = float(pandas.read_csv(self.path("runs", "small", "metrics.csv"))["val_loss"].iloc[-1])
        self.assertEqual(names(f"val_loss <= {last + 1e-7:.9f} and val_loss >= {last - 1e-7:.9f}"), {"small"})
        self.assertEqual(names("val_loss == val_loss and accuracy > 0"), everything)
        self.assertEqual(names("min(val_loss, accuracy) < 2 and not nan(*)"), everything)
        self.assertIn("expected", self.run_program("runs", "--filter", "val_loss <", status=2).stderr)
        result = self.run_program("runs", "--filter", "lss < 3")
        self.assertIn("6 runs are left out, which have nothing of a name in --filter", result.stderr)
        self.assertEqual(result.stdout, "")

    def test_seeds_are_one(self):
        rows = self.table("--over", "seed")
        self.assertEqual([row["runs"] for row in rows], ["2"] * 3)
        self.assertNotIn("seed", rows[0])
        for i, row in enumerate(rows):
            pair = [self.best("small" + (f"-{n}" if n > 1 else "")) for n in (2 * i + 1, 2 * i + 2)]
            mean, spread = row["val_loss.best"].split(" ± ")
            self.assertAlmostEqual(float(mean), statistics.mean(pair), 4)
            self.assertAlmostEqual(float(spread) / statistics.stdev(pair), 1, 1)

    def test_tags_and_notes(self):
        self.run_program("tag", "runs/small", "baseline", "paper", "baseline")
        self.run_program("tag", "runs/small-2", "paper")
        self.assertEqual(self.run_program("tag", "runs/small").stdout, "baseline\npaper\n")
        self.assertEqual([row["name"] for row in self.table("--filter", "tags=paper", "--columns", "name")], ["small", "small-2"])
        self.run_program("tag", "runs/small", "paper", "--remove")
        self.assertEqual(self.run_program("tag", "runs/small").stdout, "baseline\n")
        self.assertIn("has no tag 'paper'", self.run_program("tag", "runs/small", "paper", "--remove", status=1).stderr)
        self.run_program("tag", "runs/small", "a,b", status=2)
        self.run_program("note", "runs/small", "=the rate, \"of\" the paper")
        self.assertEqual(self.run_program("note", "runs/small").stdout, "=the rate, \"of\" the paper\n")
        row, = self.table("--filter", "name=small", "--columns", "notes,tags")
        self.assertEqual(row, {"notes": "'=the rate, \"of\" the paper", "tags": "baseline"})  # no formula for a spreadsheet
        self.run_program("tag", "runs/none", "a", status=1)

    def test_a_run_gets_another_name_and_its_branches_follow(self):
        self.run_program("train", "--from", "runs/small@10", "--set", "name=branch", "--quiet")
        self.assertIn("└ branch @10", self.run_program("runs").stdout)
        self.run_program("rename", "runs/small", "first")
        listed = self.run_program("runs").stdout
        self.assertIn("└ branch @10", listed)
        self.assertNotIn("small ", listed)
        self.run_program("show", "runs/first", "loss")
        self.assertIn("already", self.run_program("rename", "runs/first", "small-2", status=1).stderr)
        for name in ("../x", "", ".x", "a/b", "x" * 201):
            self.run_program("rename", "runs/first", name, status=2)
        self.assertTrue(self.exists("runs", "first", "run.db") and self.exists("runs", "small-2", "run.db"))

    def test_runs_are_removed_only_when_it_is_agreed(self):
        self.assertIn("say --yes", self.run_program("rm", "runs/small", status=2).stderr)
        self.assertTrue(self.exists("runs", "small", "run.db"))
        self.run_program("rm", "runs/small", "runs/small-2", "--yes")
        self.assertEqual(sorted(os.listdir(self.path("runs"))), ["small-3", "small-4", "small-5", "small-6"])
        os.symlink("small-3", self.path("runs", "link"))
        self.assertIn("is a link", self.run_program("rm", "runs/link", "--yes", status=1).stderr)
        os.mkdir(self.path("mine"))
        self.write("mine/letter.txt", "dear")
        self.run_program("rm", "mine", "--yes", status=1)
        self.assertTrue(self.exists("mine", "letter.txt") and self.exists("runs", "small-3", "run.db"))

    def test_a_run_that_trains_is_left_alone(self):
        training = subprocess.Popen([PROGRAM, "train", "experiment.yaml", "--quiet", "--set", "name=long", "--set", "train.epochs=100000000"],
                                    cwd=self.folder, env=self.environment())
        try:
            while not self.exists("runs", "long", "run.db"):
                time.sleep(0.05)
            self.run_program("tag", "runs/long", "slow")  # which may be done at any time
            self.assertIn("is being written", self.run_program("rm", "runs/long", "--yes", status=1).stderr)
            self.assertIn("is being written", self.run_program("rename", "runs/long", "other", status=1).stderr)
        finally:
            training.send_signal(signal.SIGINT)
            training.wait()
        self.assertEqual(self.run_program("tag", "runs/long").stdout, "slow\n")


if __name__ == "__main__":
    unittest.main()
