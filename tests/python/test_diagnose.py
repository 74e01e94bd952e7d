"""What `tapedeck diagnose` and `compare` say of runs that a Python program recorded: no framework is needed."""

import json
import os
import subprocess
import tempfile
import unittest

import numpy as np

import tapedeck

TAPEDECK = os.environ["TAPEDECK"]
random = np.random.default_rng(0)


def normal(_=0):
    return random.normal(size=(8, 16)).astype("f4")


def relu(_=0):
    return np.maximum(normal(), 0)


def zeros(_=0):
    return np.zeros((8, 16), "f4")


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def record(self, name="run", outputs=None, errors=None, loss=0.7, metric="loss", notes=None):
        """A run of 40 steps; outputs and errors are functions by the place of their layer."""
        deck = tapedeck.Deck(os.path.join(self.folder, name))
        deck.track("*", form="stats", to="csv")
        for key, value in (notes or {}).items():
            deck.note(key, value)
        signals = []
        for kind, layers in (("output", outputs or {}), ("error", errors or {})):
            for place, make in layers.items():
                signal = deck._native.signal(f"{place}.{kind}", kind=kind, layer=str(place), order=place, batched=True)
                signals.append((signal, make))
        for i in range(40):
            for signal, make in signals:
                signal.put(make(i))
            deck.log({metric: loss(i) if callable(loss) else loss})
            deck.step()
        deck.finish()
        return deck.folder

    def run_program(self, *arguments):
        return subprocess.run([TAPEDECK, *arguments], capture_output=True, text=True, timeout=120)

    def diagnosed(self, folder, *options):
        return json.loads(self.run_program("diagnose", folder, "--json", *options).stdout)


class Checks(Case):
    def test_what_could_not_be_checked_is_not_counted_as_unusual(self):
        found = self.diagnosed(self.record(loss=lambda i: 1 / (i + 1)))
        notes = "\n".join(found["notes"])
        self.assertRegex(notes, r"no tensors were recorded: \d+ of 93 checks could not run; record statistics of \*\.output,")
        self.assertRegex(notes, r"no facts about the training loop: [45]\d of 93 checks could not run; tapedeck.watch")
        self.assertEqual(found["rules"] + found["skipped"], 93)
        self.assertGreater(found["skipped"], 60)
        page = self.run_program("diagnose", os.path.join(self.folder, "run")).stdout
        self.assertIn(f"{found['rules']} of 93 checks: nothing unusual", page)

    def test_no_check_could_run(self):
        folder = self.record(metric="accuracy")
        self.assertIn("none of 93 checks could run", self.run_program("diagnose", folder).stdout)
        self.assertIn("no metric named loss", "\n".join(self.diagnosed(folder)["notes"]))

    def test_only_rules_that_were_asked_for_are_missed(self):
        folder = self.record()
        found = self.diagnosed(folder, "--only", "vanishing_gradient,plateau")
        self.assertEqual((found["rules"], found["skipped"]), (1, 1))
        self.assertIn("1 of 2 checks could not run", found["notes"][0])

    def test_what_was_recorded_is_not_missed(self):
        folder = self.record(outputs={1: relu}, errors={1: normal, 2: normal}, loss=lambda i: 1 / (i + 1))
        notes = "\n".join(self.diagnosed(folder)["notes"])
        self.assertIn("no gradients, weights were recorded", notes)

    def test_a_run_of_python_has_no_experiment_file(self):
        self.assertNotIn("experiment.yaml", self.run_program("diagnose", self.record()).stdout)

    def test_kinds_of_layers_are_not_counted_by_updates(self):
        loop = {"updates": 60, "evaluating": {"count": 60, "since": 1, "kinds": ["BatchNorm1d"]}}
        page = self.run_program("diagnose", self.record(notes={"loop": json.dumps(loop)})).stdout
        self.assertIn("it has BatchNorm1d\n", page)


class Activations(Case):
    def finding(self, **what):
        return self.diagnosed(self.record(**what))["findings"][0]

    def test_dead_relus_do_not_call_for_relu(self):
        found = self.diagnosed(self.record(outputs={1: relu, 3: zeros}, errors={1: zeros, 4: normal}))["findings"]
        self.assertEqual([f["cause"] for f in found], ["plateau", "learning_rate_too_high"])  # a symptom, and its maybe
        found = found[1]
        self.assertIn("dead_relu", found["symptoms"])
        self.assertIn("leaky_relu", found["remedy"])

    def test_relu_is_no_remedy_where_it_is(self):
        found = self.finding(outputs={1: relu, 3: relu}, errors={1: lambda i: 1e-6 * normal(), 4: normal})
        self.assertEqual(found["cause"], "missing_normalization")
        self.assertNotIn("relu", found["remedy"])

    def test_sigmoids_call_for_relu(self):
        found = self.finding(outputs={1: lambda i: 1 / (1 + np.exp(normal()))},
                             errors={1: lambda i: 1e-6 * normal(), 4: normal})
        self.assertEqual(found["cause"], "wrong_hidden_activation")
        self.assertIn("relu", found["remedy"])


class Settings(Case):
    def test_compare_shows_settings_that_differ(self):
        a = self.record("a", notes={"experiment.lr": 0.1, "experiment.seed": 3, "optimizer": "SGD (\n  lr: 0.1\n)"})
        b = self.record("b", notes={"experiment.lr": 0.2, "experiment.seed": 3, "optimizer": "SGD (\n  lr: 0.2\n)"})
        page = self.run_program("compare", a, b).stdout
        for line in ("a: experiment.lr: 0.1", "b: experiment.lr: 0.2", "a: optimizer: lr: 0.1", "b: optimizer: lr: 0.2"):
            self.assertIn(f"  {line}\n", page)
        self.assertNotIn("seed", page)
        found = json.loads(self.run_program("compare", a, b, "--json").stdout)
        self.assertIn({"run": 1, "text": "experiment.lr: 0.2"}, found["differences"])

    def test_long_values_that_differ_at_their_end(self):
        a = self.record("a", notes={"experiment.layers": "x" * 5000 + "a"})
        b = self.record("b", notes={"experiment.layers": "x" * 5000 + "b"})
        self.assertIn("5001 bytes", self.run_program("compare", a, b).stdout)

    def test_runs_lists_settings(self):
        self.record("a", notes={"experiment.lr": 0.1, "experiment.kind": "big", "tags": "x,y", "group": "first"})
        (row,) = json.loads(self.run_program("runs", self.folder, "--json").stdout)
        self.assertEqual(row["config"], {"lr": 0.1, "kind": "big"})
        self.assertEqual((row["tags"], row["group"], row["title"]), (["x", "y"], "first", None))


if __name__ == "__main__":
    unittest.main()
