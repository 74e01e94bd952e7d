"""tapedeck tracks: other tracks for a training that runs, from another process."""
import os
import sqlite3
import time
import unittest

from program import Case, SMALL

LONG = SMALL.replace("epochs: 4", "epochs: 100000000") + "record:\n  - {what: loss, every: 100, to: csv}\n"
ADDED = "hidden.error every 10 form stats to csv"


class Tracks(Case):
    def begin(self):
        self.write("experiment.yaml", LONG)
        process = self.start("train", "experiment.yaml", "--quiet")
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        while not self.exists("runs", "small", "metrics.csv") or not self.list():
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        return process

    def list(self):
        done = self.start("tracks", "runs/small")
        return done.communicate()[0].splitlines()

    def events(self):
        with sqlite3.connect(self.path("runs", "small", "run.db")) as database:
            return list(database.execute("select step, count, text from event where kind = 'tracks' order by id"))

    def change(self, *arguments):
        done = self.run_program("tracks", "runs/small", *arguments)
        self.assertRegex(done.stdout, r"\Achanged after step [0-9]+\n\Z")
        return int(done.stdout.split()[-1])

    def refuse(self, expected, *arguments):
        done = self.run_program("tracks", "runs/small", *arguments, status=1)
        self.assertIn(expected, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_tracks_of_a_running_job_are_switched(self):
        process = self.begin()
        self.assertEqual(self.list(), ["loss every 100 to csv"])
        first = self.change("--add", " hidden.error  form stats every 10 steps to csv ")
        self.assertEqual(self.list(), ["loss every 100 to csv", ADDED])
        self.refuse("there is such a track", "--add", ADDED)
        self.refuse("there is no such track", "--remove", "hidden.error")
        last = self.change("--remove", ADDED, "--add", "*.kernel.gradient.spectral_norm every 50 to csv")
        again = self.change("--add", ADDED)
        self.assertEqual(self.list(), ["loss every 100 to csv", ADDED, "*.kernel.gradient.spectral_norm every 50 to csv"])
        time.sleep(0.3)
        process.send_signal(2)
        self.assertEqual(process.wait(), 130)
        self.assertFalse(self.exists("runs", "small", "tracks.request"))
        with open(self.path("runs", "small", "stats.csv"), encoding="utf-8") as file:
            steps = [int(line.split(",")[1]) for line in file if ",hidden.error," in line]
        ranges = list(range(first // 10 * 10 + 10, last + 1, 10))
        self.assertEqual(steps[:len(ranges)], ranges)
        rest = steps[len(ranges):]
        self.assertEqual(rest, list(range(again // 10 * 10 + 10, rest[-1] + 1, 10)))
        with open(self.path("runs", "small", "metrics.csv"), encoding="utf-8") as file:
            self.assertIn("hidden.kernel.gradient.spectral_norm", file.readline())
        self.assertEqual([(count, text) for _, count, text in self.events()], [
            (1, "added: " + ADDED), (0, f"refused: {ADDED}: there is such a track"),
            (0, "refused: hidden.error: there is no such track"), (1, "removed: " + ADDED),
            (1, "added: *.kernel.gradient.spectral_norm every 50 to csv"), (1, "added: " + ADDED)])
        self.assertEqual([step for step, count, _ in self.events() if count], [first, last, last, again])
        self.refuse("runs/small is interrupted: only of a run that is being written", "--add", "hidden.output")

    def test_what_is_wrong_does_not_reach_the_job(self):
        process = self.begin()
        for track, expected in (
            ("loss evry 10", "there is no word 'evry'; did you mean every?"),
            ("loss every", "every: a value is missing"),
            ("loss every 0", "every: expected a whole number of at least 1, not '0'"),
            ("loss every 99999999999999999999", "every: expected a whole number"),
            ("loss every 10 every 20", "every is given twice"),
            ("loss to csv to npy", "to is given twice"),
            ("loss at 1,,3", "at: expected a whole number of at least 1, not ''"),
            ("loss start 5 end 2", ".end (2) is before .start (5)"),
            ("loss form histogramm", "there is no form 'histogramm'; did you mean histogram?"),
            ("loss form histogram to npy", "npy cannot write the form histogram"),
            ("loss to cvs", 'there is no sink "cvs"; did you mean csv?'),
            ("loss when loss > > 1", "a number, a signal or ( is expected here"),
            ("loss when", "when: of what?"),
            ("loss history 3", ".history is the time before a condition holds"),
            ("", "no signal is named"),
            ("loss\nadd hidden.output", "byte 5 is a control character"),
            ("x" * 501, "a text of more than 500 bytes"),
        ):
            self.refuse(expected, "--add", "hidden.output", "--add", track)
        self.assertEqual(self.events(), [])
        self.assertEqual(self.list(), ["loss every 100 to csv"])
        self.run_program("tracks", "runs/none", "--add", "loss", status=1)
        self.run_program("tracks", status=2)
        self.assertIsNone(process.poll())

    def test_a_request_that_somebody_else_wrote_is_refused(self):
        process = self.begin()
        self.write("runs/small/draft", "add loss every\nwhat\nadd hidden.output every 7 to csv\nadd x to cvs\n")
        os.rename(self.path("runs", "small", "draft"), self.path("runs", "small", "tracks.request"))
        while len(self.events()) < 4:
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        texts = [text for _, _, text in self.events()]
        self.assertIn("added: hidden.output every 7 to csv", texts)
        self.assertEqual(sum(text.startswith("refused: ") for text in texts), 3, texts)


if __name__ == "__main__":
    unittest.main(verbosity=2)
