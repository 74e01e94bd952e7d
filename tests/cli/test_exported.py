"""Programs of torch.export, as users have them: predicted, looked at, converted; outputs are PyTorch's."""
import os
import unittest

import numpy

from program import SOURCE, Case

FOLDER = os.path.join(SOURCE, "tests", "fixtures", "models", "exported")


class Programs(Case):
    def test_outputs_are_pytorchs(self):
        for name in ("images", "words"):
            with self.subTest(name):
                path = os.path.join(FOLDER, name)
                self.run_program("predict", path + ".pt2", path + ".x.npy", "--to", "y.npy")
                numpy.testing.assert_allclose(numpy.load(self.path("y.npy")), numpy.load(path + ".y.npy"), rtol=1e-4,
                                              atol=1e-5)
                self.run_program("weights", path + ".pt2", "--to", "model.onnx")
                self.run_program("predict", "model.onnx", path + ".x.npy", "--to", "again.npy")
                numpy.testing.assert_array_equal(numpy.load(self.path("again.npy")), numpy.load(self.path("y.npy")))

    def test_several_inputs_and_outputs_by_the_programs_names(self):
        path = os.path.join(FOLDER, "several")
        arguments = self.check_named(path + ".pt2", path + ".npz", {"x": "x/input"})  # a parameter is called x, too
        self.assertIn("no input 'y'; it has: x/input, ids",
                      self.run_program("predict", path + ".pt2", *arguments, "--input", "y=0.npy", status=1).stderr)
        self.assertIn("inputs x/input float (None, 6), ids int64 (None, 5); outputs softmax float (None, 6), ",
                      self.run_program("inspect", path + ".pt2").stdout)

    def test_parameters_have_the_names_of_the_module(self):
        said = self.run_program("inspect", os.path.join(FOLDER, "images.pt2")).stdout
        for name in ("first.kernel", "norm.gamma", "depthwise.kernel", "last.kernel"):
            self.assertIn(name, said)

    def test_a_file_cut_short_is_refused(self):
        with open(os.path.join(FOLDER, "images.pt2"), "rb") as file:
            whole = file.read()
        for size in (40, len(whole) // 2, len(whole) - 8):
            with open(self.path("short.pt2"), "wb") as file:
                file.write(whole[:size])
            self.assertIn("short.pt2: ", self.run_program("inspect", "short.pt2", status=1).stderr)


if __name__ == "__main__":
    unittest.main()
