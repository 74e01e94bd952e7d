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


class Sparse(Case):
    def test_a_constant_that_keeps_some_of_its_elements(self):
        """Rows as TensorFlow Lite writes them, put into a file of its converter by hand."""
        import flatbuffers
        import keras
        import tensorflow
        from tensorflow.lite.python import schema_py_generated as schema
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(6, activation="relu"), keras.layers.Dense(3)])
        kernel = model.layers[0].kernel.numpy()
        kernel[numpy.random.default_rng(1).random(kernel.shape) < 0.6] = 0
        model.layers[0].kernel.assign(kernel)
        file = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(
            tensorflow.lite.TFLiteConverter.from_keras_model(model).convert(), 0))
        tensor = next(t for t in file.subgraphs[0].tensors if list(t.shape) == [6, 8])
        rows = numpy.frombuffer(bytes(file.buffers[tensor.buffer].data), "<f4").reshape(6, 8)
        places = [numpy.flatnonzero(row) for row in rows]
        dense, listed = schema.DimensionMetadataT(), schema.DimensionMetadataT()
        dense.format, dense.denseSize, listed.format = 0, 6, 1
        listed.arraySegmentsType, listed.arraySegments = schema.SparseIndexVector.Int32Vector, schema.Int32VectorT()
        listed.arraySegments.values = numpy.cumsum([0] + [len(p) for p in places]).tolist()
        listed.arrayIndicesType, listed.arrayIndices = schema.SparseIndexVector.Uint8Vector, schema.Uint8VectorT()
        listed.arrayIndices.values = numpy.concatenate(places).tolist()
        tensor.sparsity = schema.SparsityParametersT()
        tensor.sparsity.traversalOrder, tensor.sparsity.blockMap, tensor.sparsity.dimMetadata = [0, 1], [], [dense, listed]
        file.buffers[tensor.buffer].data = list(rows[rows != 0].astype("<f4").tobytes())
        builder = flatbuffers.Builder(4096)
        builder.Finish(file.Pack(builder), b"TFL3")
        with open(self.path("sparse.tflite"), "wb") as out:
            out.write(bytes(builder.Output()))
        x = numpy.random.default_rng(2).random((1, 8)).astype("float32")
        numpy.save(self.path("x.npy"), x)
        self.run_program("predict", "sparse.tflite", "x.npy", "--to", "y.npy")
        numpy.testing.assert_allclose(numpy.load(self.path("y.npy")), model.predict(x, verbose=0), rtol=1e-5, atol=1e-6)
        # More places than elements, with nothing at any of them: they are not walked.
        dense.denseSize, listed.format, listed.denseSize = 2 ** 28 - 1, 0, 0
        builder = flatbuffers.Builder(4096)
        builder.Finish(file.Pack(builder), b"TFL3")
        with open(self.path("walk.tflite"), "wb") as out:
            out.write(bytes(builder.Output()))
        self.assertIn("a sparse constant whose places do not fit its shape", self.run_program("inspect", "walk.tflite", status=1).stderr)


if __name__ == "__main__":
    unittest.main()
