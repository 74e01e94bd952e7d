"""Execution order, the flight recorder, and what executes recorded steps again: replay, origin, diff, branches."""
import contextlib
import json
import os
import random
import shutil
import sqlite3
import unittest

import numpy as np
from program import Case, DIGITS, SMALL

SEED = int(os.environ.get("TD_SEED", "29"))
# Each kind of run twice in a build with sanitizers, which are slow; TD_WINDOWS=200 for more.
WINDOWS = int(os.environ.get("TD_WINDOWS", "16" if os.environ.get("TD_SANITIZE") else "40"))

# Whatever makes a step depend on more than its number: dropout, moving averages, augmentation, shuffling,
# schedules, validation that lowers the rate, clipping.
EXPERIMENTS = {
    "demo": """
name: demo
seed: 7
threads: 1
data: {train: DIGITS, label: last, input: [8, 8, 1], scale: 0.0625, validation: 0.9, batch: 16}
model:
  - conv2d: {name: conv1, filters: 4, kernel: 3, padding: same, activation: relu}
  - max_pool2d: {name: pool, size: 2}
  - flatten:
  - dropout: {rate: 0.3}
  - dense: {name: logits, units: 10}
train:
  loss: sparse_categorical_crossentropy
  from_logits: true
  optimizer: {adam: {learning_rate: 0.003}}
  learning_rate_schedule: {cosine: {warmup: 20}}
  metrics: [accuracy]
  steps: 30
""",
    "adding": """
name: adding
seed: 5
threads: 2
data: {generate: {adding: {examples: 90, length: 12}}, validation: 0.2, batch: 16}
model:
  - lstm: {name: memory, units: 8}
  - dense: {name: sum, units: 1}
train:
  loss: mse
  optimizer: {adam: {learning_rate: 0.01}}
  clip_norm: 0.5
  steps: 26
""",
    "cnn": """
name: cnn
seed: 11
threads: 2
data:
  generate: {images: {examples: 70, size: 8}}
  validation: 0.2
  batch: 12
  augment: {flip: horizontal, shift: 0.1, rotate: 0.02, brightness: 0.1}
model:
  - conv2d: {name: conv1, filters: 4, kernel: 3, padding: same}
  - batch_normalization: {name: norm}
  - dropout: {name: drop, rate: 0.2}
  - flatten: {name: flat}
  - dense: {name: logits, units: 4}
train:
  loss: sparse_categorical_crossentropy
  from_logits: true
  optimizer: {sgd: {learning_rate: 0.05, momentum: 0.9}}
  reduce_on_plateau: {monitor: val_loss, patience: 1, factor: 0.5, min_delta: 0.5}
  steps: 28
""",
    "transformer": """
name: transformer
seed: 2
threads: 2
data: {generate: {sine: {examples: 60, length: 8}}, validation: 0.2, batch: 8}
model:
  - dense: {name: embed, units: 8}
  - multi_head_attention: {name: attention, heads: 2, key_dim: 4, dropout: 0.1}
  - add: {name: residual, from: [attention, embed]}
  - layer_normalization: {name: norm}
  - flatten: {name: flat}
  - dense: {name: out, units: 1}
train: {loss: mse, optimizer: {adamw: {learning_rate: 0.003}}, learning_rate_schedule: {cosine: {}}, steps: 24}
""",
    "two": """
name: two
seed: 3
threads: 1
data: {inputs: {a: a.npy, b: b.npy}, labels: {value: value.npy}, validation: 0.2, batch: 8}
model:
  inputs: [a, b]
  layers:
    - dense: {name: left, from: a, units: 4, activation: tanh}
    - dense: {name: right, from: b, units: 4, activation: tanh}
    - concatenate: {name: both, from: [left, right]}
    - dense: {name: value, units: 1}
train: {loss: mse, optimizer: {rmsprop: {}}, steps: 24}
""",
}
TENSORS = """
record:
  - {what: "*", every: 1 step, form: tensor, to: [npy]}
  - {what: [loss], every: 1 step, to: [csv]}
"""


