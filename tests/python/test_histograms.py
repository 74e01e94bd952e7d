"""Histograms in run.db: few bytes, the same numbers for whoever reads them, NumPy's counts."""

import json
import os
import sqlite3
import subprocess
import tempfile
import unittest

import numpy as np

import tapedeck

VERSION_2 = """
CREATE TABLE text_of(signal INTEGER, step INTEGER, bins TEXT, PRIMARY KEY(signal, step)) WITHOUT ROWID;
INSERT INTO text_of SELECT signal, step, bins FROM histogram;
DROP VIEW histogram;
DROP TABLE histogram_packed;
ALTER TABLE text_of RENAME TO histogram;
ALTER TABLE signal DROP COLUMN layout;
ALTER TABLE signal DROP COLUMN sequence;
ALTER TABLE signal DROP COLUMN placement;
DROP TABLE replayed;
PRAGMA user_version=2;
"""


class Histograms(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        generator = np.random.default_rng(7)
        self.values = {
            "weights": generator.standard_normal((256, 256)).astype("f4") * 0.02,
            "all kinds": np.float32([0, -0.0, 1, -1, 1e-45, -1e-45, 2**-126, -(2**-126), 3e38, -3e38, 0.1, -7]),
            "relu": np.maximum(generator.standard_normal(3000), 0),
            "empty": np.zeros((0, 4), "f4"),
        }
        with tapedeck.Deck(os.path.join(self.folder.name, "run")) as deck:
            deck.track("*", form="histogram", to="sqlite")
            for _ in range(3):
                for name, value in self.values.items():
                    deck.record(name, value)
                deck.step()
        self.run_folder = deck.folder
        self.database = sqlite3.connect(os.path.join(deck.folder, "run.db"))
        self.addCleanup(self.database.close)

    def from_sql(self, name, step):
        (text,), = self.database.execute("SELECT bins FROM histogram JOIN signal ON id = signal WHERE name = ? AND step = ?",
                                         (name, step)).fetchall()
        return np.array(json.loads(text)).reshape(-1, 3)

    def from_run(self, name, step):
        bins = tapedeck.Run(self.run_folder)[name].at(step)
        return np.stack([bins["left"], bins["right"], bins["count"]], axis=1)

    def check(self, bins, values):
        values = np.asarray(values, "f4").astype("f8").ravel()
        self.assertEqual(bins[:, 2].sum(), len(values))
        for left, right, count in bins:
            low, high = left * (1 - 1e-14), right * (1 - 1e-14)  # SQL has 15 digits
            inside = (values >= low) & (values < high) if left >= 0 else (values > low) & (values <= high) & (values < 0)
            self.assertEqual(inside.sum(), count, (left, right))

    def test_counts_are_numpys_by_every_way(self):
        for name, values in self.values.items():
            with self.subTest(name):
                self.check(self.from_run(name, 2), values)
                self.check(self.from_sql(name, 2), values)
                np.testing.assert_allclose(self.from_sql(name, 3), self.from_run(name, 3), rtol=1e-14)

    def test_a_tenth_of_the_room(self):
        packed, text = self.database.execute(
            "SELECT sum(length(p.bins)), sum(length(h.bins)) FROM histogram_packed p JOIN histogram h USING(signal, step)"
        ).fetchone()
        self.assertLess(10 * packed, text)

    def test_runs_of_version_2_are_read_and_go_on(self):
        before = {name: self.from_run(name, 2) for name in self.values}
        self.database.executescript(VERSION_2)
        self.database.close()
        for name, bins in before.items():
            np.testing.assert_allclose(self.from_run(name, 2), bins, rtol=1e-14)
        with tapedeck.Deck(self.run_folder, resume=3) as deck:
            deck.track("*", form="histogram", to="sqlite")
            deck.record("weights", self.values["weights"])
            deck.step()
        self.database = sqlite3.connect(os.path.join(self.run_folder, "run.db"))
        self.assertEqual(self.database.execute("PRAGMA user_version").fetchone(), (5,))
        for step in (1, 4):
            np.testing.assert_allclose(self.from_run("weights", step), before["weights"], rtol=1e-14)
            self.check(self.from_sql("weights", step), self.values["weights"])

    def test_damaged_bytes_are_said(self):
        for i, damage in enumerate([b"", b"\x01\x80", b"\x01\x00", b"\x01\x05\x00", b"\x01\x80\x20\x01", b"\x02\x01\x01",
                                    b"\x01\x00" + b"\xff" * 12 + b"\x01", b"[[1,2", b"\x01\xff\x1f\x01\x00\x01"]):
            with self.subTest(damage):
                self.database.execute("UPDATE histogram_packed SET bins = ? WHERE step = 2 AND signal ="
                                      " (SELECT id FROM signal WHERE name = 'weights')", (damage,))
                self.database.commit()
                shown = subprocess.run([os.environ["TAPEDECK"], "export", self.run_folder, "--to", "csv", "--out",
                                        os.path.join(self.folder.name, f"csv-{i}")], capture_output=True, text=True)
                self.assertIn("weights: a histogram is damaged", shown.stderr)

    def test_arrays_of_all_steps(self):
        out = os.path.join(self.folder.name, "arrays")
        subprocess.run([os.environ["TAPEDECK"], "export", self.run_folder, "--to", "npy", "--out", out], check=True,
                       capture_output=True)
        for name in ("weights", "relu"):
            bins = np.load(os.path.join(out, f"{name}.histogram.npy"))
            steps = np.load(os.path.join(out, f"{name}.histogram.steps.npy"))
            self.assertEqual(bins.shape, (len(steps), 3))
            for step in (1, 2, 3):
                np.testing.assert_array_equal(bins[steps == step], self.from_run(name, step))
        self.assertEqual([name for name in os.listdir(out) if "@" in name], [])


if __name__ == "__main__":
    unittest.main()
