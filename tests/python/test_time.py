"""Runs of `tapedeck train` executed again from Python: replay, origin, diff."""
import os
import subprocess
import tempfile
import unittest

import numpy as np

import tapedeck

EXPERIMENT = """
name: small
data: {train: x.npy, labels: y.npy, batch: 8, shuffle: false}
model: [{dense: {name: hidden, units: 4, activation: tanh}}, {dense: {name: out, units: 1}}]
train: {loss: mse, optimizer: {sgd: {learning_rate: RATE}}, epochs: 3}
"""


class Time(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.x = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)

    def train(self, rate="0.01"):
        np.save(os.path.join(self.folder.name, "x.npy"), self.x)
        np.save(os.path.join(self.folder.name, "y.npy"), self.x[:, :1])
        with open(os.path.join(self.folder.name, "e.yaml"), "w", encoding="utf-8") as file:
            file.write(EXPERIMENT.replace("RATE", rate))
        done = subprocess.run([os.environ["TAPEDECK"], "train", "e.yaml", "--quiet"], cwd=self.folder.name,
                              capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        runs = os.path.join(self.folder.name, "runs")
        return tapedeck.Run(max((os.path.join(runs, name) for name in os.listdir(runs)), key=os.path.getmtime))

    def test_replay(self):
        run = self.train()
        self.assertEqual(run.replay(4)["identical_to"], 4)
        done = run.replay(3, 5, ["hidden.output", "loss"], form="tensor", to="npy")
        self.assertEqual((done["identical_to"], done["differs_at"], done["records"] + done["kept"]), (5, 0, 6))
        self.assertEqual(run.refresh()["hidden.output"].at(4).shape, (8, 4))
        out = os.path.join(self.folder.name, "out")
        run.replay(1, 9, "loss", out=out, when="step == 7", history=1, until="step >= 7")
        self.assertEqual(list(tapedeck.Run(out)["loss"].steps), [6, 7])
        with self.assertRaisesRegex(tapedeck.Error, "^.*has 15 steps, and not 99"):
            run.replay(99)

    def test_origin(self):
        self.assertEqual(self.train().origin()["step"], 0)
        self.x[19, 1] = np.inf
        found = self.train().origin()
        self.assertEqual((found["step"], found["operation"]["phase"], found["rows"][0]["row"]), (3, "data", 19))
        with self.assertRaisesRegex(tapedeck.Error, "did you mean loss"):
            self.train().origin("spike", "lost > 3")

    def test_diff(self):
        a, b = self.train(), self.train("0.02")
        found = a.diff(b)
        self.assertEqual((found["step"], found["a"]["phase"], found["a"]["tensor"]), (1, "update", "hidden.kernel"))
        self.assertEqual(a.diff(a.folder)["step"], 0)

    def test_decks_are_compared_by_what_they_recorded(self):
        values = np.arange(6, dtype=np.float32).reshape(2, 3)

        def record(name, change):
            path = os.path.join(self.folder.name, name)
            with tapedeck.Deck(path) as deck:
                deck.track("*", form="hash,tensor", to="sqlite,npy")
                for step in range(1, 6):
                    later = values.copy()
                    later[1, 2] += change * (step >= 4)
                    deck.record("first.output", values)
                    deck.record("second.output", later)
                    deck.step()
            return tapedeck.Run(path)
        found = record("a", 0).diff(record("b", 0.5))
        self.assertEqual((found["step"], found["after"], found["signal"]), (4, 3, "second.output"))
        self.assertEqual((found["a"]["element"], found["a"]["value"], found["b"]["value"]), (5, 5.0, 5.5))
        self.assertEqual(found["differing"], 1)


if __name__ == "__main__":
    unittest.main()
