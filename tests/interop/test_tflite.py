"""Models of TensorFlow Lite in every kind of numbers: Tapedeck puts out what the interpreter does."""
import os
import sys
import unittest

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import SOURCE, Case  # noqa: E402

sys.path.insert(0, os.path.join(SOURCE, "tests", "fixtures"))
from make_models_tflite import cases  # noqa: E402


class Models(Case):
    def test_outputs_are_the_interpreters(self):
        for name, content, given, wanted, near in cases():
            with self.subTest(name):
                with open(self.path("model.tflite"), "wb") as file:
                    file.write(content)
                numpy.save(self.path("x.npy"), given)
                self.run_program("predict", "model.tflite", "x.npy", "--to", "y.npy")
                ours = numpy.load(self.path("y.npy"))
                self.assertEqual(ours.shape, wanted.shape)
                self.assertLess(numpy.abs(ours - wanted).max() / numpy.abs(wanted).max(), near)
                labels = numpy.arange(len(given)) % 2
                numpy.save(self.path("labels.npy"), labels if wanted.ndim == 2 else wanted + 1)
                said = self.run_program("gradients", "model.tflite", "x.npy", "--labels", "labels.npy", "--json")
                self.assertIn(".kernel.gradient" if wanted.ndim == 4 else ".gradient", said.stdout)


if __name__ == "__main__":
    unittest.main()
