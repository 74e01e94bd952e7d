"""What `watch` warns of, and what it leaves behind when it raises."""

import os
import tempfile
import unittest
import warnings

import torch
import torch.nn.functional as F
from torch import nn

import tapedeck


class Watching(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self, steps=12, cleared=False, detached=False, **options):
        """The texts of the warnings."""
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            options.setdefault("every", 1)
            with tapedeck.watch(self.model, os.path.join(self.folder, "run"), optimizer=self.optimizer, **options) as deck:
                for _ in range(steps):
                    self.optimizer.zero_grad()
                    x = torch.randn(32, 8)
                    loss = F.cross_entropy(self.model(x), (x[:, 0] > 0).long())
                    if not detached:
                        loss.backward()
                    if cleared:
                        self.optimizer.zero_grad()
                    self.optimizer.step()
                    deck.log(loss=loss)
                    deck.step()
        self.deck = deck
        return [str(w.message) for w in found if issubclass(w.category, tapedeck.RecordingWarning)]

    def test_nothing_is_warned_of(self):
        self.assertEqual(self.train(), [])
        self.assertEqual(self.train(form="stats", every=5), [])

    def test_gradients_that_are_cleared(self):
        found = self.train(cleared=True)
        self.assertEqual(len([text for text in found if "cleared before the optimizer steps" in text]), 2, found)

    def test_a_loss_without_gradients(self):
        found = self.train(detached=True)
        self.assertTrue(any("no gradient reaches a parameter" in text for text in found), found)

    def test_a_schedule_longer_than_the_run(self):
        (text,) = self.train(every=1000)
        self.assertIn("every 1000 steps: nothing was recorded, because none of the run's 12 steps was due", text)

    def test_a_watch_that_raises_leaves_no_folder(self):
        for wrong in ({"log": "gradent"}, {"form": "histgram"}, {"to": "cvs"}, {"evry": 5}):
            with self.assertRaises((TypeError, ValueError, tapedeck.Error)):
                tapedeck.watch(self.model, os.path.join(self.folder, "run"), optimizer=self.optimizer, **wrong)
        self.assertEqual(os.listdir(self.folder), [])

    def test_settings(self):
        self.train(config={"lr": 0.1}, tags=["a", "b"], group="g", name="n")
        run = tapedeck.Run(self.deck.folder)
        self.assertEqual((run.config, run.tags, run.group, run.title), ({"lr": 0.1}, ["a", "b"], "g", "n"))

    def test_the_tensors_of_all_steps(self):
        self.train(form="tensor", every=4)
        run = tapedeck.Run(self.deck.folder)
        self.assertEqual(run["0.weight"].array().shape, (3, 16, 8))
        torch.testing.assert_close(torch.tensor(run["0.weight"].array()[-1]), self.model[0].weight.detach(), rtol=0, atol=0)


if __name__ == "__main__":
    unittest.main()
