"""Outputs of a program that is ended by a signal: what was there before stays, and nothing temporary is left."""
import fcntl
import os
import signal
import subprocess
import time
import unittest

from program import PROGRAM, Case

ROWS = 60000  # an export of which takes a noticeable part of a second


class Interrupted(Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("temporary"))
        self.write("log.csv", "epoch,accuracy,loss\n" + "".join(f"{i},0.5,{1 / (i + 1)}\n" for i in range(ROWS)))
        os.mkdir(self.path("out"))
        self.write("out/metrics.csv", "the earlier one")

    def environment(self):
        return dict(super().environment(), TMPDIR=self.path("temporary"))

    def left(self):
        return sorted(name for name in os.listdir(self.folder) if name not in ("log.csv", "temporary", "cache"))

    def interrupt(self, number):
        """Starts an export that replaces out, and ends it by that signal when it has begun to write."""
        before = self.left()
        process = self.start("export", "log.csv", "--to", "csv", "-o", "out", "--force")
        while self.left() == before and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(number)
        process.communicate()
        self.assertEqual(process.returncode, -number)

    def test_a_signal_keeps_the_earlier_folder_and_leaves_nothing_else(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self.interrupt(number)
            self.assertEqual(self.left(), ["out"])
            self.assertEqual(self.read("out", "metrics.csv"), "the earlier one")

    def test_after_a_kill_the_next_export_removes_what_is_left(self):
        self.interrupt(signal.SIGKILL)
        self.assertEqual(self.read("out", "metrics.csv"), "the earlier one")
        abandoned, *others = self.left()
        self.assertEqual(others, ["out"])
        minutes_ago = time.time() - 600
        os.utime(self.path(abandoned), (minutes_ago, minutes_ago))
        # Those of other processes that live, and what only looks alike, stay.
        kept = (".tapedeck-living", ".tapedeck-later1", ".tapedeck-notes.txt")
        for name in kept[:2]:
            os.mkdir(self.path(name))
        self.write(kept[2], "mine")
        os.utime(self.path(kept[0]), (minutes_ago, minutes_ago))
        lock = os.open(self.path(kept[0]), os.O_RDONLY)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self.run_program("export", "log.csv", "--to", "csv", "-o", "out", "--force")
        self.assertEqual(self.left(), sorted((*kept, "out")))
        self.assertTrue(self.read("out", "metrics.csv").startswith("epoch,"))

    def test_a_closed_pipe_leaves_no_temporary_folder(self):
        for words in (["export", "log.csv", "--to", "csv", "-o", "-"], ["report", "log.csv", "-o", "-"]):
            process = subprocess.Popen([PROGRAM, *words], cwd=self.folder, env=self.environment(), stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            process.stdout.read(10)
            process.stdout.close()
            process.stderr.read()
            process.stderr.close()
            self.assertEqual((process.wait(), words), (-signal.SIGPIPE, words))
            self.assertEqual((os.listdir(self.path("temporary")), words), ([], words))

    def test_the_place_that_export_chooses_is_replaced_too(self):
        for form, place in (("csv", "log.csv-csv"), ("npz", "log.csv.npz")):
            words = ["export", "log.csv", "--to", form, "--steps", "..10"]
            self.run_program(*words)
            self.assertIn("--force", self.run_program(*words, status=1).stderr)
            self.run_program(*words, "--force")
            self.assertIn(place, self.left())


if __name__ == "__main__":
    unittest.main()
