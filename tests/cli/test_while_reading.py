"""Training that begins while its data is still being read: the same run, and errors that come later."""
import os
import sqlite3
import unittest

from program import Case, write_png

EXPERIMENT = """
name: reading
seed: 4
threads: 1
data: {{train: {train}, batch: 16{more}}}
model: [{{flatten: }}, {{dense: {{units: 3}}}}]
train: {{loss: sparse_categorical_crossentropy, from_logits: true, optimizer: sgd, epochs: 2}}
record: [{{what: loss, to: sqlite}}]
"""
LARGE = ", memory: 16K"  # beyond this much, data is large


def rows(count=4000, bad=None):
    lines = ["a,b,y,c"]
    for i in range(count):
        lines.append(f"{i % 13},{i / 100},{('cat', 'dog', 'eel')[i % 3]},0.{i}")
    if bad:
        lines[-2] = bad
    return "\n".join(lines) + "\n"


class WhileReading(Case):
    def assert_same_run(self, train, more=""):
        folders = ("first", "meanwhile")
        for out, how in zip(folders, ("", LARGE)):
            self.train(EXPERIMENT.format(train=train, more=more + how), "--out", out)
        self.assertEqual(*(self.bytes(out, "reading", "model.safetensors") for out in folders))
        losses = [sqlite3.connect(self.path(out, "reading", "run.db")).execute(
            "SELECT step, value FROM scalar ORDER BY step").fetchall() for out in folders]
        self.assertGreater(len(losses[0]), 10)
        self.assertEqual(*losses)

    def assert_fails(self, more, sentence):
        """With status 1, or 2 where all of it was read, and found wrong, before the first step."""
        self.write("e.yaml", EXPERIMENT.format(train="d.csv", more=", label: y" + more + LARGE))
        training = self.start("train", "e.yaml")
        self.assertIn(sentence, training.communicate(timeout=600)[1])
        self.assertIn(training.returncode, (1, 2))
        if training.returncode == 1:
            self.assertIn("failed", self.run_program("show", "runs/reading").stdout)
        for arguments in (("train", "e.yaml", "--dry-run"), ("check", "e.yaml")):
            self.assertIn(sentence, self.run_program(*arguments, status=2).stderr)

    def test_a_csv_file_trains_to_the_same_bits(self):
        self.write("d.csv", rows())
        self.assert_same_run("d.csv", ", label: y, validation: 0.2")

    def test_a_folder_of_images_trains_to_the_same_bits(self):
        for i in range(120):
            os.makedirs(self.path("pictures", "abc"[i % 3]), exist_ok=True)
            write_png(self.path("pictures", "abc"[i % 3], f"{i}.png"), memoryview(bytes([i] * 36)).cast("B", (6, 6)))
        self.assert_same_run("pictures", ", scale: 0.01")

    def test_a_wrong_row_ends_training_and_leaves_a_run(self):
        self.write("d.csv", rows(300000, "1,2,dog,3.x"))
        self.assert_fails(", shuffle: false",
                          "d.csv line 300000 (row 299999), column 'c': a number was expected, found '3.x'")

    def test_missing_values_are_counted_all_the_same(self):
        self.write("d.csv", rows(4000, "1,,dog,3"))
        self.assert_fails("", "d.csv: 1 value is missing (b: 1, the first in line 4000)")


if __name__ == "__main__":
    unittest.main()
