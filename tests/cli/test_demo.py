"""The demo: reads digits at 97 % or better, and every kind of file is there."""
import os
import re
import unittest

import numpy
import pandas

from program import Case, SOURCE


class Demo(Case):
    def test_the_demo(self):
        done = self.run_program("train", os.path.join(SOURCE, "examples", "demo", "demo.yaml"))
        metrics = pandas.read_csv(self.path("runs", "demo", "metrics.csv"))
        self.assertGreaterEqual(metrics.val_accuracy.iloc[-1], 0.97)
        self.assertEqual(len(metrics), 12)
        self.assertEqual(numpy.load(self.path("runs", "demo", "conv2.kernel.npy")).shape,
                         (12, 3, 3, 16, 32))
        names = os.listdir(self.path("runs", "demo"))
        self.assertTrue(any(name.startswith("events.out.tfevents.") for name in names))
        for name in ("run.db", "stats.csv", "predictions.csv", "images", "model.safetensors"):
            self.assertIn(name, names)
        page = done.stdout[done.stdout.index("540 steps in"):]
        self.assertRegex(page, r"val_accuracy +9[789]\.")
        for layer in ("conv1", "conv2", "pool", "flatten", "dropout", "hidden", "logits"):
            self.assertRegex(page, rf"(?m)^  {layer} +[▁▂▃▄▅▆▇█]+  \d")
        commands = re.search(r"Next\n((?:  .*\n)+)", page).group(1).splitlines()
        self.assertEqual(len(commands), 3)
        for command in commands[:2]:
            self.run_program(*command.split()[1:])
        self.assertTrue(self.exists("weights.csv"))


if __name__ == "__main__":
    unittest.main()
