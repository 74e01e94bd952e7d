"""Run.change_tracks: other tracks for a deck of another process, or thread."""

import os
import tempfile
import threading
import unittest

import numpy

import tapedeck


class Tracks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "run")

    def train(self, deck, until):
        """A step each millisecond, two of them an epoch, until the event is set."""
        while not until.wait(0.001):
            deck.log(loss=1.0)
            deck.record("h.output", numpy.full((2, 3), float(deck.steps + 1), numpy.float32))
            deck.step()
            if deck.steps % 2 == 0:
                deck.end_epoch()

    def test_tracks_of_a_running_deck_are_switched(self):
        deck = tapedeck.Deck(self.folder, metrics=0)
        deck.track("loss", every=10, to="csv")
        until = threading.Event()
        thread = threading.Thread(target=self.train, args=(deck, until))
        thread.start()
        try:
            deck.flush()
            run = tapedeck.Run(self.folder)
            added = "h.output every 10 form rows to sqlite"
            first = run.change_tracks([added])
            self.assertIn(added, run.refresh().tracks)
            last = run.change_tracks(remove=[added])
            self.assertNotIn(added, run.refresh().tracks)
            by_epoch = run.change_tracks(["h.output every 1 epochs form stats to csv"])
            with self.assertRaisesRegex(RuntimeError, "there is no such track"):
                run.change_tracks(remove=[added])
            with self.assertRaisesRegex((RuntimeError, ValueError), "there is no word 'evry'; did you mean every?"):
                run.change_tracks(["loss evry 3"])
            with self.assertRaises(TypeError):
                run.change_tracks("loss")
            while deck.steps < by_epoch + 1500:  # the deck takes note of such a track within a second
                until.wait(0.01)
        finally:
            until.set()
            thread.join()
            deck.finish()
        run = tapedeck.Run(self.folder)
        with open(os.path.join(self.folder, "stats.csv"), encoding="utf-8") as file:
            epochs = [int(line.split(",")[1]) for line in file if ",h.output," in line]
        self.assertTrue(epochs and all(step % 2 == 0 for step in epochs), epochs[:5])
        self.assertEqual(epochs[-1], deck.steps // 2 * 2)
        events = [(event["kind"], event["text"].split(":")[0]) for event in run.events if event["kind"] == "tracks"]
        self.assertEqual(events, [("tracks", word) for word in ("added", "removed", "added", "refused")])
        self.assertLess(first, last)
        with self.assertRaisesRegex((RuntimeError, ValueError), "is finished: only of a run that is being written"):
            run.change_tracks(["loss"])


if __name__ == "__main__":
    unittest.main()