class Order(Case):
    def test_signals_have_the_order_of_their_operations(self):
        self.train(SMALL + """
record:
  - {what: "*", every: 1 step, form: stats, to: [sqlite]}
""", "--quiet")
        with contextlib.closing(sqlite3.connect(self.path("runs", "small", "run.db"))) as database, database:
            order = [name for name, in database.execute("SELECT name FROM signal WHERE kind <> 'metric' ORDER BY sequence")]
            loss, = database.execute("SELECT sequence FROM signal WHERE name = 'loss'").fetchone()
            forward, = database.execute("SELECT max(sequence) FROM signal WHERE kind = 'output'").fetchone()
            backward, = database.execute("SELECT min(sequence) FROM signal WHERE kind = 'error'").fetchone()
        self.assertEqual(order, [
            "input", "label", "hidden.preactivation", "hidden.output", "logits.preactivation", "logits.output", "prediction",
            "logits.error", "logits.kernel.gradient", "logits.bias.gradient",
            "hidden.error", "hidden.kernel.gradient", "hidden.bias.gradient",
            "hidden.kernel.update", "hidden.kernel", "hidden.bias.update", "hidden.bias",
            "logits.kernel.update", "logits.kernel", "logits.bias.update", "logits.bias"])
        self.assertTrue(forward < loss < backward)

    def test_runs_part_in_execution_order(self):
        record = """
record:
  - {what: ["*.kernel", "*.gradient", "*.error", "*.output"], every: 1 step, form: hash, to: [sqlite]}
"""
        self.train(SMALL + record, "--quiet")
        self.train(SMALL + record, "--quiet", "--set", "train.optimizer.adam.learning_rate=0.03")
        out = self.run_program("compare", "runs/small", "runs/small-2", status=1).stdout
        parted = [line.split()[1:3] for line in out.splitlines() if line.startswith("  step ")]
        self.assertEqual(parted[:4], [["1", "hidden.kernel:"], ["1", "logits.kernel:"],
                                      ["2", "hidden.output:"], ["2", "logits.output:"]])
        self.assertEqual(parted[4][1], "logits.error:")


class Experiments(Case):
    def setUp(self):
        super().setUp()
        generator = np.random.default_rng(4)
        for name, width in (("a", 3), ("b", 2), ("value", 1)):
            np.save(self.path(f"{name}.npy"), generator.normal(size=(50, width)).astype(np.float32))

    def experiment(self, name, record=""):
        return EXPERIMENTS[name].replace("DIGITS", DIGITS) + record

    def arrays(self, folder):
        """Steps and records of every array in a folder."""
        found = {}
        for file in sorted(os.listdir(folder)):
            if file.endswith(".npy") and not file.endswith((".steps.npy", ".samples.npy")):
                steps = np.load(os.path.join(folder, file[:-4] + ".steps.npy"))
                rows = np.load(os.path.join(folder, file), mmap_mode="r")
                signal = found.setdefault(file[:-4].split("@")[0], {})  # a short batch has a file of its own
                signal.update((int(step), row) for step, row in zip(steps, rows))
        return found

    def check_window(self, run, first, last):
        """Replays the steps, and compares every tensor with the one that was recorded the first time."""
        out = self.path("window")
        shutil.rmtree(out, ignore_errors=True)
        done = self.run_program("replay", f"runs/{run}", "--steps", f"{first}..{last}", "--record", "*", "--form",
                                "tensor", "--to", "npy", "--out", "window")
        self.assertIn(f"identical up to step {last} ", done.stdout)
        expected, found = self.arrays(self.path("runs", run)), self.arrays(out)
        compared = 0
        for name, records in found.items():
            for step, value in records.items():
                self.assertTrue(first <= step <= last, (name, step))
                if step in expected.get(name, {}):
                    compared += 1
                    self.assertEqual(value.tobytes(), expected[name][step].tobytes(), (run, name, step))
        # Everything that the first run has of these steps is there again.
        for name, records in expected.items():
            for step in records:
                if first <= step <= last:
                    self.assertTrue(step in found.get(name, {}), (name, step))
        self.assertGreater(compared, 5 * (last - first + 1))


