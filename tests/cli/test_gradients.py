"""tapedeck gradients: a saved model forward and back, with PyTorch's numbers."""
import csv
import json
import os
import shutil
import unittest

import numpy

from program import Case, SMALL
from test_pytorch import FIXTURES, MODELS


class Gradients(Case):
    def cnn(self):
        """A saved model with PyTorch's weights; returns PyTorch's gradients."""
        for name in ("cnn.safetensors", "cnn.input.npy", "cnn.output.npy"):
            shutil.copy(os.path.join(FIXTURES, name), self.path(name))
        self.train("name: cnn\nthreads: 1\n"
                   "data: {train: cnn.input.npy, labels: cnn.output.npy}\n"
                   f"model:{MODELS['cnn']}weights: cnn.safetensors\n"
                   "train: {loss: mse, steps: 1}\n", "--quiet")
        arrays = dict(numpy.load(os.path.join(FIXTURES, "cnn.gradients.npz")))
        numpy.save(self.path("labels.npy"), arrays.pop("labels"))
        return arrays

    def gradients(self, *arguments):
        return self.run_program("gradients", "runs/cnn/initial.safetensors", "cnn.input.npy",
                                "--labels", "labels.npy", *arguments)

    def test_errors_and_gradients_are_pytorchs(self):
        want = self.cnn()
        done = self.gradients("--layer", "input,conv*,bn1", "--layer", "fc?", "--to", "out.npz")
        self.assertIn("sparse_categorical_crossentropy from logits over 6 examples "
                      "(guessed: class labels, an output without softmax)", done.stdout)
        got = numpy.load(self.path("out.npz"))
        for name, array in want.items():
            with self.subTest(name):
                self.assertEqual(got[name].shape, array.shape)
                numpy.testing.assert_allclose(got[name], array, atol=1e-6, rtol=1e-4)
        self.assertNotIn("bn1.moving_mean.gradient", got.files)
        self.assertNotIn("bn2.error", got.files)

    def test_shapes_statistics_and_values_are_printed(self):
        want = self.cnn()["fc2.kernel.gradient"]
        text = self.gradients("--layer", "fc2").stdout
        blocks = text.split("\n\n")
        self.assertEqual([block.split(" ")[0] for block in blocks[1:]],
                         ["fc2.error", "fc2.kernel.gradient", "fc2.bias.gradient"])
        self.assertIn("fc2.kernel.gradient (8, 3) float32", blocks[2])
        self.assertIn(f"norm {numpy.linalg.norm(want):.4f}"[:-1], blocks[2])
        lines = [json.loads(line)
                 for line in self.gradients("--layer", "fc2", "--json").stdout.splitlines()]
        self.assertEqual(lines[0]["loss"], "sparse_categorical_crossentropy")
        self.assertEqual(lines[2]["signal"], "fc2.kernel.gradient")
        self.assertEqual(lines[2]["shape"], [8, 3])
        self.assertAlmostEqual(lines[2]["std"], float(want.std()), 5)

    def test_files_hold_every_value(self):
        self.cnn()
        self.gradients("--layer", "fc2", "--to", "out.csv", "--quiet")
        self.gradients("--layer", "fc2", "--to", "out/", "--quiet")
        self.assertEqual(sorted(os.listdir(self.path("out"))),
                         ["fc2.bias.gradient.npy", "fc2.error.npy", "fc2.kernel.gradient.npy"])
        with open(self.path("out.csv"), newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(list(rows[0]), ["signal", "index", "value"])
        kernel = numpy.load(self.path("out", "fc2.kernel.gradient.npy"))
        for row in rows:
            if row["signal"] == "fc2.kernel.gradient":
                index = tuple(map(int, row["index"].split(",")))
                self.assertEqual(numpy.float32(row["value"]), kernel[index])
        self.assertEqual(sum(row["signal"] == "fc2.kernel.gradient" for row in rows), kernel.size)

    def test_a_run_has_its_own_loss(self):
        self.write("data.csv", "a,b,kind\n" + "".join(f"{i},{i * i % 7},{i % 2}\n"
                                                     for i in range(20)))
        text = SMALL.replace("generate: {two_moons: {examples: 90, noise: 0.1}}",
                             "train: data.csv\n  label: kind")
        self.train(text, "--quiet")
        done = self.run_program("gradients", "runs/small", "data.csv", "--layer", "logits",
                                "--batch", "5")
        self.assertIn("from logits over 5 examples (as in training)", done.stdout)
        self.assertIn("logits.error (5, 2)", done.stdout)
        done = self.run_program("gradients", "runs/small", "data.csv", "--loss",
                                "categorical_crossentropy", "--layer", "logits", "--batch", "5")
        self.assertIn("(as asked for)", done.stdout)

    def test_a_step_of_training_has_the_same_gradients(self):
        self.write("data.csv", "a,b,kind\n" + "".join(f"{i / 20},{i * i % 7},{i % 2}\n"
                                                     for i in range(20)))
        text = (SMALL.replace("generate: {two_moons: {examples: 90, noise: 0.1}}",
                              "train: data.csv\n  label: kind\n  shuffle: false")
                .replace("  validation: 0.2\n", "").replace("epochs: 4", "steps: 1"))
        self.train(text, "--quiet")
        self.train(text + "weights: runs/small\nrecord:\n  - {what: ['*.error', '*.gradient'], "
                   "form: tensor, to: npy}\n", "--quiet")
        self.run_program("gradients", "runs/small", "data.csv", "--batch", "16", "--to", "out/",
                         "--quiet")
        for name in os.listdir(self.path("out")):
            numpy.testing.assert_allclose(numpy.load(self.path("out", name)),
                                          numpy.load(self.path("runs", "small-2", name))[0],
                                          atol=1e-7)

    def test_mistakes_are_said(self):
        self.cnn()
        def mistake(*arguments):
            return self.run_program("gradients", "runs/cnn/initial.safetensors", "cnn.input.npy",
                                    *arguments, status=1).stderr
        self.assertIn("no labels, and so no loss", mistake())
        labels = ("--labels", "labels.npy")
        self.assertIn("no layer 'fc3'; did you mean 'fc1'?", mistake(*labels, "--layer", "fc3"))
        self.assertIn("'msee'", mistake(*labels, "--loss", "msee"))
        self.assertIn(".csv, .npz, or a folder", mistake(*labels, "--to", "out.txt"))


if __name__ == "__main__":
    unittest.main()
