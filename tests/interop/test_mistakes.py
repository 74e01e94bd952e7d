"""Mistakes in model, loss, optimizer and data of a PyTorch loop: each is found, and the same loop without it raises nothing.

A row trains a small network twice, with `wrong` true and false. The seed of an unseen run comes from $TD_SEED.
"""

import json
import os
import subprocess
import tempfile
import unittest

import torch
from mistakes import ROWS, one_row_is_nan
from mistakes_healthy import HEALTHY

torch.set_num_threads(1)
SEED = int(os.environ.get("TD_SEED", "1"))


class Mistakes(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def diagnose(self, function, *arguments):
        torch.manual_seed(SEED)
        run = function(os.path.join(self.folder.name, f"{function.__name__}{arguments}"), *arguments)
        out = subprocess.run([os.environ["TAPEDECK"], "diagnose", run, "--json"], capture_output=True, text=True, timeout=60)
        self.assertIn(out.returncode, (0, 1), out.stderr)
        found = json.loads(out.stdout)
        self.assertNotIn("facts about the loop end", " ".join(found["notes"]))
        return [f for f in found["findings"] if f["confidence"] != "maybe"]

    def test_each_mistake_is_found_first(self):
        for name, (cause, layer, function) in ROWS.items():
            with self.subTest(name):
                found = self.diagnose(function, True)
                self.assertIn(cause, [f["cause"] for f in found[:2]])
                if layer is not None:
                    self.assertEqual(next(f["layer"] for f in found if f["cause"] == cause), layer)

    def test_the_same_without_the_mistake_raises_nothing(self):
        for name, (_, _, function) in ROWS.items():
            with self.subTest(name):
                self.assertEqual([f["cause"] for f in self.diagnose(function, False)], [])

    def test_healthy_trainings_raise_nothing(self):
        for name, function in HEALTHY.items():
            with self.subTest(name):
                self.assertEqual([f["cause"] for f in self.diagnose(function)], [])

    def test_the_row_that_is_not_finite_is_named(self):
        found = self.diagnose(one_row_is_nan, True)
        self.assertEqual(found[0]["origin"]["cause"], "input")
        self.assertEqual(found[0]["since_step"], found[0]["evidence"][0]["step"])


if __name__ == "__main__":
    unittest.main()