class Replay(Experiments):
    def test_windows_are_what_was_recorded(self):
        chance = random.Random(SEED)
        steps = {}
        for name in EXPERIMENTS:
            self.train(self.experiment(name, TENSORS), "--quiet")
            steps[name] = int(EXPERIMENTS[name].split("steps: ")[1].split("}")[0])
        # A run that was resumed with another length, and so another schedule.
        self.train(self.experiment("demo", TENSORS).replace("name: demo", "name: resumed"), "--quiet", "--set",
                   "train.steps=13")
        self.run_program("train", "--resume", "runs/resumed", "--set", "train.steps=29", "--quiet")
        steps["resumed"] = 29
        # Branches with another rate, of a run that ran through and of the one that was resumed.
        for parent, branch, step in (("cnn", "cnn-2", 9), ("resumed", "resumed-2", 17)):
            rate = "sgd" if parent == "cnn" else "adam"
            self.run_program("train", "--from", f"runs/{parent}@{step}", "--set",
                             f"train.optimizer.{rate}.learning_rate=0.02", "--quiet")
            steps[branch] = steps[parent]
        begin = {"cnn-2": 10, "resumed-2": 18}
        for i in range(WINDOWS):
            name = list(steps)[i % len(steps)]
            first = chance.randint(begin.get(name, 1), steps[name])
            last = min(steps[name], first + chance.randint(0, 6))
            if name == "resumed" and i < len(steps):
                first, last = 11, 16  # across the step at which it was resumed
            with self.subTest(run=name, first=first, last=last):
                self.check_window(name, first, last)

    def test_records_are_added_to_the_run_and_nothing_is_replaced(self):
        self.train(SMALL + "record:\n  - {what: hidden.kernel, every: 5 steps, form: tensor, to: [npy]}\n", "--quiet")
        before = {name: self.bytes("runs", "small", name) for name in ("hidden.kernel.npy", "model.safetensors")}
        done = self.run_program("replay", "runs/small", "--steps", "4..6", "--record", "hidden.kernel,loss", "--form",
                                "tensor", "--to", "npy")
        self.assertIn("5 records in runs/small/replayed/4-6; 1 were there already, and stay", done.stdout)
        with contextlib.closing(sqlite3.connect(self.path("runs", "small", "run.db"))) as database, database:
            marked = list(database.execute("SELECT name, step, form FROM replayed JOIN signal ON id = signal "
                                           "ORDER BY name, step"))
            places = dict(database.execute("SELECT step, file FROM tensor JOIN signal ON id = signal "
                                           "WHERE name = 'hidden.kernel' AND step BETWEEN 4 AND 6"))
        self.assertEqual(marked, [("hidden.kernel", 4, "tensor"), ("hidden.kernel", 6, "tensor"),
                                  ("loss", 4, "scalar"), ("loss", 5, "scalar"), ("loss", 6, "scalar")])
        self.assertEqual(places, {4: "replayed/4-6/hidden.kernel.npy", 5: "hidden.kernel.npy",
                                  6: "replayed/4-6/hidden.kernel.npy"})
        for name, value in before.items():
            self.assertEqual(self.bytes("runs", "small", name), value)
        shown = self.run_program("show", "runs/small", "hidden.kernel", "--step", "6").stdout
        self.assertIn("hidden.kernel at step 6", shown)

    def test_until_and_when_choose_steps(self):
        self.train(SMALL, "--quiet")
        done = self.run_program("replay", "runs/small", "--steps", "1..20", "--record", "hidden.error", "--form", "tensor",
                                "--to", "npy", "--out", "o", "--until", "step >= 7")
        self.assertIn("identical up to step 7 ", done.stdout)
        self.assertEqual(sorted(self.arrays(self.path("o"))["hidden.error"]), list(range(1, 8)))
        self.run_program("replay", "runs/small", "--steps", "1..20", "--record", "hidden.error", "--form", "tensor",
                         "--to", "npy", "--out", "p", "--when", "step == 9", "--history", "2")
        self.assertEqual(sorted(self.arrays(self.path("p"))["hidden.error"]), [7, 8, 9])

    def test_what_is_wrong_is_reported_and_nothing_is_written(self):
        rows = "\n".join(f"{i % 7},{i % 3},{i % 2}" for i in range(60))
        self.write("rows.csv", "a,b,y\n" + rows + "\n")
        text = """
name: rows
data: {train: rows.csv, label: y, batch: 8}
model: [{dense: {name: d, units: 2}}]
train: {loss: sparse_categorical_crossentropy, from_logits: true, epochs: 3}
"""
        self.train(text, "--quiet")
        replay = ("replay", "runs/rows", "--steps", "5..6", "--record", "d.output")

        def refused(message, *arguments):
            before = sorted(os.listdir(self.path("runs", "rows")))
            done = self.run_program(*(arguments or replay), status=1)
            self.assertIn(message, done.stderr)
            self.assertEqual(sorted(os.listdir(self.path("runs", "rows"))), before)

        refused("has 24 steps, and not 30", "replay", "runs/rows", "--steps", "5..30", "--record", "d.output")
        refused("no signal 'd.outputs'; did you mean 'd.output'?", *replay[:-1], "d.outputs")
        self.write("rows.csv", "a,b,y\n" + rows.replace("3", "4") + "\n")
        refused("and the run was trained on")
        os.remove(self.path("rows.csv"))
        refused("rows.csv' that can be read")
        self.write("rows.csv", "a,b,y\n" + rows + "\n")
        self.run_program("replay", "runs/rows", "--steps", "5..6")
        shutil.rmtree(self.path("runs", "rows", "checkpoints"))
        shutil.rmtree(self.path("runs", "rows", "ring"), ignore_errors=True)
        self.assertIn("from the beginning", self.run_program("replay", "runs/rows", "--steps", "5..6").stdout)
        with contextlib.closing(sqlite3.connect(self.path("runs", "rows", "run.db"))) as database, database:
            database.execute("UPDATE run SET value = '99.1.0' WHERE key = 'version'")
        refused("was written by Tapedeck 99.1.0")

    def test_a_difference_is_found_and_its_records_are_not_added(self):
        self.train(SMALL, "--quiet")
        with open(self.path("runs", "small", "flight.bin"), "r+b") as file:
            file.seek(32 + 48 * 6 + 8)  # the loss of step 7
            file.write(b"\1")
        done = self.run_program("replay", "runs/small", "--steps", "5..9", "--record", "loss", status=1)
        self.assertIn("step 7 differs: loss", done.stdout)
        self.assertIn("identical up to step 6", done.stdout)
        with contextlib.closing(sqlite3.connect(self.path("runs", "small", "run.db"))) as database, database:
            self.assertEqual(database.execute("SELECT count(*) FROM replayed").fetchone(), (0,))

    def test_a_run_that_was_killed_can_be_replayed(self):
        self.write("experiment.yaml", SMALL.replace("epochs: 4", "epochs: 100000"))
        process = self.start("train", "experiment.yaml")
        for text in process.stdout:
            if text.startswith("epoch") and int(text.split("/")[0].split()[1]) >= 300:
                break
        done = self.run_program("replay", "runs/small", "--steps", "100..110", "--record", "loss", status=1)
        self.assertIn("is being written", done.stderr)
        self.run_program("replay", "runs/small", "--steps", "100..110", "--record", "loss", "--out", "o")
        process.kill()
        process.communicate()
        process.stdout.close()
        done = self.run_program("replay", "runs/small", "--steps", "100..110", "--record", "hidden.*")
        self.assertIn("identical up to step 110", done.stdout)

    def test_the_ring_keeps_within_its_budget(self):
        self.train(SMALL.replace("epochs: 4", "epochs: 60\n  checkpoint: {every: 1 epoch, keep: 1, budget: 40 KiB}"),
                   "--quiet")
        ring = self.path("runs", "small", "ring")
        sizes = {int(name[5:14]): os.path.getsize(os.path.join(ring, name)) for name in os.listdir(ring)}
        self.assertLessEqual(sum(sizes.values()), 40 << 10)
        self.assertGreater(sum(sizes.values()), 25 << 10)
        steps = sorted(sizes)
        gaps = [b - a for a, b in zip(steps, steps[1:])]
        self.assertGreater(gaps[0], gaps[-1])  # they grow with the distance from the last step
        self.assertEqual(len(os.listdir(self.path("runs", "small", "checkpoints"))), 1)
        self.run_program("replay", "runs/small", "--steps", f"{steps[0] + 3}")
        self.train(SMALL.replace("epochs: 4", "epochs: 9\n  checkpoint: {every: 1 epoch, keep: 1, budget: 1}"), "--quiet")
        self.assertFalse(self.exists("runs", "small-2", "ring"))


