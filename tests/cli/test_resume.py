"""A run that was stopped goes on as if it had not been: the same bits, in the same files."""
import contextlib
import os
import shlex
import signal
import sqlite3
import time
import unittest

from program import Case, SMALL

RECORD = """
record:
  - what: [loss, accuracy, epoch_loss, epoch_accuracy, val_loss, learning_rate]
    every: 7 steps
    to: [csv, tensorboard]
  - {what: [val_loss, val_accuracy], every: 50 epochs, to: [npy]}
  - {what: hidden.error, every: 100 steps, form: rows, to: [csv]}
  - {what: hidden.error, every: 50 steps, form: stats, to: [sqlite]}
  - {what: logits.kernel, every: 100 steps, form: tensor, to: [npy]}
  - {what: prediction, every: 100 epochs, sample: 4, to: [csv]}
  - {what: hidden.output, every: 30 steps, sample: 2, form: rows, to: [csv]}
"""
TEXT = (SMALL.replace("epochs: 4", "epochs: 600")
        .replace("  - dense: {name: logits", "  - dropout: {rate: 0.2}\n  - dense: {name: logits")
        .replace("  epochs", "  learning_rate_schedule: {cosine: {warmup: 20}}\n  epochs"))
FILES = ("metrics.csv", "predictions.csv", "hidden.error.csv", "hidden.output.csv", "logits.kernel.npy",
         "logits.kernel.steps.npy", "val_loss.npy", "model.safetensors")


