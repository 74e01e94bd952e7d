"""What is recorded is what was there: tensors of their own step, and every loss of a record said."""
import json
import os
import time
import unittest

import numpy

from program import SMALL, Case

# A batch of 64 KiB and more is worth keeping instead of copying it; flatten only passes it on.
WIDE = """
name: wide
seed: 1
threads: 1
data:
  train: wide.npz
  batch: 32
  scale: 0.5
model:
  - flatten: {name: l}
  - dense: {name: d, units: 1}
train: {loss: mse, optimizer: {sgd: {learning_rate: 0.0001}}, epochs: 1}
"""


class Wide(Case):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(1)
        self.x = random.normal(size=(320, 2000)).astype("f4")
        numpy.savez(self.path("wide.npz"), x=self.x, y=self.x[:, :1])
        numpy.save(self.path("x.npy"), self.x)


class Tensors(Wide):
    def load(self, *parts):
        return numpy.load(self.path(*parts))

    def test_a_layer_that_passes_its_input_on_records_the_step_s_own_batch(self):
        for form, to in (("tensor", "npy"), ("rows", "csv")):
            self.train(WIDE + f"record:\n  - {{what: [input, l.output], form: {form}, to: [{to}]}}\n",
                       "--quiet", "--set", f"name={form}")
        given, passed = (self.load("runs", "tensor", f"{name}.npy") for name in ("input", "l.output"))
        self.assertTrue((given == passed).all())
        rows = [numpy.loadtxt(self.path("runs", "rows", f"{name}.csv"), delimiter=",", skiprows=1)
                for name in ("input", "l.output")]
        self.assertTrue((rows[0] == rows[1]).all())

    def test_units_are_summed_up_over_the_rows(self):
        text = WIDE.replace("units: 1}", "units: 5, activation: sigmoid}\n  - dense: {name: e, units: 1, activation: relu}")
        self.train(text + "record:\n  - {what: [d.output, e.output], at: [1, 3], form: [units, tensor], to: [csv, npy]}\n", "--quiet")
        for layer, units in (("d", 5), ("e", 1)):
            values = self.load("runs", "wide", f"{layer}.output.npy").astype(float)
            rows = numpy.genfromtxt(self.path("runs", "wide", f"{layer}.output.csv"), delimiter=",", names=True)
            self.assertEqual(rows["step"].tolist(), [1] * units + [3] * units)
            for row, unit in zip(rows, numpy.concatenate([v.reshape(-1, units).T for v in values])):
                self.assertAlmostEqual(row["active"], (unit != 0).mean(), places=6)
                for name, of in (("mean", numpy.mean), ("std", numpy.std), ("min", numpy.min), ("max", numpy.max)):
                    self.assertAlmostEqual(row[name], of(unit), delta=1e-5 * (1 + abs(of(unit))))
                ends = ((unit < 0.01) | (unit > 0.99)).mean()
                if layer == "d":
                    self.assertAlmostEqual(row["saturated"], ends, places=6)
        self.run_program("export", "runs/wide", "--to", "csv", "--what", "d.output", "--form", "units", "--out", "again")
        with open(self.path("runs", "wide", "d.output.csv"), "rb") as a, open(self.path("again", "d.output.csv"), "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_a_prediction_s_passed_on_batches(self):
        self.train(WIDE, "--quiet")
        self.run_program("predict", "runs/wide", "x.npy", "--record", "l.output", "--form", "tensor",
                         "--to", "npy", "--to", "o.npy", "--out", "p", "--batch", "32")
        passed = self.load("p", "l.output.npy").reshape(-1, 2000)
        self.assertTrue((passed == self.x * numpy.float32(0.5)).all())


# More than the smallest queue and the writer can take, of steps without work.
FLOOD = """
name: flood
seed: 1
threads: 1
data: {train: wide.npz, batch: 1}
model:
  - dense: {name: d, units: 64}
  - dense: {name: e, units: 1}
train: {loss: mse, optimizer: {sgd: {learning_rate: 0.0001}}, epochs: 4}
policy: drop
queue: 16 KiB
record:
  - {what: [loss], to: [csv]}
  - {what: [d.kernel], form: long, to: [csv]}
"""


class Losses(Wide):
    def test_drops_are_said_by_train_show_and_runs_and_spare_metrics(self):
        said = self.train(FLOOD).stderr
        self.assertRegex(said, r"\d+ of \d+ records were dropped")
        steps = [line.split(",")[1] for line in self.read("runs", "flood", "metrics.csv").split()[1:]]
        self.assertEqual(steps, [str(step) for step in range(1, 1281)])
        self.assertRegex(self.run_program("show", "runs/flood").stdout, r"\d+ records were dropped")
        self.assertRegex(self.run_program("runs").stdout, r"\d+ records dropped")
        listed = json.loads(self.run_program("runs", "--json").stdout)
        self.assertGreater(listed[0]["dropped"], 0)


class Sinks(Wide):
    def test_what_a_sink_cannot_write_is_refused_before_training(self):
        for track, words in (
                ("form: rows, to: [npy]", ["npy cannot write the form rows", "it writes tensor"]),
                ("form: [tensor, image], to: [npy]", ["npy cannot write the form image"]),
                ("form: tensor", ["none of the default sinks", "npy"]),
                ("to: [cvs]", ["cvs", "csv"])):
            text = WIDE + f"record:\n  - {{what: d.output, {track}}}\n"
            for dry in ([], ["--dry-run"]):
                problems = self.problems(text, *dry)
                for word in words:
                    self.assertIn(word, problems[0])
                self.assertFalse(self.exists("runs"))

    def test_a_prediction_that_cannot_be_recorded_leaves_no_folder(self):
        self.train(WIDE, "--quiet")
        for arguments in (["--form", "rows", "--to", "npy"], ["--form", "rosw", "--to", "csv"]):
            self.run_program("predict", "runs/wide", "x.npy", "--record", "l.output", *arguments,
                             "--out", "p", status=1)
            self.assertFalse(self.exists("p"))

    def test_what_a_deck_refuses_a_dry_run_refuses(self):
        for text in ("queue: 1 B\n", "record:\n" + "  - {what: loss}\n" * 300):
            self.assertTrue(self.problems(WIDE + text, "--dry-run"))

    def test_a_dry_run_without_to_plans_what_is_written(self):
        text = WIDE + "record:\n  - {what: d.output}\n"
        plan = json.loads(self.train(text, "--dry-run", "--json").stdout)
        self.train(text, "--quiet")
        self.assertEqual(sorted(name for name in os.listdir(self.path("runs", "wide"))
                                if name.endswith((".csv", ".npy")) or "tfevents" in name),
                         ["d.output.csv"])
        size = os.path.getsize(self.path("runs", "wide", "d.output.csv"))
        self.assertLess(size, plan["bytes"])
        self.assertLess(plan["bytes"], 10 * size)
        self.assertIn("to csv:", self.run_program("train", "experiment.yaml", "--dry-run").stdout)


class Reached(Case):
    """`runs` shows the step that the training has come to, not the last one of which something was recorded."""

    def listed(self, name):
        runs = json.loads(self.run_program("runs", "--json").stdout)
        return next((run["state"], run["epoch"], run["step"]) for run in runs if run["name"] == name)

    def test_a_finished_run(self):
        self.train(SMALL + "record:\n  - {what: loss, every: 7 steps, to: [csv]}\n", "--quiet")
        self.assertEqual(self.listed("small"), ("finished", 4, 20))

    def test_a_running_and_a_killed_one(self):
        self.write("experiment.yaml", SMALL.replace("epochs: 4", "epochs: 1000000") +
                   "record:\n  - {what: loss, at: [1], to: [csv]}\n")
        process = self.start("train", "experiment.yaml", "--quiet")
        try:
            for _ in range(600):
                time.sleep(0.1)
                if self.exists("runs", "small", "metrics.csv") and self.listed("small")[2] > 1:
                    break
            state, epoch, step = self.listed("small")
            self.assertEqual(state, "running")
            self.assertGreater(step, 1)
            self.assertGreater(epoch, 0)
        finally:
            process.kill()
            process.communicate()
        state, _, killed = self.listed("small")
        self.assertEqual(state, "crashed")
        self.assertGreaterEqual(killed, step)


if __name__ == "__main__":
    unittest.main()
