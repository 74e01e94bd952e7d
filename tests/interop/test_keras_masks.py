"""Functional models of Keras with masks: Keras writes how it makes a mask as operations beside the layers. They
load with Keras's numbers, train on as in Keras, are written again, and masks that no layer here makes are refused.
"""
import os
import sys
import unittest

import keras
import numpy
from keras import layers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import Case  # noqa: E402

ROWS, STEPS = 12, 5
EXPERIMENT = """
name: further
threads: 1
data: {train: data.npz, label: {x: x, y: y}, batch: 4, shuffle: false}
model: {file: theirs.keras}
train: {loss: mse, optimizer: {sgd: {learning_rate: 0.1}}, steps: 6}
"""


def words():
    ids = numpy.random.default_rng(3).integers(0, 5, (ROWS, STEPS)).astype("float32")
    ids[:, 0] = 1
    return ids


def gaps():
    """Steps of zeros and steps of ones; the first counts."""
    x = numpy.random.default_rng(4).standard_normal((ROWS, STEPS, 3)).astype("float32")
    kinds = numpy.random.default_rng(5).integers(0, 4, (ROWS, STEPS))
    kinds[:, 0] = 3
    x[kinds == 0] = 0
    x[kinds == 1] = 1
    return x


def embedded(ids, mask=True):
    return layers.Embedding(7, 4, mask_zero=mask)(ids)


class Masks(Case):
    def setUp(self):
        super().setUp()
        keras.backend.clear_session()
        keras.utils.set_random_seed(2)

    def close(self, ours, theirs, what, tolerance=2e-5):
        self.assertEqual(ours.shape, theirs.shape, what)
        numpy.testing.assert_allclose(ours, theirs, atol=tolerance * max(1, numpy.abs(theirs).max()), err_msg=what)

    def ours(self, path, x):
        numpy.save(self.path("x.npy"), x)
        self.run_program("predict", path, "x.npy", "--to", "y.npy", "--quiet")
        return numpy.load(self.path("y.npy"))

    def check(self, inputs, value, x):
        """The file's predictions, those of what is written again, and a few steps of further training."""
        value = layers.Dense(2, name="last")(value)
        model = keras.Model(inputs, value)
        generator = numpy.random.default_rng(5)
        for weight in model.weights:
            if "seed" not in weight.path:
                change = 0.3 * generator.standard_normal(weight.shape)
                weight.assign(weight + (abs(change) if "variance" in weight.path else change))
        expected = model.predict(x, verbose=0)
        model.save(self.path("theirs.keras"))  # not .h5, which Keras itself does not open again
        self.close(self.ours("theirs.keras", x), expected, "their file")
        self.run_program("weights", "theirs.keras", "--to", "ours.keras")
        self.close(keras.models.load_model(self.path("ours.keras")).predict(x, verbose=0), expected, "written")
        y = generator.standard_normal(expected.shape).astype("float32")
        numpy.savez(self.path("data.npz"), x=x, y=y)
        self.train(EXPERIMENT, "--quiet")
        model.compile(keras.optimizers.SGD(0.1), "mse")
        model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
        self.run_program("weights", "runs/further", "--to", "further.keras")
        self.close(self.ours("further.keras", x), model.predict(x, verbose=0), "trained further", 1e-4)

    def test_embeddings_into_recurrent_layers(self):
        for kind in (layers.LSTM, layers.GRU, layers.SimpleRNN):
            with self.subTest(kind.__name__):
                self.setUp()
                ids = keras.Input((STEPS,))
                value = kind(3, return_sequences=True)(layers.Dropout(0.0)(embedded(ids)))
                self.check(ids, kind(3, go_backwards=True)(value), words())

    def test_masking_through_every_layer_that_takes_a_mask(self):
        inputs = keras.Input((STEPS, 3))
        value = layers.Bidirectional(layers.GRU(2, return_sequences=True))(layers.Masking()(inputs))
        value = layers.TimeDistributed(layers.Dense(3))(value)
        value = layers.GlobalAveragePooling1D()(layers.BatchNormalization()(value))
        self.check(inputs, value, gaps())

    def test_merged_masks(self):
        for kind in (layers.Add, layers.Subtract, layers.Average, layers.Multiply, layers.Maximum, layers.Minimum,
                     layers.Concatenate):
            for second in (True, False):
                with self.subTest(f"{kind.__name__} {second}"):
                    self.setUp()
                    inputs = keras.Input((STEPS, 3))
                    first = layers.Dense(4)(layers.Masking()(inputs))
                    other = layers.Dense(4)(layers.Masking(1.0)(inputs) if second else inputs)
                    self.check(inputs, layers.LSTM(3)(kind()([first, other])), gaps())

    def test_concatenated_along_other_axes(self):
        for axis in (1, 2):
            with self.subTest(axis):
                self.setUp()
                ids = keras.Input((STEPS,))
                value = layers.Concatenate(axis=axis)([embedded(ids), embedded(ids, False), embedded(ids)])
                self.check(ids, layers.GlobalAveragePooling1D()(value), words())

    def test_attention_passes_the_mask_on(self):
        ids = keras.Input((STEPS,))
        value = embedded(ids)
        value = layers.Attention()([value, layers.LSTM(4, return_sequences=True)(value)])
        value = layers.MultiHeadAttention(1, 2)(value, value)
        self.check(ids, layers.GRU(3)(value), words())

    def test_a_mask_goes_into_a_model_within_the_model(self):
        inside = keras.Input((STEPS, 4))
        inner = keras.Model(inside, layers.LSTM(3, return_sequences=True)(layers.Dense(4)(inside)))
        ids = keras.Input((STEPS,))
        self.check(ids, layers.GRU(3)(inner(embedded(ids))), words())

    def test_the_loss_leaves_steps_out(self):
        ids = keras.Input((STEPS,))
        self.check(ids, layers.LSTM(3, return_sequences=True)(embedded(ids)), words())

    def refused(self, value, ids):
        keras.Model(ids, value).save(self.path("m.keras"))
        numpy.save(self.path("x.npy"), words())
        return self.run_program("predict", "m.keras", "x.npy", "--to", "y.npy", status=1).stderr

    def test_masks_that_no_layer_makes_are_refused(self):
        ids = keras.Input((STEPS,))
        own = keras.ops.not_equal(ids, 1)
        self.assertIn("LSTM 'r' (it is called with a mask that is not its input's own)",
                      self.refused(layers.LSTM(2, name="r")(embedded(ids), mask=own), ids))
        self.assertIn("LSTM 's' (it is called with a mask that is not its input's own)",
                      self.refused(layers.LSTM(2, name="s")(embedded(ids, False), mask=keras.ops.not_equal(ids, 0)),
                                   ids))

    def test_operations_that_end_a_mask_are_refused(self):
        ids = keras.Input((STEPS,))
        value = embedded(ids)
        self.assertIn("an operation ends the mask of what it reads", self.refused(layers.LSTM(2)(value + value), ids))
        joined = keras.ops.concatenate([value, value], -1)
        self.assertIn("there is no such layer here", self.refused(layers.LSTM(2)(joined), ids))


if __name__ == "__main__":
    unittest.main()