class Resume(Case):
    def stop_after(self, line, *arguments, number=signal.SIGINT):
        process = self.start("train", "experiment.yaml", *arguments)
        for text in process.stdout:
            if text.startswith(line):
                process.send_signal(number)
                break
        rest, errors = process.communicate(timeout=300)
        return process.returncode, rest, errors

    def assert_same_run(self, first, second):
        for name in FILES:
            self.assertEqual(self.bytes("runs", first, name), self.bytes("runs", second, name), name)
        tables = {}
        for run in (first, second):
            with contextlib.closing(sqlite3.connect(self.path("runs", run, "run.db"))) as database, database:
                tables[run] = [list(database.execute(f"SELECT * FROM {table} ORDER BY step, signal"))
                               for table in ("scalar", "stats")]
        self.assertEqual(tables[first], tables[second])

    def test_a_checkpoint_that_cannot_be_removed_is_reported(self):
        self.train(SMALL, "--quiet")
        os.mkdir(self.path("runs", "small", "checkpoints", "step-000000001.safetensors"))
        done = self.run_program("train", "--resume", "runs/small", "--quiet", "--set", "train.epochs=6", status=3)
        self.assertEqual(done.stderr.count("step-000000001.safetensors: cannot remove"), 1, done.stderr)
        self.assertTrue(self.exists("runs", "small", "checkpoints", "step-000000030.safetensors"))

    def test_control_c_finishes_the_step_and_the_run_goes_on_bit_for_bit(self):
        self.train(TEXT + RECORD, "--quiet")
        status, _, errors = self.stop_after("epoch  20/600")
        self.assertEqual(status, 130, errors)
        self.assertRegex(errors, r"stopped after step \d+; go on with: tapedeck train --resume "
                                 r"runs/small-2\n$")
        self.assertFalse(self.exists("runs", "small-2", "model.safetensors"))
        self.assertGreaterEqual(len(os.listdir(self.path("runs", "small-2", "checkpoints"))), 1)
        self.run_program("train", "--resume", "runs/small-2", "--quiet")
        self.assert_same_run("small", "small-2")

    def test_a_plateau_is_remembered(self):
        text = SMALL.replace("  epochs: 4", "  epochs: 12\n  reduce_on_plateau: {patience: 1, factor: 0.5, "
                             "min_delta: 0.1, cooldown: 1}") + """
record:
  - {what: [learning_rate], every: 1 step, to: [csv]}
"""
        errors = self.train(text).stderr
        self.assertIn("val_loss has not improved for 1 epoch, learning_rate is 0.01 instead of 0.02", errors)
        whole = self.bytes("runs", "small", "metrics.csv").splitlines()
        self.assertGreater(len({line.split(b",")[2] for line in whole[1:]}), 3)
        for step in range(1, 58, 7):
            run = self.train(text, "--quiet", "--set", f"train.steps={step}") and f"small-{step // 7 + 2}"
            self.run_program("train", "--resume", f"runs/{run}", "--set", "train.steps=60", "--quiet")
            self.assertEqual(self.bytes("runs", run, "metrics.csv").splitlines(), whole)
            self.assertEqual(self.bytes("runs", run, "model.safetensors"),
                             self.bytes("runs", "small", "model.safetensors"))

    def test_the_command_that_goes_on_is_quoted(self):
        self.write("experiment.yaml", TEXT)
        status, _, errors = self.stop_after("epoch   1/600", "--out", "my runs/it's")
        self.assertEqual(status, 130, errors)
        words = shlex.split(errors.partition("go on with: ")[2])
        self.assertEqual(words, ["tapedeck", "train", "--resume", "my runs/it's/small"])

    def test_a_killed_run_goes_on_from_its_last_checkpoint(self):
        text = TEXT.replace("  epochs", "  checkpoint: {every: 13 steps, keep: 2}\n  epochs")
        self.train(text + RECORD, "--quiet")
        status, _, _ = self.stop_after("epoch  50/600", number=signal.SIGKILL)
        self.assertEqual(status, -signal.SIGKILL)
        self.run_program("train", "experiment.yaml", "--resume", "runs/small-2", "--quiet")
        self.assert_same_run("small", "small-2")

    def test_without_a_word_about_checkpoints_a_killed_run_can_be_resumed(self):
        self.write("experiment.yaml", TEXT.replace("epochs: 600", "epochs: 1000000"))
        process = self.start("train", "experiment.yaml", "--quiet")
        folder = self.path("runs", "small", "checkpoints")
        while process.poll() is None and not (os.path.isdir(folder) and any(
                name.startswith("step-") for name in os.listdir(folder))):
            time.sleep(0.05)
        process.kill()
        process.communicate()
        self.assertEqual(process.returncode, -signal.SIGKILL)
        step = int(sorted(os.listdir(folder))[-1][5:14])
        epochs = step // 5 + 1
        self.run_program("train", "--resume", "runs/small", "--set", f"train.epochs={epochs}",
                         "--set", "train.learning_rate_schedule=cosine", "--quiet")

    def test_the_best_model_is_kept(self):
        text = SMALL.replace("epochs: 4", "epochs: 12\n  checkpoint: {best: val_loss}").replace(
            "0.02", "3.0")
        epochs = self.json_lines(self.train(text, "--json").stdout)[:-1]
        best = min(range(12), key=lambda i: epochs[i]["val_loss"])
        self.assertLess(best, 11)  # otherwise it shows nothing
        self.train(text.replace("epochs: 12", f"epochs: {best + 1}"), "--quiet")
        self.run_program("weights", "runs/small/best.safetensors", "--to", "best.csv")
        self.run_program("weights", "runs/small-2", "--to", "then.csv")
        self.assertEqual(self.read("best.csv"), self.read("then.csv"))
        lines = self.train(text.replace("val_loss}", "val_los}"), status=2).stderr
        self.assertIn("train.checkpoint.best: no value 'val_los'", lines)

    def test_conditions_and_history_go_on(self):
        record = """
record:
  - {what: [hidden.error, label], when: "loss > mean(loss, 20) * 1.05", history: 5, form: rows, to: [csv]}
  - {what: [loss, accuracy], when: "delta(loss) > 0.02", history: 3, to: [csv]}
  - {what: [loss, hidden.bias], when: "step % 11 == 0", history: 9, to: [npy]}
  - {what: logits.kernel, when: "mean(delta(loss), 9) > 0", history: 2, form: [tensor, histogram, stats], to: [npy, csv, sqlite]}
  - {what: logits.kernel, every: 4 steps, form: tensor, to: [npy]}
  - {what: hidden.output, when: "max(hidden.output.max) > 0.8", sample: 3, history: 4, form: rows, to: [csv]}
""".replace("step % 11 == 0", "step == 22 or step == 44 or step == 45")
        text = SMALL.replace("  validation: 0.2\n", "").replace("0.02", "0.3") + record
        self.train(text.replace("epochs: 4", "steps: 60"), "--quiet")
        text = text.replace("name: small", "name: pieces")
        self.train(text.replace("epochs: 4", "steps: 7"), "--quiet")
        for steps in (8, 13, 20, 21, 28, 35, 42, 43, 49, 56, 60):
            self.run_program("train", "--resume", "runs/pieces", "--set", f"train.steps={steps}", "--quiet")
        names = sorted(name for name in os.listdir(self.path("runs", "small")) if name.endswith((".csv", ".npy")))
        self.assertLess({"hidden.error.csv", "hidden.output.csv", "logits.kernel.npy", "loss.npy", "metrics.csv"},
                        set(names))
        for name in names:
            self.assertEqual(self.bytes("runs", "small", name), self.bytes("runs", "pieces", name), name)
        tables = []
        for run in ("small", "pieces"):
            with contextlib.closing(sqlite3.connect(self.path("runs", run, "run.db"))) as database, database:
                tables.append([sorted(database.execute(
                    f"SELECT name, step, {what} FROM {table} JOIN signal ON signal = id"))
                    for table, what in (("scalar", "value"), ("stats", "norm"), ("histogram", "bins"))])
        self.assertEqual(*tables)

    def test_a_checkpoint_without_what_conditions_remember_still_loads(self):
        record = "record:\n  - {what: loss, when: 'loss > mean(loss, 9)', history: 2, to: [csv]}\n"
        self.train(SMALL + record, "--quiet")
        (name,) = os.listdir(self.path("runs", "small", "checkpoints"))[-1:]
        path = self.path("runs", "small", "checkpoints", name)
        data = self.bytes(path)
        self.assertIn(b"training/recording", data)
        with open(path, "wb") as file:  # the name of another tensor: as if it were not there
            file.write(data.replace(b"training/recording", b"training/Recording"))
        done = self.run_program("train", "--resume", "runs/small", "--set", "train.epochs=6", "--quiet")
        self.assertNotIn("anew", done.stderr)

    def test_conditions_of_other_tracks_begin_anew_and_that_is_reported(self):
        self.train(SMALL + "record:\n  - {what: loss, when: 'loss > mean(loss, 9)', to: [csv]}\n", "--quiet")
        done = self.run_program("train", "--resume", "runs/small", "--set", "train.epochs=6", "--set",
                                "record=[{what: loss, when: 'loss > mean(loss, 8)', to: csv}]")
        self.assertIn("begin anew: the checkpoint is of other tracks", done.stderr)

    def test_a_finished_run_can_be_trained_further(self):
        record = RECORD.replace("every: 7 steps", "every: 5 steps")
        self.train(SMALL + record, "--quiet")
        done = self.run_program("train", "--resume", "runs/small", status=1)
        self.assertIn("all 20 steps are done", done.stderr)
        self.run_program("train", "--resume", "runs/small", "--set", "train.epochs=8", "--quiet")
        self.write("longer.yaml", (SMALL + record).replace("epochs: 4", "epochs: 8"))
        self.run_program("train", "longer.yaml", "--quiet")
        for name in ("metrics.csv", "model.safetensors"):
            self.assertEqual(self.bytes("runs", "small", name), self.bytes("runs", "small-2", name))

    def test_what_cannot_be_resumed_says_why(self):
        self.write("experiment.yaml", SMALL)
        done = self.run_program("train", "experiment.yaml", "--resume", "nowhere", status=1)
        self.assertIn("no checkpoint to resume from", done.stderr)
        self.train(SMALL, "--quiet")
        self.write("other.yaml", SMALL.replace("units: 8", "units: 9"))
        done = self.run_program("train", "other.yaml", "--resume", "runs/small", status=1)
        self.assertIn("another shape", done.stderr)


if __name__ == "__main__":
    unittest.main()
