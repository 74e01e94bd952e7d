"""The parts of a training against Keras's own, live: initialisers, metrics, schedules, losses, optimizers."""
import os
import sys
import unittest

import keras
import numpy
from keras import initializers, layers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import Case  # noqa: E402


def random(*shape, seed=0):
    return numpy.random.default_rng(seed + sum(shape)).standard_normal(shape).astype("float32")


class Parts(Case):
    def setUp(self):
        super().setUp()
        keras.backend.clear_session()
        keras.utils.set_random_seed(2)

    def data(self, x, y, name="data.npz"):
        numpy.savez(self.path(name), x=x, y=y)
        return f"data: {{train: {name}, label: {{x: x, y: y}}, batch: 8, shuffle: false}}\n"

    def weights(self, run="t"):
        self.run_program("weights", self.path("runs", run), "--to", self.path("w.npz"))
        return numpy.load(self.path("w.npz"))


INITIALIZERS = {
    "{random_normal: {mean: 1, stddev: 0.5}}": initializers.RandomNormal(1.0, 0.5),
    "{truncated_normal: {mean: -1, stddev: 0.5, seed: 4}}": initializers.TruncatedNormal(-1.0, 0.5, seed=4),
    "{random_uniform: {minval: 1, maxval: 3}}": initializers.RandomUniform(1.0, 3.0),
    "{variance_scaling: {scale: 2, mode: fan_out, distribution: uniform}}":
        initializers.VarianceScaling(2.0, "fan_out", "uniform"),
    "{variance_scaling: {mode: fan_avg, distribution: untruncated_normal}}":
        initializers.VarianceScaling(1.0, "fan_avg", "untruncated_normal"),
    "variance_scaling": initializers.VarianceScaling(),
    "{orthogonal: {gain: 0.5}}": initializers.Orthogonal(0.5),
    "{identity: {gain: 3}}": initializers.Identity(3.0),
    "{constant: {value: -0.25}}": initializers.Constant(-0.25),
    "he_normal": initializers.HeNormal(),
    "{glorot_normal: {seed: 0}}": initializers.GlorotNormal(seed=0),
    "lecun_uniform": initializers.LecunUniform(),
}


class Initializers(Parts):
    def test_distributions_and_files_agree(self):
        """What is drawn has Keras's mean, deviation and bounds; what is saved has Keras's options."""
        model = "".join(f"  - dense: {{name: d{i}, units: 150, kernel_initializer: {text}}}\n"
                        for i, text in enumerate(INITIALIZERS))
        self.train("name: t\n" + self.data(random(8, 150), random(8, 150)) + "model:\n" + model
                   + "train: {loss: mse, steps: 1, optimizer: {sgd: {learning_rate: 0}}}\n", "--quiet")
        weights = self.weights()
        self.run_program("weights", self.path("runs", "t"), "--to", self.path("t.keras"))
        loaded = keras.models.load_model(self.path("t.keras"))
        for i, (text, theirs) in enumerate(INITIALIZERS.items()):
            ours, drawn = weights[f"d{i}.kernel"], numpy.asarray(theirs((150, 150)))
            with self.subTest(text):
                spread = drawn.std()
                self.assertAlmostEqual(ours.mean(), drawn.mean(), delta=0.06 * spread + 1e-7)
                self.assertAlmostEqual(ours.std(), spread, delta=0.03 * spread + 1e-7)
                if "normal" not in text and "orthogonal" not in text or "trunc" in text and "un" not in text:
                    self.assertAlmostEqual(ours.min(), drawn.min(), delta=0.1 * spread + 1e-7)
                    self.assertAlmostEqual(ours.max(), drawn.max(), delta=0.1 * spread + 1e-7)
                saved = loaded.get_layer(f"d{i}").kernel_initializer
                self.assertIs(type(saved), type(theirs))
                self.assertEqual(saved.get_config(), theirs.get_config())

    def test_keras_files_keep_them(self):
        """Through our hands and back: every initialiser of every layer has the options it had."""
        normal, half = initializers.RandomNormal(stddev=0.5, seed=7), initializers.Constant(0.5)
        wide = initializers.RandomUniform(-2.0, 1.0)
        model = keras.Sequential([
            keras.Input((6,)),
            layers.Embedding(9, 4, embeddings_initializer=normal),
            layers.LSTM(3, kernel_initializer=wide, recurrent_initializer=initializers.Orthogonal(2.0),
                        bias_initializer=half, return_sequences=True),
            layers.BatchNormalization(gamma_initializer=half, beta_initializer=normal,
                                      moving_mean_initializer=half, moving_variance_initializer="ones"),
            layers.LayerNormalization(gamma_initializer=wide),
            layers.Conv1D(2, 2, kernel_initializer=initializers.VarianceScaling(3.0, "fan_avg", "uniform"))])
        model.save(self.path("theirs.keras"))
        for ending in ("keras", "safetensors"):
            self.run_program("weights", self.path("theirs.keras"), "--to", self.path("ours." + ending))
            self.run_program("weights", self.path("ours." + ending), "--to", self.path("back.keras"))
            again = keras.models.load_model(self.path("back.keras"))
            for one, two in zip(model.layers, again.layers):
                for key in vars(one):
                    if key.endswith("_initializer"):
                        self.assertEqual(type(getattr(one, key)), type(getattr(two, key)), key)
                        self.assertEqual(getattr(one, key).get_config(), getattr(two, key).get_config(), key)


if __name__ == "__main__":
    unittest.main()
