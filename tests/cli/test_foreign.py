"""Runs of wandb, MLflow, trackio and CSV loggers are read as runs; what is damaged or left out is reported."""
import json
import math
import os
import unittest

import foreign_files
from program import Case


class Foreign(Case):
    def values(self, run, signal, status=0):
        folder = f"out-{len(os.listdir(self.folder))}"
        self.run_program("export", run, "--to", "csv", "--what", signal, "--out", folder, status=status)
        lines = self.read(folder, "metrics.csv").splitlines()[1:]
        return {int(line.split(",")[1]): float(line.split(",")[2]) for line in lines}

    def rows(self, run, sql, status=0):
        out = self.run_program("sql", run, sql, "--csv", status=status).stdout.splitlines()[1:]
        return [line.split(",") for line in out]

    def test_wandb(self):
        foreign_files.write_wandb(self.path("wandb", "offline-run-1"))
        os.symlink("offline-run-1", self.path("wandb", "latest-run"))
        run = "wandb/offline-run-1"
        self.assertEqual(self.values(run, "loss", 1), {i: 1 / (i + 1) for i in range(40)})
        self.assertEqual(self.values(run, "nested.acc", 1), {i: i / 10 for i in range(40)})
        bad = self.values(run, "bad", 1)
        self.assertTrue(math.isnan(bad[2]) and bad[3] == -math.inf)
        self.assertEqual((self.values(run, "typed", 1), self.values(run, "whole", 1)), ({40: 0.5}, {40: -3}))
        self.assertEqual(self.rows(run, "select low, high, count from histograms where step = 7", 1), [["0", "1", "1"], ["1", "2.5", "2"]])
        self.assertEqual(self.rows(run, "select signal, step, value from scalars where signal like 'system%'", 1), [["system.cpu", "39", "12.5"]])
        config = {row[0]: row[1] for row in self.rows(run, "select key, value from config where key != 'layers'", 1)}
        self.assertEqual(config, {"lr": "0.1", "optimizer.name": "adam"})
        listed = self.run_program("runs", "wandb", "--json", status=1)  # pictures are left out, and that is reported
        self.assertEqual([run["state"] for run in json.loads(listed.stdout)], ["wandb"])
        self.assertIn("picture: what wandb calls image-file is left out", listed.stderr)

    def test_mlflow(self):
        run = foreign_files.write_mlflow(self.path("mlruns"))
        self.assertEqual(self.values(run, "loss", 1), {i: 1 / (i + 1) for i in range(5)})
        self.assertEqual(self.values(run, "val/acc", 1)[10], 0.5)
        self.assertEqual(self.values(run, "unnumbered", 1), {0: 0.5, 1: 0.25, 2: 0.125})
        self.assertEqual(self.rows(run, "select key, value from config", 1), [["lr", "0.1"]])
        listed = self.run_program("runs", "mlruns", "--json", status=1)
        self.assertEqual(len(json.loads(listed.stdout)), 1)
        self.assertIn("unnumbered: logged without steps", listed.stderr)

    def test_trackio(self):
        for old in (False, True):
            name = "old.db" if old else "project.db"
            foreign_files.write_trackio(self.path(name), old)
            self.assertEqual(self.values(f"{name}/two", "loss"), {i: 1 / (i + 2) for i in range(5)})
            self.assertEqual(self.values(f"{name}/one", "nested.acc"), {i: i / 10 for i in range(5)})
            bad = self.values(f"{name}/one", "bad")
            self.assertTrue(math.isnan(bad[2]) and bad[3] == math.inf)
            self.assertIn("it has: one, two", self.run_program("show", name, status=1).stderr)
            self.assertIn("no such run", self.run_program("show", f"{name}/three", status=1).stderr)
        self.assertEqual(self.rows("project.db/one", "select key, value from config"), [["lr", "0.1"], ["o.a", "1"]])
        self.assertEqual(self.rows("project.db/one", "select step, value from scalars where signal = 'system.cpu'"), [["3", "50"]])
        self.assertEqual(len(self.run_program("runs", "project.db").stdout.splitlines()), 3)

    def test_csv(self):
        foreign_files.write_lightning(self.path("logs", "version_0"))
        self.assertEqual(self.values("logs/version_0", "loss"), {9: 1.5, 19: 1.25})
        self.assertEqual(self.values("logs/version_0", "val_loss")[9], 2.5)
        self.assertEqual(self.rows("logs/version_0", "select key, value from config where key != 'net.layers'"),
                         [["lr", "0.1"], ["net.name", "x: y"]])
        for name, separator in (("training.csv", ","), ("training.log", ";")):
            foreign_files.write_keras(self.path(name), separator)
            self.assertEqual(self.values(name, "loss"), {0: 1.5, 1: 1.25})
            self.assertEqual(self.values(name, "accuracy"), {0: 0.5})
        self.run_program("compare", "training.csv", "training.log", "--what", "loss")
        self.run_program("compare", "logs/version_0", "training.log", "--json")

    def test_damage_is_reported_and_the_rest_is_read(self):
        data = foreign_files.write_wandb(self.path("run"))
        for name, changed, text in (("cut", data[:-9], "not all there"), ("flipped", data[:500] + b"\xff" + data[501:], "checksum")):
            os.mkdir(self.path(name))
            with open(self.path(name, "run-x.wandb"), "wb") as file:
                file.write(changed)
            done = self.run_program("show", name)
            self.assertIn(text, done.stderr)
            self.assertIn("loss", done.stdout)
        self.write("other.wandb", "no such thing")
        self.assertIn("is no file of wandb", self.run_program("show", "other.wandb", status=1).stderr)
        self.write("rows.csv", "step,loss\n1,0.5\nx,1\n2,0.25,7\n\n3,0.125\n")
        done = self.run_program("show", "rows.csv")
        self.assertIn("row 3 has no step", done.stderr)
        self.assertIn("row 4 has more cells", done.stderr)
        self.write("data.csv", "a,b\n1,2\n")
        self.assertIn("is no run", self.run_program("show", "data.csv", status=1).stderr)


if __name__ == "__main__":
    unittest.main()
