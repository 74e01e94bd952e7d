"""Graphs with axes of any size run at the size of the data at hand, also where no other size fits."""
import os
import sys
import unittest

import numpy

from program import Case, SOURCE

sys.path.insert(0, os.path.join(SOURCE, "tests", "fixtures"))
from make_onnx_corpus import FLOAT, INT64, data, info, node, number, tensor  # noqa: E402


def model(nodes, constants, output, dims):
    """Input x (batch, 1, any), output of these sizes; 0 is any."""
    graph = b"".join(data(1, each) for each in nodes)
    graph += b"".join(data(5, tensor(*each)) for each in constants)
    graph += data(11, info("x", FLOAT, [0, 1, 0])) + data(12, info(output, FLOAT, dims))
    return number(1, 8) + data(8, number(2, 13)) + data(7, graph)


class OpenSizes(Case):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(1)
        self.kernel = random.standard_normal((2, 1, 500)).astype("float32") / 20
        self.x = random.standard_normal((3, 1, 7345)).astype("float32")
        # 1 + (7345 - 500) // 100 = 69 windows, which the reshaping asks for: one size in a hundred fits.
        with open(self.path("frames.onnx"), "wb") as file:
            file.write(model([node("Conv", "x w", "h", strides=[100]), node("Reshape", "h s", "y")],
                             [("w", FLOAT, [2, 1, 500], self.kernel.ravel()), ("s", INT64, [2], [-1, 2 * 69])],
                             "y", [0, 138]))
        numpy.save(self.path("x.npy"), self.x)
        windows = numpy.lib.stride_tricks.sliding_window_view(self.x[:, 0], 500, axis=1)[:, ::100]
        self.y = numpy.einsum("nlk,fk->nfl", windows, self.kernel[:, 0]).reshape(3, -1)

    def test_predict_runs_at_the_size_of_the_data(self):
        self.run_program("predict", "frames.onnx", "x.npy", "--to", "y.npy", "--quiet")
        numpy.testing.assert_allclose(numpy.load(self.path("y.npy")), self.y, rtol=1e-4, atol=1e-5)

    def test_gradients_do_too(self):
        numpy.save(self.path("labels.npy"), self.y + 1)
        self.run_program("gradients", "frames.onnx", "x.npy", "--labels", "labels.npy", "--loss", "mse", "--to", "g.npz")
        gradients = numpy.load(self.path("g.npz"))
        error = -2 / self.y.size * numpy.ones((3, 2, 69))
        windows = numpy.lib.stride_tricks.sliding_window_view(self.x[:, 0], 500, axis=1)[:, ::100]
        wanted = numpy.einsum("nlk,nfl->kf", windows, error)[:, None]
        found = [gradients[name] for name in gradients.files if name.endswith(".kernel.gradient")]
        numpy.testing.assert_allclose(found[0].reshape(wanted.shape), wanted, rtol=1e-3, atol=1e-6)

    def test_data_that_does_not_fit_is_what_the_error_is_about(self):
        numpy.save(self.path("short.npy"), self.x[:, :, :100])
        said = self.run_program("predict", "frames.onnx", "short.npy", "--to", "y.npy", "--quiet", status=1).stderr
        self.assertIn("a window of 500 does not fit an axis of 100", said)

    def test_inspect_says_that_no_size_it_tried_fits(self):
        said = self.run_program("inspect", "frames.onnx", status=1).stderr
        self.assertIn("none of the sizes that were tried for its open axes fits", said)


class TimeFirst(Case):
    def test_an_output_with_time_in_front_has_the_batch_in_front(self):
        """As a recogniser of text that ends in (steps, batch, classes)."""
        weights = numpy.arange(6, dtype="float32").reshape(2, 3) / 6
        graph = data(1, node("Transpose", "x", "t", perm=[1, 0, 2])) + data(1, node("MatMul", "t w", "m"))
        graph += data(1, node("Softmax", "m", "y", axis=-1)) + data(5, tensor("w", FLOAT, [2, 3], weights.ravel()))
        graph += data(11, info("x", FLOAT, [0, 4, 2])) + data(12, info("y", FLOAT, [4, 0, 3]))
        with open(self.path("model.onnx"), "wb") as file:
            file.write(number(1, 8) + data(8, number(2, 13)) + data(7, graph))
        x = numpy.random.default_rng(2).standard_normal((5, 4, 2)).astype("float32")
        numpy.save(self.path("x.npy"), x)
        self.run_program("predict", "model.onnx", "x.npy", "--to", "y.npy", "--quiet")
        exponents = numpy.exp(x @ weights)
        numpy.testing.assert_allclose(numpy.load(self.path("y.npy")), exponents / exponents.sum(-1, keepdims=True), rtol=1e-5)


if __name__ == "__main__":
    unittest.main()
