"""Training: the files and columns that docs/experiment.md promises, and what the program says."""
import contextlib
import json
import os
import sqlite3
import struct
import subprocess
import unittest

import numpy
import pandas

from program import Case, DIGITS, SMALL

RECORD = """
record:
  - what: [loss, accuracy, learning_rate, val_loss, val_accuracy]
    to: [csv, tensorboard]
  - {what: hidden.error, every: 3 steps, form: rows, to: [csv]}
  - {what: "logits.*", every: 2 steps, form: stats, to: [csv]}
  - {what: hidden.kernel, at: [1, 4], form: long, to: [csv]}
  - what: [hidden.kernel.gradient, hidden.kernel.update, hidden.preactivation, input, label]
    every: 5 steps
    form: tensor
    to: [npy]
  - {what: prediction, every: 2 epochs, sample: 7, to: [csv]}
"""


class Train(Case):
    def table(self, name):
        return pandas.read_csv(self.path("runs", "small", name))

    def array(self, name):
        return numpy.load(self.path("runs", "small", name + ".npy"), mmap_mode="r")

    def test_metrics_have_a_row_for_each_record(self):
        self.train(SMALL + RECORD, "--quiet")
        metrics = self.table("metrics.csv")
        self.assertEqual(list(metrics), ["epoch", "step", "loss", "accuracy", "learning_rate",
                                         "val_loss", "val_accuracy"])
        self.assertEqual(list(metrics.step), list(range(1, 21)))
        self.assertEqual(list(metrics.epoch), [epoch for epoch in range(1, 5) for _ in range(5)])
        self.assertEqual(list(metrics.step[metrics.val_loss.notna()]), [5, 10, 15, 20])
        predictions = self.table("predictions.csv")
        self.assertEqual(list(predictions), ["epoch", "step", "sample", "label", "class_0",
                                             "class_1", "predicted"])
        self.assertEqual(list(predictions.step), [10] * 7 + [20] * 7)
        for name in ("experiment.yaml", "model.safetensors", "run.db", "checkpoints"):
            self.assertTrue(self.exists("runs", "small", name), name)

    def test_without_a_word_about_recording_metrics_of_each_epoch_are_kept(self):
        done = self.train(SMALL, "--json")
        metrics = self.table("metrics.csv")
        self.assertEqual(list(metrics), ["epoch", "step", "loss", "accuracy", "val_loss", "val_accuracy"])
        self.assertEqual(list(metrics.step), [5, 10, 15, 20])
        told = [line for line in self.json_lines(done.stdout) if line.get("event") == "epoch"]
        self.assertEqual(list(metrics.val_loss), [line["val_loss"] for line in told])
        with open(self.path("runs", "small", "experiment.yaml"), encoding="utf-8") as file:
            self.assertIn("what: [loss, accuracy, val_loss, val_accuracy]", file.read())
        self.train(SMALL + "record: []\n", "--quiet")
        self.assertFalse(self.exists("runs", "small-2", "metrics.csv"))

    def test_a_matrix_that_no_track_records_is_said(self):
        experiment = SMALL.replace("[accuracy]", "[accuracy, confusion_matrix]")
        self.assertNotEqual(experiment, SMALL)
        self.assertIn("no track records confusion_matrix", self.train(experiment).stderr)
        asked = "record: [{what: val_confusion_matrix, every: 1 epoch, form: rows, to: csv}]\n"
        self.assertNotIn("no track records", self.train(experiment + asked).stderr)

    def test_what_tracks_print_in_an_epoch_stands_before_its_line(self):
        experiment = SMALL + "record: [{what: [loss, hidden.output], every: 1, form: [scalar, tensor], to: print}]\n"
        for _ in range(3):
            epoch, printed = 1, 0
            for line in self.train(experiment).stdout.splitlines():
                if line.startswith(f"epoch {epoch}/4 "):
                    epoch += 1
                elif line.startswith("epoch ") and " step " in line:
                    self.assertEqual(int(line.split()[1]), epoch, line)
                    printed += 1
            self.assertEqual(epoch, 5)
            self.assertGreaterEqual(printed, 20)

    def test_an_epoch_s_loss_and_metrics_are_its_mean_as_printed(self):
        done = self.train(SMALL + """
record:
  - {what: [loss, accuracy, val_loss], every: 1 epoch, to: [csv]}
  - {what: [loss, accuracy], every: 1 step, to: [tensorboard]}
  - {what: epoch_loss, every: 1 epoch, to: [npy]}
""", "--json")
        metrics = self.table("metrics.csv")
        lines = self.json_lines(done.stdout)[:4]
        for name in ("loss", "accuracy", "val_loss"):
            numpy.testing.assert_allclose(metrics[name], [line[name] for line in lines], rtol=1e-7)
        numpy.testing.assert_allclose(metrics.loss, self.array("epoch_loss").ravel(), rtol=1e-6)
        with contextlib.closing(sqlite3.connect(self.path("runs", "small", "run.db"))) as database, database:
            rows = dict(database.execute("SELECT step, value FROM scalar WHERE signal = "
                                         "(SELECT id FROM signal WHERE name = 'loss')"))
        self.assertEqual(sorted(rows), list(range(1, 21)))  # run.db has the steps' own
        mean = sum(rows[step] * (16 if step < 5 else 8) for step in range(1, 6)) / 72
        self.assertAlmostEqual(metrics.loss[0], mean, places=6)
        self.assertNotEqual(rows[5], metrics.loss[0])

    def test_what_a_loss_says_of_itself_holds(self):
        """from_logits among the loss's options is that of train; a power of 0 is none, not the usual one."""
        def losses(text, *replace):
            for old, new in replace:
                text = text.replace(old, new)
            lines = self.json_lines(self.train(text, "--json").stdout)[:4]
            return [line["loss"] for line in lines]
        inside = ("loss: sparse_categorical_crossentropy\n  from_logits: true",
                  "loss: {sparse_categorical_crossentropy: {from_logits: true}}")
        self.assertEqual(losses(SMALL, inside), losses(SMALL))
        one = SMALL.replace("units: 2}", "units: 1}")
        plain = losses(one, ("sparse_categorical", "binary"))
        focal = losses(one, ("sparse_categorical_crossentropy", "{binary_focal_crossentropy: {gamma: 0}}"))
        numpy.testing.assert_allclose(focal, plain, rtol=1e-5)

    def test_what_is_hardly_meant_is_said_before_training(self):
        def said(text):
            return self.train(text, "--dry-run").stderr
        self.assertEqual(said(SMALL), "")
        self.assertRegex(said(SMALL.replace("  from_logits: true\n", "")),
                         r"note: experiment.yaml:\d+: train.loss: sparse_categorical_crossentropy takes "
                         r"probabilities, and layer 'logits' ends in none: say from_logits: true, or "
                         r"activation: softmax")
        self.assertIn("layer 'logits' ends in softmax already: it is applied twice",
                      said(SMALL.replace("units: 2}", "units: 2, activation: softmax}")))
        self.assertEqual(said(SMALL.replace("  from_logits: true\n", "")
                              .replace("units: 2}", "units: 2, activation: softmax}")), "")
        self.assertIn("data.batch: 1000 is more than the 72 examples",
                      said(SMALL.replace("batch: 16", "batch: 1000")))
        self.assertIn("a learning rate of 0 learns nothing",
                      said(SMALL.replace("learning_rate: 0.02", "learning_rate: 0")))
        stopping = SMALL.replace("epochs: 4", "epochs: 4\n  early_stopping: {monitor: val_accuracy, "
                                 "mode: MODE}")
        self.assertIn("mode: min, but of val_accuracy the larger is better",
                      said(stopping.replace("MODE", "min")))
        self.assertEqual(said(stopping.replace("MODE", "max")), "")

    def test_looking_for_faults_before_training_changes_nothing(self):
        text = SMALL.replace("  - dense: {name: logits", "  - batch_normalization: {}\n  - dropout: {rate: 0.2}\n"
                             "  - dense: {name: logits")
        self.train(text, "--out", "looked")
        self.train(text, "--out", "not_looked", "--quiet")
        self.assertEqual(self.bytes("looked", "small", "model.safetensors"),
                         self.bytes("not_looked", "small", "model.safetensors"))

    def test_tables_of_signals(self):
        self.train(SMALL + RECORD, "--quiet")
        error = self.table("hidden.error.csv")
        self.assertEqual(list(error), ["epoch", "step", "sample"] + [f"error_{i}" for i in range(8)])
        self.assertEqual(sorted(set(error.step)), [3, 6, 9, 12, 15, 18])
        self.assertEqual(len(error[error.step == 15]), 72 - 4 * 16)  # the last short batch
        self.assertEqual(len(error[error.step == 3]), 16)
        stats = self.table("stats.csv")
        self.assertEqual(list(stats), ["epoch", "step", "signal", "count", "mean", "std", "min",
                                       "max", "norm", "zeros", "nan", "inf"])
        self.assertEqual(set(stats.signal), {"logits.output", "logits.error", "logits.kernel",
                                             "logits.bias", "logits.kernel.gradient",
                                             "logits.bias.gradient", "logits.kernel.update",
                                             "logits.bias.update", "logits.preactivation"})
        self.assertEqual(list(self.table("logits.error.csv")), list(stats))
        kernel = self.table("hidden.kernel.csv")
        self.assertEqual(list(kernel), ["epoch", "step", "sample", "index", "value"])
        self.assertEqual(set(kernel["index"]), {f"{i},{j}" for i in range(2) for j in range(8)})

    def test_arrays_of_signals(self):
        self.train(SMALL + RECORD, "--quiet")
        for name, shape in (("hidden.kernel.gradient", (2, 8)), ("hidden.kernel.update", (2, 8)),
                            ("hidden.preactivation", (8, 8)), ("input", (8, 2)), ("label", (8,))):
            self.assertEqual(self.array(name).shape, (4, *shape), name)
            self.assertEqual(list(self.array(name + ".steps")), [5, 10, 15, 20])

    def test_update_is_what_the_step_changed_the_parameter_by(self):
        self.train(SMALL + """
record:
  - {what: [hidden.kernel, hidden.kernel.update], form: tensor, to: [npy]}
""", "--quiet")
        values = self.array("hidden.kernel")
        numpy.testing.assert_allclose(values[1:] - values[:-1],
                                      self.array("hidden.kernel.update")[1:], atol=1e-7)

    def test_samples_are_rows_of_the_file_with_their_labels(self):
        self.train(SMALL.replace("generate: {two_moons: {examples: 90, noise: 0.1}}",
                                 f"train: {DIGITS}\n  label: last\n  scale: 0.0625")
                   .replace("units: 2}", "units: 10}").replace("epochs: 4", "epochs: 1") + """
record:
  - {what: input, at: [2], form: rows, to: [csv]}
  - {what: prediction, every: 1 epoch, sample: 20, to: [csv]}
""", "--quiet")
        digits = pandas.read_csv(DIGITS, header=None)
        recorded = self.table("input.csv")
        for _, row in recorded.iterrows():
            self.assertEqual(list(row.iloc[3:] * 16), list(digits.iloc[int(row["sample"]), :64]))
        predictions = self.table("predictions.csv")
        self.assertEqual(list(predictions.label),
                         [digits.iloc[row, 64] for row in predictions["sample"]])
        self.assertFalse(set(predictions["sample"]) & set(recorded["sample"]))

    def test_a_layer_s_own_loss_against_its_target(self):
        target = numpy.random.default_rng(1).normal(size=(90, 8)).astype("float32")
        numpy.save(self.path("target.npy"), target)
        self.train(SMALL + """
record:
  - {what: hidden.loss, target: target.npy, to: [csv]}
  - {what: hidden.output, form: rows, to: [csv]}
""", "--quiet")
        loss = self.table("metrics.csv").set_index("step")["hidden.loss"]
        for step, rows in self.table("hidden.output.csv").groupby("step"):
            output = rows.iloc[:, 3:].to_numpy()
            expected = numpy.mean((output - target[rows["sample"]]) ** 2)
            self.assertAlmostEqual(loss[step], expected, places=5)
        lines = self.problems(SMALL + "record:\n  - {what: hidden.loss, to: [csv]}\n")
        self.assertIn("target: FILE.npy", lines[-1])

    def test_a_loss_that_is_no_number_stops_with_step_and_layer(self):
        text = SMALL.replace("{adam: {learning_rate: 0.02}}", "{sgd: {learning_rate: 1.0e+39}}")
        done = self.train(text + "record:\n  - {what: loss, to: [csv]}\n", "--quiet", status=1)
        self.assertRegex(done.stderr, r"step \d+ \(epoch 1\): the loss is (NaN|infinite)")
        self.assertRegex(done.stderr, r"layer (hidden|logits)")
        step = int(done.stderr.split("step ")[1].split()[0])
        self.assertEqual(list(self.table("metrics.csv").step), list(range(1, step + 1)))

    def test_early_stopping(self):
        done = self.train(SMALL.replace("epochs: 4", "epochs: 100\n  early_stopping: "
                                        "{monitor: val_loss, patience: 2, min_delta: 10}"))
        self.assertIn("epoch   3/100", done.stdout)
        self.assertNotIn("epoch   4/100", done.stdout)
        self.assertIn("Stopped early: val_loss has not improved", done.stdout)

    def test_a_line_for_each_epoch_and_a_page_at_the_end(self):
        done = self.train(SMALL + "record:\n  - {what: '*.error', form: stats, to: [csv]}\n")
        self.assertEqual(done.stderr, "")
        self.assertIn("epoch 4/4  loss ", done.stdout)
        self.assertRegex(done.stdout, r"val_accuracy +\d+\.\d\d %")
        self.assertIn("Layer errors, steps 1 to 20", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^  hidden +[▁▂▃▄▅▆▇█]{20}  \d")
        self.assertNotIn("\x1b", done.stdout)

    def test_the_next_commands_can_be_pasted_and_are_true(self):
        done = self.train(SMALL.replace("name: small", "name: \"it's mine & $HOME\""))
        lines = [line.strip() for line in done.stdout.split("Next\n")[1].splitlines()]
        self.assertFalse(any("tensorboard" in line for line in lines))  # nothing was recorded for it
        for line in lines:
            subprocess.run(line, shell=True, check=True, cwd=self.folder, stdout=subprocess.DEVNULL,
                           env=self.environment())
        self.assertTrue(self.exists("weights.csv"))

    def test_json(self):
        lines = self.json_lines(self.train(SMALL, "--json").stdout)
        self.assertEqual([line["event"] for line in lines], ["epoch"] * 4 + ["end"])
        self.assertEqual(lines[3]["step"], 20)
        self.assertEqual(lines[4]["val_loss"], lines[3]["val_loss"])
        self.assertEqual(os.path.basename(lines[4]["run"]), "small")

    def test_dry_run_writes_nothing_and_estimates(self):
        done = self.train(SMALL + RECORD, "--dry-run")
        self.assertFalse(self.exists("runs"))
        self.assertIn("hidden", done.stdout)
        self.assertRegex(done.stdout, r"In all about \d")
        plan = self.json_lines(self.train(SMALL + RECORD, "--dry-run", "--json").stdout)[0]
        self.assertEqual([track["records"] for track in plan["tracks"]],
                         [20 * 3 + 4 * 2, 6, 9 * 10, 2, 5 * 4, 2])
        self.train(SMALL + RECORD, "--quiet")
        size = sum(os.path.getsize(self.path("runs", "small", name))
                   for name in os.listdir(self.path("runs", "small"))
                   if name.endswith((".csv", ".npy")))
        self.assertLess(size, 3 * plan["bytes"])

    def test_runs_are_never_overwritten(self):
        for name in ("small", "small-2", "small-3"):
            self.train(SMALL, "--out", "elsewhere", "--json")
            self.assertTrue(self.exists("elsewhere", name, "model.safetensors"))

    def test_checkpoints_are_kept_as_asked(self):
        self.train(SMALL.replace("epochs: 4", "epochs: 4\n  checkpoint: {every: 3 steps, keep: 2}"),
                   "--quiet")
        self.assertEqual(sorted(os.listdir(self.path("runs", "small", "checkpoints"))),
                         ["step-000000018.safetensors", "step-000000020.safetensors"])

    def test_the_model_is_sound_safetensors_with_its_architecture(self):
        self.train(SMALL, "--quiet")
        data = self.bytes("runs", "small", "model.safetensors")
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + length])
        architecture = json.loads(header.pop("__metadata__")["tapedeck.model"])
        self.assertEqual(architecture["input"], [2])
        self.assertEqual([kind for kind, _ in architecture["layers"]], ["dense", "dense"])
        self.assertEqual(header["hidden.kernel"]["shape"], [2, 8])
        self.assertEqual(max(entry["data_offsets"][1] for entry in header.values()),
                         len(data) - 8 - length)

    def test_everything_is_in_the_database(self):
        self.train(SMALL + RECORD, "--quiet")
        with contextlib.closing(sqlite3.connect(self.path("runs", "small", "run.db"))) as database, database:
            names = {name for name, in database.execute("SELECT name FROM signal")}
            notes = dict(database.execute("SELECT key, value FROM experiment"))
        self.assertLessEqual({"loss", "val_loss", "logits.error", "hidden.kernel.update"}, names)
        self.assertEqual(notes["seed"], "3")
        self.assertIn("two_moons", notes["yaml"])

    def test_an_autoencoder_learns_its_input(self):
        text = (SMALL.replace("sparse_categorical_crossentropy", "mse\n  target: input")
                .replace("  from_logits: true\n", "").replace("[accuracy]", "[mae]")
                .replace("epochs: 4", "epochs: 60"))
        lines = self.json_lines(self.train(text, "--json").stdout)
        self.assertLess(lines[-1]["loss"], 0.2 * lines[0]["loss"])


if __name__ == "__main__":
    unittest.main()
