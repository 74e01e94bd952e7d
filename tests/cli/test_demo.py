"""The demo: reads digits at 97 % or better, and every kind of file is there."""
import os
import re
import unittest

import numpy
import pandas

from program import Case, DIGITS, SOURCE


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

    def test_the_demo_of_the_program_needs_no_clone(self):
        done = self.run_program("demo")
        self.assertIn("tapedeck view tapedeck-demo/runs", done.stdout)
        self.run_program("train", os.path.join(SOURCE, "examples", "demo", "demo.yaml"))
        own = pandas.read_csv(self.path("tapedeck-demo", "runs", "demo", "metrics.csv"))
        pandas.testing.assert_frame_equal(own, pandas.read_csv(self.path("runs", "demo", "metrics.csv")))
        with open(self.path("tapedeck-demo", "digits.csv.gz"), "rb") as file, open(DIGITS, "rb") as source:
            self.assertEqual(file.read(), source.read())

    def test_an_edited_experiment_is_kept(self):
        self.run_program("demo", "my demo")
        path = self.path("my demo", "demo.yaml")
        with open(path, encoding="utf-8") as file:
            text = file.read().replace("epochs: 12", "epochs: 2")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.assertIn("tapedeck view 'my demo/runs'", self.run_program("demo", "my demo").stdout)
        self.assertEqual(len(pandas.read_csv(self.path("my demo", "runs", "demo-2", "metrics.csv"))), 2)

    def test_a_folder_that_cannot_be_made_is_named(self):
        with open(self.path("file"), "w", encoding="utf-8"):
            pass
        done = self.run_program("demo", "file/demo", status=1)
        self.assertRegex(done.stderr, "file/demo: Not a directory")
        self.run_program("demo", "a", "b", status=2)


if __name__ == "__main__":
    unittest.main()
