"""Models of TensorFlow Lite, as users have them: predicted, looked at, converted; outputs are those of its interpreter."""
import glob
import os
import unittest

import numpy

from program import SOURCE, Case

FOLDER = os.path.join(SOURCE, "tests", "fixtures", "models", "tflite")


class Models(Case):
    def test_outputs_are_the_interpreters(self):
        files = sorted(glob.glob(os.path.join(FOLDER, "*_*.tflite")))
        self.assertEqual(len(files), 4)
        for path in files:
            with self.subTest(path):
                data = path.replace(".tflite", ".x.npy")
                wanted = numpy.load(path.replace(".tflite", ".y.npy"))
                self.run_program("predict", path, data, "--to", "y.npy")
                near = 1e-6 if "float" in path else 0.0040  # a step of uint8
                self.assertLess(numpy.abs(numpy.load(self.path("y.npy")) - wanted).max(), near)
                for ending in ("onnx", "safetensors"):
                    self.run_program("weights", path, "--to", "model." + ending)
                    self.run_program("predict", "model." + ending, data, "--to", "again.npy")
                    numpy.testing.assert_array_equal(numpy.load(self.path("again.npy")),
                                                     numpy.load(self.path("y.npy")))

    def test_several_inputs_and_outputs_by_the_files_names(self):
        path = os.path.join(FOLDER, "several.tflite")
        arguments = self.check_named(path, path.replace(".tflite", ".npz"))
        self.assertIn("--input NAME=FILE", self.run_program("predict", path, "0.npy", "--to", "y.npy", status=1).stderr)
        self.assertIn("no output 'none'; it has: ",
                      self.run_program("predict", path, *arguments, "--output", "none=y.npy", status=1).stderr)

    def test_parameters_have_the_layouts_of_keras(self):
        said = self.run_program("inspect", os.path.join(FOLDER, "images_float32.tflite")).stdout
        self.assertIn("(3, 3, 3, 8)", said)
        self.assertIn("takes examples of shape (12, 12, 3)", said)

    def test_a_file_cut_short_says_so(self):
        with open(os.path.join(FOLDER, "images_float32.tflite"), "rb") as file:
            whole = file.read()
        for size in (9, 40, len(whole) // 2, len(whole) - 8):
            with open(self.path("short.tflite"), "wb") as file:
                file.write(whole[:size])
            self.assertIn("short.tflite: not a sound file of TensorFlow Lite",
                          self.run_program("inspect", "short.tflite", status=1).stderr)


if __name__ == "__main__":
    unittest.main()
