"""tapedeck sweep: grids, draws and successive halving; killed at any moment, it goes on to the same bits."""
import base64
import csv
import gzip
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import time
import unittest

import pandas

from program import Case, PROGRAM, SMALL

RATE = "train.optimizer.adam.learning_rate"
KILLS = int(os.environ.get("TD_KILLS", "6"))


def rows(text):
    return list(csv.DictReader(text.splitlines()))


class Sweep(Case):
    def setUp(self):
        super().setUp()
        self.write("e.yaml", SMALL)

    def sweep(self, *arguments, status=0):
        return self.run_program("sweep", *arguments, status=status)

    def table(self, folder="small-sweep"):
        return rows(self.read("runs", folder, "table.csv"))

    def metrics(self, trial, folder="small-sweep"):
        return pandas.read_csv(self.path("runs", folder, trial, "metrics.csv"))

    def weights(self, *parts):
        """Without the header, which has the time."""
        data = self.bytes(*parts, "model.safetensors")
        return data[8 + int.from_bytes(data[:8], "little"):]

    def test_a_grid_is_every_combination_and_each_is_what_train_makes_of_it(self):
        out = self.sweep("e.yaml", "--set", f"{RATE}=0.001,0.05", "--set", "model.0.dense.units=4,[8, 9]", "--set", "train.epochs=3",
                         status=2).stderr
        self.assertIn("units", out)
        self.assertFalse(self.exists("runs"))
        self.sweep("e.yaml", "--set", f"{RATE}=0.001, 0.05", "--set", "model.0.dense.units=4,8", "--set", "train.epochs=3")
        table = self.table()
        self.assertEqual(list(table[0]), ["rank", "trial", RATE, "model.0.dense.units", "epochs", "best_epoch", "val_loss", "state"])
        settings = {row["trial"]: (row[RATE], row["model.0.dense.units"]) for row in table}
        self.assertEqual([settings[f"trial-00{i}"] for i in range(1, 5)],
                         [("0.001", "4"), ("0.001", "8"), ("0.05", "4"), ("0.05", "8")])
        best = [float(row["val_loss"]) for row in table]
        self.assertEqual(best, sorted(best))
        for row in table:
            values = self.metrics(row["trial"])["val_loss"]
            self.assertAlmostEqual(float(row["val_loss"]), values.min(), 6)
            self.assertEqual(int(row["best_epoch"]), values.idxmin() + 1)
            self.assertEqual((row["epochs"], row["state"]), ("3", "finished"))
        rate, units = settings["trial-004"]
        self.run_program("train", "e.yaml", "--quiet", "--set", f"{RATE}={rate}", "--set", f"model.0.dense.units={units}",
                         "--set", "train.epochs=3")
        self.assertEqual(self.weights("runs", "small-sweep", "trial-004"), self.weights("runs", "small"))

    def test_the_page_has_the_settings_of_all_trials(self):
        self.sweep("e.yaml", "--set", f"{RATE}=0.001,0.05", "--quiet")
        page = self.read("runs", "small-sweep", "report.html")
        answers = json.loads(re.search(r'id="report">(.*?)</script>', page, re.S)[1])["answers"]
        settings = json.loads(gzip.decompress(base64.b64decode(answers["/api/settings"])))["runs"]
        self.assertEqual({run[RATE] for run in settings.values()}, {"0.001", "0.05"})

    def test_draws_follow_from_the_seed(self):
        def drawn(*arguments):
            shutil.rmtree(self.path("runs"), ignore_errors=True)
            lines = self.json_lines(self.sweep("e.yaml", *arguments, "--set", "train.epochs=1", "--json").stdout)
            trials = sorted(lines[-1]["trials"], key=lambda trial: trial["trial"])
            return [trial["settings"] for trial in trials]
        laws = ("--random", f"{RATE}=log(1e-4, 1e-1)", "--random", "model.0.dense.units=int(2,9)",
                "--random", "model.0.dense.kernel_l2=uniform(0,0.1)")
        first = drawn(*laws, "-n", "6")
        self.assertEqual(first, drawn(*laws, "-n", "6"))
        self.assertEqual(first[:3], drawn(*laws, "-n", "3"), "more draws change none of the first")
        self.assertNotEqual(first[0], drawn(*laws, "-n", "2", "--set", "seed=4")[0].get(RATE))
        for trial in first:
            self.assertTrue(1e-4 <= trial[RATE] <= 1e-1 and 0 <= trial["model.0.dense.kernel_l2"] < 0.1)
            self.assertIn(trial["model.0.dense.units"], range(2, 10))
        self.assertEqual(len({trial[RATE] for trial in first}), 6)
        pairs = drawn("--random", f"{RATE}=log(1e-4,1e-1)", "-n", "2", "--set", "data.batch=8,16")
        self.assertEqual([pair["data.batch"] for pair in pairs], [8, 16, 8, 16])
        self.assertEqual([pairs[0][RATE], pairs[2][RATE]], [pairs[1][RATE], pairs[3][RATE]])

    def test_logarithms_are_drawn_evenly(self):
        """In sweep.json, without training: the sweep is stopped at once."""
        self.write("long.yaml", SMALL.replace("epochs: 4", "epochs: 100000"))
        process = self.start("sweep", "long.yaml", "--random", f"{RATE}=log(1e-4,1e-1)", "-n", "500")
        while not self.exists("runs", "small-sweep", "sweep.json"):
            time.sleep(0.01)
        process.terminate()
        self.assertEqual(process.wait(), 130)
        process.communicate()
        logs = pandas.Series([math.log10(float(trial[0])) for trial in json.loads(self.read("runs", "small-sweep", "sweep.json"))["trials"]])
        self.assertAlmostEqual(logs.mean(), -2.5, delta=0.15)
        self.assertAlmostEqual(logs.std(), 3 / math.sqrt(12), delta=0.1)

    HALVING = ("e.yaml", "--random", f"{RATE}=log(1e-4,1e-1)", "-n", "9", "--halving", "--set", "train.epochs=9")

    def check_halving(self):
        """What was kept is what pandas says from the runs' own metrics."""
        table = self.table()
        self.assertEqual([int(row["epochs"]) for row in table], [9] + [3] * 2 + [1] * 6)
        alive = [f"trial-00{i}" for i in range(1, 10)]
        for epoch, count in ((1, 3), (3, 1)):
            alive = sorted(alive, key=lambda name, e=epoch: self.metrics(name)["val_loss"][:e].min())[:count]
            self.assertEqual(sorted(row["trial"] for row in table if int(row["epochs"]) > epoch), sorted(alive))
        self.assertEqual((table[0]["trial"], table[0]["state"]), (alive[0], "finished"))
        self.assertEqual({row["state"] for row in table[1:]}, {"stopped"})
        return table

    def test_halving_keeps_the_best_and_pausing_changes_no_bit(self):
        self.assertIn("9 trials to epoch 1\n  3 trials to epoch 3\n  1 trial to epoch 9", self.sweep(*self.HALVING).stdout)
        best = self.check_halving()[0]
        self.run_program("train", "e.yaml", "--quiet", "--set", f"{RATE}={best[RATE]}", "--set", "train.epochs=9")
        self.assertEqual(self.weights("runs", "small-sweep", best["trial"]), self.weights("runs", "small"))
        self.sweep(*self.HALVING, "--jobs", "1", "--quiet")
        self.assertEqual(self.table(), self.table("small-sweep-2"), "however many trials run at a time")
        for arguments, text in ((("--set", "train.epochs=1"), "at least 3 epochs and 3 trials"),
                                (("--set", "train.epochs=9,12"), "train.epochs cannot differ with --halving")):
            self.assertIn(text, self.sweep("e.yaml", "--set", "seed=1,2,3", "--halving", *arguments, status=2).stderr)

    def end_group(self, process, number):
        os.killpg(process.pid, number)
        process.communicate()

    def test_killed_at_any_moment_it_goes_on_to_the_same_bits(self):
        chance = random.Random(7)
        self.sweep(*self.HALVING, "--quiet")
        whole = self.check_halving()
        best = whole[0]["trial"]
        expected = self.weights("runs", "small-sweep", best)
        shutil.rmtree(self.path("runs"))
        arguments = self.HALVING
        for kill in range(KILLS):
            process = subprocess.Popen([PROGRAM, "sweep", *arguments], cwd=self.folder, env=self.environment(),
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
            time.sleep(chance.uniform(0.02, 0.25))
            if kill % 2:
                process.kill()  # the children go on to the end of their step
                process.communicate()
            else:
                self.end_group(process, signal.SIGKILL)
            if self.exists("runs", "small-sweep", "sweep.json"):
                arguments = ("--resume", "runs/small-sweep")
            else:
                shutil.rmtree(self.path("runs"), ignore_errors=True)
        self.sweep(*arguments, "--quiet")
        self.assertEqual(self.check_halving(), whole)
        self.assertEqual(self.weights("runs", "small-sweep", best), expected)
        self.sweep("--resume", "runs/small-sweep", "--quiet")
        self.assertEqual(self.table(), whole, "there was nothing left to do")

    def test_ctrl_c_stops_it_and_says_how_to_go_on(self):
        self.write("long.yaml", SMALL.replace("epochs: 4", "epochs: 1000000"))
        process = subprocess.Popen([PROGRAM, "sweep", "long.yaml", "--set", "seed=1,2,3"], cwd=self.folder, env=self.environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        while not self.exists("runs", "small-sweep", "trial-002.log"):
            time.sleep(0.01)
        self.assertIn("another process", self.run_program("sweep", "--resume", "runs/small-sweep", status=2).stderr)
        os.killpg(process.pid, signal.SIGINT)
        error = process.communicate()[1]
        self.assertEqual(process.returncode, 130)
        self.assertIn("go on with: tapedeck sweep --resume runs/small-sweep", error)
        self.write("long.yaml", SMALL.replace("epochs: 4", "epochs: 5"))
        self.assertIn("long.yaml has changed since the sweep began", self.run_program("sweep", "--resume", "runs/small-sweep", status=2).stderr)

    def test_a_trial_that_diverges_is_a_result(self):
        self.write("e.yaml", SMALL.replace("adam: {learning_rate: 0.02}", "sgd: {learning_rate: 0.02}")
                   .replace("sparse_categorical_crossentropy", "mse").replace("  from_logits: true\n  ", "  ").replace("units: 2", "units: 1")
                   .replace("  metrics: [accuracy]\n", "").replace("tanh", "linear"))
        result = self.sweep("e.yaml", "--set", "train.optimizer.sgd.learning_rate=0.01,1e30", "--metric", "loss")
        self.assertIn("diverged", result.stdout)
        self.assertEqual([row["state"] for row in self.table()], ["finished", "diverged"])
        self.assertEqual(self.table()[0]["train.optimizer.sgd.learning_rate"], "0.01")

    def test_larger_is_better_where_it_is(self):
        self.sweep("e.yaml", "--set", f"{RATE}=0.0001,0.02", "--metric", "val_accuracy", "--quiet")
        best = [float(row["val_accuracy"]) for row in self.table()]
        self.assertEqual(best, sorted(best, reverse=True))
        self.assertGreater(best[0], best[1])

    def test_mistakes_leave_nothing_behind(self):
        good = ("--set", "seed=1,2")
        for arguments, text in ((("e.yaml",), "nothing to compare"),
                                (("e.yaml", "--set", "seed=1"), "nothing to compare"),
                                (("e.yaml", "--set", "seed"), "expected KEY=A,B,C"),
                                (("e.yaml", "--set", "seed=1,,2"), "an empty value"),
                                (("e.yaml", "--set", "name=a,b"), "a sweep names its trials itself"),
                                (("e.yaml", *good, *good), "seed is given twice"),
                                (("e.yaml", "--set", "train.epoch=1,2"), "epochs"),
                                (("e.yaml", "--random", f"{RATE}=log(1e-4,1e-1)"), "-n N"),
                                (("e.yaml", *good, "-n", "3"), "nothing is drawn"),
                                (("e.yaml", "--random", f"{RATE}=log(0,1)", "-n", "3"), "above 0"),
                                (("e.yaml", "--random", f"{RATE}=log(1,0.1)", "-n", "3"), "less than the second"),
                                (("e.yaml", "--random", f"{RATE}=normal(1,2)", "-n", "3"), "expected KEY=log(A,B)"),
                                (("e.yaml", "--random", "data.batch=int(1.5,3)", "-n", "3"), "whole numbers"),
                                (("e.yaml", *good, "-n", "0"), "at least 1"),
                                (("e.yaml", *good, "--factor", "2"), "--factor goes with --halving"),
                                (("e.yaml", *good, "--halving", "--factor", "1"), "--factor"),
                                (("e.yaml", *good, "--metric", "val_los"), "training has loss, accuracy, val_loss"),
                                (("none.yaml", *good), "none.yaml"),
                                (("e.yaml", "--set", "seed=" + ",".join(map(str, range(400))), "--set",
                                  "data.batch=" + ",".join(map(str, range(1, 400)))), "more than 100000"),
                                (("--resume", "runs", "--set", "seed=1"), "--resume FOLDER goes with"),
                                (("--resume", "nowhere"), "nowhere"),
                                (("--resume", "."), "not the folder of a sweep")):
            result = self.run_program("sweep", *arguments, status=2)
            self.assertIn(text, result.stderr, arguments)
            self.assertEqual(result.stdout, "")
            self.assertEqual(os.listdir(self.folder), ["e.yaml"], arguments)

    def test_a_trial_that_cannot_be_trained_does_not_end_the_others(self):
        result = self.sweep("e.yaml", "--set", "data.input=[2],[3]", status=1)
        self.assertRegex(result.stderr, "trial-002: .*")
        self.assertEqual([row["state"] for row in self.table()], ["finished", "failed"])

    def test_damaged_files_are_named(self):
        self.sweep("e.yaml", "--set", "seed=1,2", "--set", "train.epochs=2", "--quiet")
        with open(self.path("runs", "small-sweep", "trial-002.log"), "a", encoding="utf-8") as file:
            file.write("3 nonsense\n")
        self.assertIn("trial-002.log:4: not a line", self.run_program("sweep", "--resume", "runs/small-sweep", status=2).stderr)
        plan = self.read("runs", "small-sweep", "sweep.json")
        for text in ("", "{", "[]", plan.replace('"version": 1', '"version": 2'), plan.replace('"factor": 0', '"factor": 1'),
                     re.sub(r'"trials": \[.*\]', '"trials": [[]]', plan, flags=re.S), plan.replace('"seed"', "3")):
            self.write("runs/small-sweep/sweep.json", text)
            self.assertIn("sweep.json", self.run_program("sweep", "--resume", "runs/small-sweep", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
