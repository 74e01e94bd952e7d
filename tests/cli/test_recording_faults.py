"""No error of recording stops training or loses the model; no signal but SIGKILL loses a step."""
import os
import re
import resource
import signal
import sqlite3
import subprocess
import unittest

from program import PROGRAM, Case, SMALL

LONG = SMALL.replace("epochs: 4", "epochs: 400")
CHECKED = LONG.replace("epochs: 400", "epochs: 400\n  checkpoint: {every: 1 epoch}")
RECORD = "record:\n  - {what: [loss, accuracy], to: [csv]}\n"


class RecordingFaults(Case):
    def popen(self, *arguments, **options):
        process = subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, env=self.environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   **options)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def disturbed(self, text, disturb, **options):
        """Trains; disturb(process) is called after the fifth epoch. Status, output, errors."""
        self.write("experiment.yaml", text)
        process = self.popen("train", "experiment.yaml", **options)
        for line in process.stdout:
            if re.match(r"epoch +5/", line):
                disturb(process)
                break
        output, errors = process.communicate(timeout=300)
        return process.returncode, output, errors

    def assert_trained(self, status, errors, *words):
        self.assertEqual(status, 3, errors)
        self.assertTrue(self.exists("runs", "small", "model.safetensors"))
        warning, *_, end = errors.splitlines()
        self.assertRegex(warning, "^tapedeck: note: not recorded: .*; training goes on$")
        self.assertRegex(end, "^tapedeck: trained, the model is in runs/small, but not everything was "
                              "recorded: ")
        for word in words:
            self.assertIn(word, end)

    def test_a_database_that_somebody_else_locks(self):
        said = []

        def lock(process):
            database = sqlite3.connect(self.path("runs", "small", "run.db"), timeout=60,
                                       isolation_level=None)
            database.execute("BEGIN IMMEDIATE")
            said.append(process.stderr.readline())
            database.close()
        status, _, errors = self.disturbed(CHECKED + RECORD, lock)
        self.assert_trained(status, "".join(said) + errors, "run.db")

    def test_a_limit_on_the_size_of_files(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        self.write("experiment.yaml", LONG + RECORD
                   + "  - {what: hidden.output, form: rows, to: [csv]}\n")
        process = self.popen("train", "experiment.yaml", preexec_fn=limit)
        _, errors = process.communicate(timeout=300)
        self.assert_trained(process.returncode, errors, "File too large")

    def test_a_file_that_is_removed(self):
        def remove(_):
            os.remove(self.path("runs", "small", "metrics.csv"))
        status, _, errors = self.disturbed(CHECKED + RECORD, remove)
        self.assert_trained(status, errors, "metrics.csv")

    def test_sigterm_and_sighup_stop_as_control_c_does(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            status, _, errors = self.disturbed(LONG.replace("400", "4000"),
                                               lambda process: process.send_signal(number))
            self.assertEqual(status, 130, errors)
            self.assertRegex(errors, r"stopped after step \d+; go on with: tapedeck train --resume ")

    def test_nohup_is_honoured(self):
        def ignore():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        status, output, errors = self.disturbed(
            LONG, lambda process: process.send_signal(signal.SIGHUP), preexec_fn=ignore)
        self.assertEqual(status, 0, errors)
        self.assertIn("epoch 400/400", output)

    def test_a_pipe_that_nobody_reads(self):
        self.write("experiment.yaml", LONG + "record:\n  - {what: loss, to: [print, csv]}\n")
        process = self.popen("train", "experiment.yaml")
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(timeout=300), 3, errors)
        self.assertTrue(self.exists("runs", "small", "model.safetensors"))

    def test_killed_before_the_model_was_written_it_is_written_on_resuming(self):
        for text in (SMALL, SMALL.replace("epochs: 4", "epochs: 100\n  early_stopping: {monitor: "
                                          "val_loss, patience: 2, min_delta: 10, restore_best: true}")):
            self.train(text, "--quiet", "--out", "out")
            model = self.bytes("out", "small", "model.safetensors")
            os.remove(self.path("out", "small", "model.safetensors"))
            self.run_program("train", "--resume", "out/small", "--quiet")
            self.assertEqual(self.bytes("out", "small", "model.safetensors"), model)
            done = self.run_program("train", "--resume", "out/small", status=1)
            self.assertIn("for more, --set", done.stderr)
            os.rename(self.path("out"), self.path("done" + str(len(text))))

    def test_a_run_that_cannot_begin_leaves_no_folder(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        self.write("experiment.yaml", SMALL + RECORD)
        process = self.popen("train", "experiment.yaml", preexec_fn=limit)
        _, errors = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 1, errors)
        self.assertEqual(os.listdir(self.path("runs")), [])


if __name__ == "__main__":
    unittest.main()