class Verify(Experiments):
    """train.verify_every: steps that are executed twice and compared."""

    def test_training_is_the_same_bit_for_bit(self):
        for name in EXPERIMENTS:
            with self.subTest(name):
                text = self.experiment(name, TENSORS)
                self.train(text, "--quiet")
                done = self.train(text.replace("\ntrain:\n", "\ntrain:\n  verify_every: 3\n") if "\ntrain: {" not in text else
                                  text.replace("\ntrain: {", "\ntrain: {verify_every: 3, "), "--quiet")
                self.assertNotIn("executed twice", done.stderr)
                plain, verified = self.arrays(self.path("runs", name)), self.arrays(self.path("runs", f"{name}-2"))
                self.assertEqual(plain.keys(), verified.keys())
                for signal, records in plain.items():
                    for step, value in records.items():
                        self.assertEqual(value.tobytes(), verified[signal][step].tobytes(), (name, signal, step))
                with sqlite3.connect(self.path("runs", f"{name}-2", "run.db")) as database:
                    noted, = database.execute("SELECT value FROM run WHERE key = 'verify.steps'").fetchone()
                self.assertRegex(noted, "^[789], 0 of them differ$|^10, 0 of them differ$")


class Branch(Experiments):
    """Branches: a new run that shares the past of another one."""

    def bits(self, run, step):
        """Every tensor that a run recorded in a step."""
        arrays = self.arrays(self.path("runs", run))
        return {name: records[step].tobytes() for name, records in arrays.items() if step in records}

    def test_a_branch_without_changes_is_the_run_itself(self):
        for name in EXPERIMENTS:
            with self.subTest(name):
                self.train(self.experiment(name, TENSORS), "--quiet")
                self.run_program("train", "--from", f"runs/{name}@15", "--quiet")
                for step in (16, 20, 24):
                    expected = self.bits(name, step)
                    self.assertGreater(len(expected), 5)
                    self.assertEqual(self.bits(f"{name}-2", step), expected, (name, step))
                self.assertEqual(self.bits(f"{name}-2", 15), {})
                self.assertEqual(self.bytes("runs", f"{name}-2", "flight.bin")[:32 + 15 * 48],
                                 self.bytes("runs", name, "flight.bin")[:32 + 15 * 48])

    def test_a_branch_goes_on_with_other_settings_and_is_replayed(self):
        self.train(self.experiment("demo", TENSORS), "--quiet")
        self.run_program("train", "--from", "runs/demo@12", "--set", "train.optimizer.adam.learning_rate=0.1",
                         "--quiet")
        self.assertEqual(self.bits("demo-2", 13)["conv1.output"], self.bits("demo", 13)["conv1.output"])
        self.assertNotEqual(self.bits("demo-2", 14)["conv1.output"], self.bits("demo", 14)["conv1.output"])
        self.check_window("demo-2", 13, 20)
        done = self.run_program("replay", "runs/demo-2", "--steps", "12..13", status=1)
        self.assertIn("branches off after step 12: replay earlier ones of demo", done.stderr)
        # A branch of the branch, and what lists and compares them.
        self.run_program("train", "--from", "runs/demo-2@20", "--quiet")
        self.assertEqual(self.bits("demo-3", 25), self.bits("demo-2", 25))
        self.check_window("demo-3", 21, 24)
        lines = self.run_program("runs").stdout.splitlines()[1:]
        self.assertEqual([line.split("  finished")[0].rstrip()[:20].split("  20")[0].rstrip() for line in lines],
                         ["demo", "\u2514 demo-2 @12", "  \u2514 demo-3 @20"])
        listed = {run["name"]: run for run in json.loads(self.run_program("runs", "--json").stdout)}
        self.assertEqual((listed["demo"]["parent"], listed["demo"]["parent_step"]), (None, None))
        self.assertEqual((listed["demo-2"]["parent"], listed["demo-2"]["parent_step"]),
                         (os.path.realpath(self.path("runs", "demo")), 12))
        out = self.run_program("compare", "runs/demo", "runs/demo-2", status=1).stdout
        self.assertIn("demo-2 branches off from demo after step 12", out)
        with contextlib.closing(sqlite3.connect(self.path("runs", "demo-2", "run.db"))) as database, database:
            facts = dict(database.execute("SELECT key, value FROM run WHERE key LIKE 'parent%'"))
        self.assertEqual(facts, {"parent": "demo", "parent.step": "12"})

    def test_a_branch_may_have_another_optimizer_and_batch(self):
        self.train(self.experiment("demo"), "--quiet")
        done = self.run_program("train", "--from", "runs/demo@9", "--set", "train.optimizer={sgd: {momentum: 0.9}}",
                                "--set", "data.batch=8")
        self.assertIn("has no state of this optimizer", done.stderr)
        self.assertIn("the branch has other batches", done.stderr)
        self.assertIn("identical up to step 15",
                      self.run_program("replay", "runs/demo-2", "--steps", "10..15").stdout)

    def test_a_branch_that_cannot_be_made_writes_nothing(self):
        self.train(SMALL, "--quiet")

        def refused(message, *arguments, status=2):
            done = self.run_program("train", *arguments, status=status)
            self.assertIn(message, done.stderr)
            self.assertEqual(os.listdir(self.path("runs")), ["small"])

        refused("expected RUN@STEP", "--from", "runs/small")
        refused("expected RUN@STEP", "--from", "runs/small@0")
        refused("has steps 1 to", "--from", "runs/small@100000")
        refused("is missing or has another shape", "--from", "runs/small@5", "--set", "model.0.dense.units=3")
        refused("for more, --set train.epochs=N", "--from", "runs/small@15", "--set", "train.epochs=1")
        with open(self.path("runs", "small", "flight.bin"), "r+b") as file:
            file.seek(32 + 48 * 3 + 8)  # the loss of step 4
            file.write(b"\1")
        refused("step 4 differs from what was recorded (loss)", "--from", "runs/small@6")


if __name__ == "__main__":
    unittest.main()
