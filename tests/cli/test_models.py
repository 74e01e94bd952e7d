"""Saved models in experiments: training goes on from a file, with layers frozen, and resumes."""
import os
import unittest

import numpy

from program import Case, SMALL

LAYERS = SMALL[SMALL.index("model:"):SMALL.index("train:")]
RECORD = """
record:
  - {what: [loss, accuracy], to: [csv]}
"""


def from_file(text=SMALL, model="{file: first/small/model.safetensors}"):
    return text.replace(LAYERS, f"model: {model}\n")


class ModelFile(Case):
    def setUp(self):
        super().setUp()
        self.train(SMALL, "--quiet", "--out", "first")

    def weights(self, run, name):
        self.run_program("weights", run, "--to", "w.npz")
        return numpy.load(self.path("w.npz"))[name]

    def test_training_goes_on_with_frozen_layers_as_they_were(self):
        before = self.weights("first/small", "hidden.kernel"), self.weights("first/small",
                                                                           "logits.kernel")
        self.train(from_file(model="{file: first/small, frozen: ['hid*']}"), "--quiet")
        numpy.testing.assert_array_equal(self.weights("runs/small", "hidden.kernel"), before[0])
        self.assertTrue((self.weights("runs/small", "logits.kernel") != before[1]).any())

    def test_frozen_says_exactly_which_layers(self):
        self.train(from_file(model="{file: first/small, frozen: [hidden]}"), "--quiet")
        kept = self.weights("runs/small", "hidden.kernel")
        self.train(from_file(model="{file: runs/small}"), "--quiet")
        numpy.testing.assert_array_equal(self.weights("runs/small-2", "hidden.kernel"), kept)
        self.train(from_file(model="{file: runs/small, frozen: []}"), "--quiet")
        self.assertTrue((self.weights("runs/small-3", "hidden.kernel") != kept).any())

    def test_the_run_needs_no_other_file_and_resumes_bit_for_bit(self):
        text = from_file(model="{file: first/small/model.safetensors, frozen: [logits]}") + RECORD
        self.train(text.replace("epochs: 4", "epochs: 8"), "--quiet")
        self.train(text, "--quiet")
        os.remove(self.path("first", "small", "model.safetensors"))
        os.rename(self.path("runs", "small-2"), self.path("elsewhere"))
        self.run_program("train", "--resume", "elsewhere", "--set", "train.epochs=8", "--quiet")
        for name in ("metrics.csv", "model.safetensors"):
            self.assertEqual(self.bytes("runs", "small", name), self.bytes("elsewhere", name))

    def test_weights_are_kept_in_the_run_too(self):
        self.run_program("weights", "first/small", "--to", "w.csv")
        self.train(SMALL + "weights: w.csv\n", "--quiet")
        os.remove(self.path("w.csv"))
        self.run_program("train", "--resume", "runs/small", "--set", "train.epochs=5", "--quiet")

    def test_problems_name_the_line(self):
        def problem(model, text=SMALL):
            return self.train(from_file(text, model), status=2).stderr
        self.assertRegex(problem("{file: first/small, frozen: [hidden, logit]}"),
                         r"experiment.yaml:9: model.frozen: no layer 'logit' in .*did you mean "
                         r"'logits'\?")
        self.assertIn("nothing to train", problem("{file: first/small, frozen: '*'}"))
        self.assertIn("did you mean 'frozen'?", problem("{file: first/small, frosen: []}"))
        self.assertRegex(problem("{file: nowhere}"), "experiment.yaml:9: model.file: no file")
        self.write("text.keras", "neither zip nor anything else\n")
        self.assertRegex(problem("{file: text.keras}"),
                         "experiment.yaml:9: model.file: .*text.keras: no model file")
        self.assertRegex(
            problem("{file: first/small}", SMALL.replace("two_moons", "sine").replace(
                "sparse_categorical_crossentropy", "mse")),
            r"it reads examples of shape \(2,\), and data has")


if __name__ == "__main__":
    unittest.main()
