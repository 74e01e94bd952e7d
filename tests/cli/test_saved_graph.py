"""SavedModels whose graph is read: what Keras predicted, weights, gradients, and what is said of a damaged one."""
import os
import shutil
import unittest

import numpy

from program import Case, SOURCE

FIXTURES = os.path.join(SOURCE, "tests", "fixtures", "models", "saved_graph")


class SavedGraphs(Case):
    def test_outputs_are_what_keras_predicted(self):
        for name in ("images", "words"):
            self.run_program("predict", os.path.join(FIXTURES, name), os.path.join(FIXTURES, name + ".input.npy"), "--to", "y.npy", "--force")
            numpy.testing.assert_allclose(numpy.load(self.path("y.npy")), numpy.load(os.path.join(FIXTURES, name + ".output.npy")),
                                          rtol=1e-5, atol=1e-6)

    def test_weights_have_the_names_of_the_variables(self):
        self.run_program("weights", os.path.join(FIXTURES, "images"), "--to", "w.npz")
        with numpy.load(self.path("w.npz")) as file:
            self.assertIn((3, 3, 2, 3), [file[name].shape for name in file.files if name.endswith("kernel")])

    def test_a_damaged_file_is_refused(self):
        shutil.copytree(os.path.join(FIXTURES, "images"), self.path("bad"))
        with open(self.path("bad", "saved_model.pb"), "r+b") as file:
            file.truncate(9000)
        done = self.run_program("predict", "bad", os.path.join(FIXTURES, "images.input.npy"), "--to", "y.npy", status=1)
        self.assertIn("bad/saved_model.pb", done.stderr)
        self.assertFalse(os.path.exists(self.path("y.npy")))


if __name__ == "__main__":
    unittest.main()
