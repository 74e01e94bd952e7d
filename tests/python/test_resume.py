"""Going on with a run: what `resume` means, what is never lost, which epoch goes on."""

import contextlib
import os
import sqlite3
import tempfile
import unittest

import numpy as np

import tapedeck


class Resume(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "run")

    def train(self, steps, ends=(), **options):
        with tapedeck.Deck(self.path, **options) as deck:
            for _ in range(steps):
                deck.record("w", np.full(2, deck.steps + 1, "f4"))
                deck.log(loss=deck.steps + 1)
                deck.step(last=deck.steps + 1 in ends)
        return deck

    def losses(self, folder=None):
        return tapedeck.Run(folder or self.path)["loss"].values["value"].tolist()

    def epochs(self):
        return tapedeck.Run(self.path)["loss"].values["epoch"].tolist()

    def test_true_goes_on_after_the_last_step(self):
        for word in (True, "allow"):
            deck = self.train(5, resume=word)
            self.assertEqual(deck.folder, self.path)
        self.assertEqual(self.losses(), list(range(1, 11)))
        self.train(5, resume="must")
        self.assertEqual(self.losses(), list(range(1, 16)))
        self.assertEqual(len(np.load(os.path.join(self.path, "w.npy"))), 15)
        self.assertEqual(os.listdir(self.folder.name), ["run"])

    def test_must(self):
        with self.assertRaisesRegex(FileNotFoundError, "no run .*run to go on with"):
            self.train(1, resume="must")
        with self.assertRaises(FileNotFoundError):
            self.train(1, resume=3)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_words_that_mean_nothing(self):
        self.train(3)
        for wrong, kind in (("always", ValueError), (-2, ValueError), (1.5, TypeError)):
            with self.subTest(wrong), self.assertRaises(kind):
                self.train(1, resume=wrong)
        self.assertEqual(self.losses(), [1, 2, 3])

    def test_steps_are_lost_only_when_that_is_said(self):
        self.train(10)
        with self.assertRaisesRegex(ValueError, "6 recorded steps after step 4 would be lost"):
            self.train(1, resume=4)
        self.assertEqual(self.losses(), list(range(1, 11)))
        self.train(2, resume=np.int64(4), discard=True)
        self.assertEqual(self.losses(), [1, 2, 3, 4, 5, 6])
        copy = os.path.join(self.path, "before-resume-4")
        self.assertEqual(self.losses(copy), list(range(1, 11)))
        np.testing.assert_array_equal(tapedeck.Run(copy)["w"].at(10), [10, 10])
        self.train(1, resume=4, discard=True)
        self.assertEqual(self.losses(copy + "-2"), [1, 2, 3, 4, 5, 6])
        self.assertFalse(os.path.exists(os.path.join(copy + "-2", "before-resume-4")))
        self.assertEqual(len(tapedeck.runs(self.folder.name)), 1)

    def test_a_step_beyond_the_last_that_was_recorded(self):
        self.train(3)
        self.train(1, resume=7)
        self.assertEqual(self.losses(), [1, 2, 3, 8])

    def test_a_run_without_steps(self):
        self.train(0)
        self.train(2, resume=True)
        self.assertEqual(self.losses(), [1, 2])
        self.assertEqual(os.listdir(self.folder.name), ["run"])

    def test_epochs_go_on(self):
        self.train(5, ends=(2, 4))  # 1 1 2 2 3
        deck = self.train(3, ends=(6,), resume=True)
        self.assertEqual(self.epochs(), [1, 1, 2, 2, 3, 3, 4, 4])
        self.assertEqual(deck.epoch, 4)
        self.train(1, resume=6, discard=True)
        self.assertEqual(self.epochs(), [1, 1, 2, 2, 3, 3, 4])
        self.train(1, ends=(8,), resume=True)
        self.train(1, resume=True)
        self.assertEqual(self.epochs(), [1, 1, 2, 2, 3, 3, 4, 4, 5])

    def test_a_run_that_is_written_is_left_alone(self):
        deck = tapedeck.Deck(self.path)
        deck.log(loss=1)
        deck.step()
        deck.flush()
        with self.assertRaises(tapedeck.Error):
            tapedeck.Deck(self.path, resume=True)
        deck.finish()
        with contextlib.closing(sqlite3.connect(os.path.join(self.path, "run.db"))) as database, database:
            self.assertEqual(database.execute("SELECT count(*) FROM scalar").fetchone(), (1,))
        database.close()


if __name__ == "__main__":
    unittest.main()
