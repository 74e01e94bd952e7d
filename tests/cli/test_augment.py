"""Augmented images: in training only, and the same bits whatever the threads, after resuming and in a replay."""
import os
import unittest

import numpy
import pandas

from program import Case, DIGITS

TEXT = f"""
name: a
seed: 5
threads: 1
data:
  train: {DIGITS}
  validation: 0.2
  input: [8, 8, 1]
  label: last
  scale: 0.0625
  batch: 64
  augment: {{flip: horizontal, shift: 10%, rotate: 0.05, zoom: 0.1, crop: 1, brightness: 0.1, contrast: 0.2}}
model:
  - conv2d: {{name: conv, filters: 4, kernel: 3, activation: relu}}
  - flatten:
  - dense: {{units: 10}}
train:
  loss: sparse_categorical_crossentropy
  from_logits: true
  optimizer: {{adam: {{learning_rate: 0.01}}}}
  epochs: 4
  checkpoint: {{every: 9 steps, keep: 1}}
record:
  - {{what: [loss, val_loss], every: 1 step, to: [csv]}}
  - {{what: input, every: 7 steps, form: tensor, to: [npy]}}
"""


class Augment(Case):
    def files(self, run):
        return [self.bytes("runs", run, name) for name in ("model.safetensors", "input.npy")]

    def test_resumed_and_threaded_runs_have_the_same_bits(self):
        self.train(TEXT, "--quiet")
        self.train(TEXT, "--quiet", "--set", "threads=2")
        self.assertEqual(self.files("a"), self.files("a-2"))
        self.train(TEXT, "--quiet", "--set", "train.steps=31")  # in the middle of an epoch
        self.run_program("train", "--resume", "runs/a-3", "--set", "train.steps=92", "--quiet")
        self.assertEqual(self.files("a"), self.files("a-3"))

    def test_images_are_changed_and_validation_is_not(self):
        record = TEXT.replace("epochs: 4", "epochs: 2")
        self.train(record, "--quiet")
        self.train(record, "--quiet", "--set", "data.augment={}")
        ours, plain = (numpy.load(self.path("runs", run, "input.npy")) for run in ("a", "a-2"))
        self.assertEqual(ours.shape, plain.shape)
        changed = numpy.abs(ours - plain).reshape(len(ours), -1).max(axis=-1)
        self.assertTrue((changed > 0.1).all())
        self.assertLess(numpy.abs(ours).max(), 2)
        self.train(record, "--quiet", "--set", "train.optimizer={sgd: {learning_rate: 0}}")
        still = pandas.read_csv(self.path("runs", "a-3", "metrics.csv")).val_loss.dropna()
        self.assertEqual(len(set(still)), 1)

    def test_what_makes_no_sense_is_said(self):
        for setting, part in (("data.augment={rotat: 1}", "did you mean 'rotate'?"),
                              ("data.augment={zoom: 1}", "data.augment.zoom: is 1, it must be 0.99 or less"),
                              ("data.augment={flip: both}", "no flip 'both'"),
                              ("data.input=[64]", "are no images")):
            errors = self.train(TEXT, "--set", setting, status=2).stderr
            self.assertIn(part, errors)
            self.assertFalse(os.path.exists(self.path("runs")))


if __name__ == "__main__":
    unittest.main()
