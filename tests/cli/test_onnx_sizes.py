"""Graphs with axes of any size run at the size of the data at hand, also where no other size fits; without data their shapes are
inferred."""
import json
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

    def test_an_input_may_be_named(self):
        """--input on a graph with axes of any size, for one input and for several."""
        self.run_program("predict", "frames.onnx", "--input", "x=x.npy", "--to", "y.npy", "--quiet")
        numpy.testing.assert_allclose(numpy.load(self.path("y.npy")), self.y, rtol=1e-4, atol=1e-5)
        numpy.save(self.path("labels.npy"), self.y + 1)
        for words, file in (["x.npy"], "g.npz"), (["--input", "x=x.npy"], "h.npz"):
            self.run_program("gradients", "frames.onnx", *words, "--labels", "labels.npy", "--loss", "mse", "--to", file)
        first, second = (numpy.load(self.path(name)) for name in ("g.npz", "h.npz"))
        self.assertEqual(first.files, second.files)
        for name in first.files:
            numpy.testing.assert_array_equal(first[name], second[name])
        graph = data(1, node("Mul", "x z", "y"))
        graph += b"".join(data(11, info(name, FLOAT, [0, 1, 0])) for name in "xz") + data(12, info("y", FLOAT, [0, 1, 0]))
        with open(self.path("product.onnx"), "wb") as file:
            file.write(number(1, 8) + data(8, number(2, 13)) + data(7, graph))
        numpy.save(self.path("z.npy"), self.x + 1)
        self.run_program("predict", "product.onnx", "--input", "z=z.npy", "--input", "x=x.npy", "--output", "y=p.npy", "--quiet")
        numpy.testing.assert_allclose(numpy.load(self.path("p.npy")), self.x * (self.x + 1), rtol=1e-6)
        numpy.save(self.path("short.npy"), self.x[:, :, :100])
        done = self.run_program("predict", "product.onnx", "--input", "z=z.npy", "--input", "x=short.npy", "--output", "y=q.npy",
                                "--quiet", status=1)
        self.assertIn("100", done.stderr)

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

    def test_without_data_no_size_is_needed(self):
        about = json.loads(self.run_program("inspect", "frames.onnx", "--json").stdout)
        self.assertEqual([layer["output"] for layer in about["layers"]], [[-1, 2], [138]])
        self.run_program("weights", "frames.onnx", "--to", "w.npz")
        with numpy.load(self.path("w.npz")) as arrays:
            numpy.testing.assert_array_equal(next(iter(arrays.values())).ravel(), self.kernel.transpose(2, 1, 0).ravel())


class Inferred(Case):
    """What inspect shows of open axes, where few sizes fit or none that one would try. 0 is open."""

    def layers(self, dims, nodes, constants=(), opset=13, output=None):
        graph = b"".join(data(1, each) for each in nodes) + b"".join(data(5, tensor(*each)) for each in constants)
        graph += data(11, info("x", FLOAT, dims))
        graph += data(12, info("y", FLOAT, output) if output else data(1, "y") + data(2, data(1, number(1, FLOAT))))
        with open(self.path("model.onnx"), "wb") as file:
            file.write(number(1, 8) + data(8, number(2, opset)) + data(7, graph))
        about = json.loads(self.run_program("inspect", "model.onnx", "--json").stdout)
        self.assertEqual(about["input"], [dim or -1 for dim in dims[1:]])
        self.run_program("inspect", "model.onnx")
        return [layer["output"] for layer in about["layers"]]

    def test_a_window_larger_than_any_size_one_would_try(self):
        self.assertEqual(self.layers([0, 1, 0], [node("Conv", "x w", "h"), node("ReduceMean", "h", "y", axes=[2], keepdims=0)],
                                     [("w", FLOAT, [2, 1, 100003], [0.5] * 200006)]), [[-1, 2], [2]])

    def test_a_multiple(self):
        self.assertEqual(self.layers([0, 0, 3], [node("Reshape", "x s", "h"), node("ReduceMax", "h", "y", axes=[1], keepdims=0)],
                                     [("s", INT64, [4], [0, -1, 37, 3])]), [[-1, 37, 3], [37, 3]])

    def test_axes_that_must_be_equal_and_one_that_must_be_a_number(self):
        nodes = [node("Transpose", "x", "t", perm=[0, 2, 1]), node("Add", "x t", "a"), node("MatMul", "a w", "y")]
        self.assertEqual(self.layers([0, 0, 0], nodes, [("w", FLOAT, [81, 5], [0.1] * 405)]),
                         [[-1, -1], [-1, -1], [-1, 5]])

    def test_shapes_that_are_calculated(self):
        nodes = [node("Shape", "x", "s"), node("Gather", "s i", "b", axis=0), node("Gather", "s j", "t", axis=0),
                 node("Unsqueeze", "b z", "b1"), node("Unsqueeze", "t z", "t1"), node("Concat", "b1 t1 h w", "r", axis=0),
                 node("Reshape", "x r", "heads"), node("Transpose", "heads", "turned", perm=[0, 2, 1, 3]),
                 node("Concat", "b1 m", "back", axis=0), node("Reshape", "turned back", "y")]
        constants = [("i", INT64, [], [0]), ("j", INT64, [], [1]), ("z", INT64, [1], [0]), ("h", INT64, [1], [4]),
                     ("w", INT64, [1], [2]), ("m", INT64, [1], [-1])]
        self.assertEqual(self.layers([0, 0, 8], nodes, constants), [[-1, 4, 2], [4, -1, 2], [-1]])

    def test_a_recurrent_layer_whose_state_has_the_files_batch(self):
        constants = [("w", FLOAT, [1, 6, 3], [0.1] * 18), ("r", FLOAT, [1, 6, 2], [0.1] * 12), ("b", FLOAT, [1, 12], [0.0] * 12),
                     ("h", FLOAT, [1, 2, 2], [0.0] * 4), ("axis", INT64, [1], [0])]
        nodes = [node("Transpose", "x", "t", perm=[1, 0, 2]), node("GRU", "t w r b - h", "all end", hidden_size=2),
                 node("Squeeze", "end axis", "y")]
        self.assertEqual(self.layers([2, 0, 3], nodes, constants)[-1], [2])
        numpy.save(self.path("x.npy"), numpy.ones((3, 5, 3), "float32"))
        said = self.run_program("predict", "model.onnx", "x.npy", "--to", "y.npy").stderr
        self.assertIn("runs on 2 at a time", said)

    def test_what_the_file_says_helps_and_is_not_believed_when_it_runs(self):
        """What an Einsum makes is not inferred."""
        graph = [node("Mul", "x w", "m"), node("Einsum", "m", "y", equation="btc->bc")]
        self.assertEqual(self.layers([0, 0, 3], graph, [("w", FLOAT, [3], [1.0] * 3)], output=[0, 7]), [[-1, 3], [7]])
        numpy.save(self.path("x.npy"), numpy.ones((4, 5, 3), "float32"))
        numpy.save(self.path("labels.npy"), numpy.ones((4, 7), "float32"))
        self.run_program("predict", "model.onnx", "x.npy", "--to", "y.npy", "--quiet")
        numpy.testing.assert_array_equal(numpy.load(self.path("y.npy")), numpy.full((4, 3), 5))
        said = self.train("name: lie\ndata: {train: x.npy, labels: labels.npy, batch: 4}\nmodel: {file: model.onnx}\n"
                          "train: {loss: mse, optimizer: sgd, epochs: 1}\n", status=2).stderr
        self.assertIn("it puts out (4, 3) of a batch of 4; of one example it would be (7,)", said)


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
