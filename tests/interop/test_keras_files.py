"""Saved models both ways: what Keras writes predicts the same in tapedeck, layer by layer as well, and what
tapedeck writes Keras opens, with the same predictions, layer names and weights, and trains on.
"""
import os
import sys
import unittest

import keras
import numpy
from keras import layers, regularizers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import Case  # noqa: E402

BATCH = 5


def random(*shape, seed=0):
    return numpy.random.default_rng(seed + sum(shape)).standard_normal(shape).astype("float32")


def mix(model, seed=5):
    """Weights that are not what an initialiser gives."""
    generator = numpy.random.default_rng(seed)
    for weight in model.weights:
        change = 0.1 * generator.standard_normal(weight.shape)
        weight.assign(weight + abs(change) if "variance" in weight.path else weight + change)


class KerasFiles(Case):
    def setUp(self):
        super().setUp()
        keras.backend.clear_session()
        keras.utils.set_random_seed(2)

    def close(self, ours, theirs, what, tolerance=1e-5):
        ours, theirs = numpy.asarray(ours, "float64"), numpy.asarray(theirs, "float64")
        self.assertEqual(ours.shape, theirs.shape, what)
        worst = numpy.abs(ours - theirs).max()
        self.assertLessEqual(worst, tolerance * max(1, numpy.abs(theirs).max()), what)

    def ours(self, path, x, *options):
        numpy.save(self.path("x.npy"), x)
        self.run_program("predict", path, self.path("x.npy"), "--to", self.path("y.npy"), "--quiet",
                         *options)
        return numpy.load(self.path("y.npy" if self.exists("y.npy") else "y.main.npy"))

    def theirs(self, model, x):
        y = model.predict(x, verbose=0)
        return y[0] if isinstance(y, (list, tuple)) else y

    def both_ways(self, model, x):
        """Keras -> .keras and .h5 -> ours; ours -> .keras -> Keras and ours again."""
        mix(model)
        expected = self.theirs(model, x)
        for ending in ("keras", "h5"):
            path = self.path("theirs." + ending)
            model.save(path)
            self.close(self.ours(path, x), expected, "their ." + ending)
            back = self.path("ours.keras")
            self.run_program("weights", path, "--to", back)
            again = keras.models.load_model(back)
            self.close(self.theirs(again, x), expected, "our .keras in Keras")
            self.close(self.ours(back, x), expected, "our .keras")
            self.legacy(path, x, expected)
        return again

    def legacy(self, path, x, expected):
        """Ours -> .h5 -> Keras, and ours again with the same bits."""
        self.run_program("weights", path, "--to", self.path("ours.h5"))
        again = keras.models.load_model(self.path("ours.h5"), compile=False)
        self.close(self.theirs(again, x), expected, "our .h5 in Keras")
        weights = []
        for model in (path, self.path("ours.h5")):
            self.run_program("weights", model, "--to", self.path("w.npz"))
            weights.append({name: value.tobytes() for name, value in numpy.load(self.path("w.npz")).items()})
        self.assertEqual(*weights)

    def stack(self, shape, *steps):
        return self.both_ways(keras.Sequential([keras.Input(shape), *steps]), random(BATCH, *shape))

    def graph(self, shape, build):
        inputs = keras.Input(shape)
        return self.both_ways(keras.Model(inputs, build(inputs)), random(BATCH, *shape))

    def test_dense_with_every_activation(self):
        names = ("relu", "leaky_relu", "elu", "selu", "gelu", "softplus", "sigmoid", "tanh", "silu",
                 "softmax", "log_softmax", "hard_sigmoid", "softsign", "relu6", "linear", "exponential")
        self.stack((6,), *[layers.Dense(6, activation=name) for name in names])
        self.stack((6,), *[layers.Activation(name) for name in names if name != "exponential"])

    def test_activation_classes(self):
        self.stack((6,), layers.ReLU(), layers.Dense(6), layers.ReLU(6.0), layers.Dense(6),
                   layers.ReLU(negative_slope=0.25), layers.Dense(6), layers.LeakyReLU(),
                   layers.Dense(6), layers.LeakyReLU(negative_slope=0.01), layers.Dense(6),
                   layers.ELU(), layers.Dense(6), layers.ELU(0.3), layers.Softmax())

    def test_convolutions(self):
        self.stack((11, 9, 2),
                   layers.Conv2D(6, 3, strides=2, padding="same", activation="relu"),
                   layers.Conv2D(4, (2, 3), dilation_rate=(2, 1), padding="same", use_bias=False),
                   layers.Conv2D(4, 3, groups=2, kernel_regularizer="l2"),
                   layers.Conv2DTranspose(3, 3, strides=2, padding="same"),
                   layers.Conv2DTranspose(3, (2, 3), strides=3),
                   layers.DepthwiseConv2D(3, depth_multiplier=2, strides=2, padding="same"),
                   layers.DepthwiseConv2D((1, 2), dilation_rate=2, use_bias=False))
        self.stack((12, 3), layers.Conv1D(4, 3, padding="causal", dilation_rate=2),
                   layers.Conv1D(6, 2, strides=2, groups=2, activation="tanh"))

    def test_pooling_and_shapes(self):
        self.stack((12, 11, 3), layers.MaxPooling2D(3, strides=2, padding="same"),
                   layers.UpSampling2D((2, 1)), layers.AveragePooling2D((2, 1)),
                   layers.UpSampling2D(2, interpolation="bilinear"), layers.Dropout(0.5),
                   layers.Reshape((-1, 6)), layers.Flatten(), layers.Dense(3))
        self.stack((8, 7, 3), layers.GlobalAveragePooling2D())
        self.stack((8, 7, 3), layers.GlobalMaxPooling2D())
        self.stack((8, 7, 3), layers.GlobalAveragePooling2D(keepdims=True), layers.Conv2D(2, 1),
                   layers.GlobalMaxPooling2D(keepdims=True))

    def test_padding_and_rescaling(self):
        self.stack((5, 4, 2), layers.Rescaling(1 / 255, offset=-0.5), layers.ZeroPadding2D(),
                   layers.Conv2D(3, 3), layers.ZeroPadding2D((2, 1)), layers.Conv2D(3, 3),
                   layers.ZeroPadding2D(((0, 1), (2, 0))), layers.Conv2D(3, 3))

    def test_stretching_and_moving(self):
        self.stack((5, 3), layers.Conv1DTranspose(4, 3, strides=2, padding="same", output_padding=0),
                   layers.Conv1DTranspose(2, 2, activation="relu"), layers.UpSampling1D(2),
                   layers.DepthwiseConv1D(3, depth_multiplier=2), layers.SeparableConv1D(4, 2, padding="same"),
                   layers.PReLU(shared_axes=[1]), layers.RMSNormalization(), layers.Permute((2, 1)))
        self.stack((3, 4, 2, 2), layers.Conv3DTranspose(3, (2, 3, 2), strides=(2, 1, 2)), layers.SpatialDropout3D(0.3),
                   layers.Conv3DTranspose(2, 3, strides=2, padding="same", output_padding=(0, 1, 0), use_bias=False))
        self.stack((6,), layers.Dense(5), layers.RepeatVector(3), layers.SpatialDropout1D(0.5), layers.PReLU(),
                   layers.GaussianDropout(0.2), layers.AlphaDropout(0.2), layers.Identity(),
                   layers.ReLU(0.75, negative_slope=0.25, threshold=0.1), layers.UnitNormalization(axis=[1, 2]),
                   layers.UnitNormalization())

    def test_attention_without_projections(self):
        def build(x):
            value = layers.Dense(3, name="d")(x)
            a = layers.Attention(use_scale=True, score_mode="concat", name="a")([value, x])
            b = layers.AdditiveAttention(dropout=0.1, name="b")([a, x, value], use_causal_mask=True)
            return layers.Attention(name="c")([b, value])
        self.graph((5, 3), build)

    def test_pooling_over_steps(self):
        self.stack((13, 3), layers.MaxPooling1D(3, strides=2, padding="same"), layers.Conv1D(4, 2),
                   layers.AveragePooling1D(2), layers.GlobalAveragePooling1D())
        self.stack((9, 3), layers.MaxPooling1D(), layers.GlobalMaxPooling1D(keepdims=True))

    def test_applications(self):
        for name in ("ResNet50V2", "MobileNetV2"):
            with self.subTest(name):
                self.setUp()
                build = getattr(keras.applications, name)
                self.both_ways(build(weights=None, input_shape=(32, 32, 3), classes=5),
                               random(2, 32, 32, 3))

    def test_normalisation(self):
        self.stack((6, 5, 4), layers.BatchNormalization(), layers.BatchNormalization(scale=False),
                   layers.BatchNormalization(center=False, epsilon=1e-2, momentum=0.5),
                   layers.LayerNormalization(), layers.LayerNormalization(center=False, epsilon=0.1),
                   layers.LayerNormalization(scale=False))

    def test_recurrent_layers(self):
        for kind in (layers.SimpleRNN, layers.LSTM, layers.GRU):
            with self.subTest(kind.__name__):
                self.setUp()
                self.stack((9, 4), kind(5, return_sequences=True),
                           kind(4, go_backwards=True, return_sequences=True, use_bias=False),
                           kind(3, activation="relu"))
        self.stack((9, 4), layers.GRU(5, reset_after=False, recurrent_activation="relu"))

    def test_embedding(self):
        model = keras.Sequential([keras.Input((6,), dtype="int32"), layers.Embedding(11, 5),
                                  layers.LSTM(4), layers.Dense(3)])
        x = numpy.random.default_rng(1).integers(0, 11, (BATCH, 6)).astype("int32")
        self.both_ways(model, x)

    def test_a_transformer(self):
        def build(value):
            n = layers.LayerNormalization()(value)
            a = layers.MultiHeadAttention(2, 4)(n, n, use_causal_mask=True)
            s = layers.Add()([value, a])
            c = layers.MultiHeadAttention(2, 4, value_dim=5, use_bias=False)(s, value)
            k = layers.MultiHeadAttention(1, 4)(c, value, key=n)
            return layers.Concatenate()([s, layers.Multiply()([c, k])]) + layers.Dense(12)(value)
        self.graph((8, 6), build)

    def test_branches_of_different_lengths(self):
        """Keras counts classes in an order of its own."""
        def build(value):
            a = layers.Dense(4, name="a")(value)
            b = layers.Dense(4, name="b")(layers.Dense(5, name="c")(layers.Dense(3, name="d")(value)))
            c = layers.Dense(4, name="e")(layers.Add()([b, a]))
            d = layers.Dense(4, name="f")(a)
            return layers.Dense(2, name="g")(layers.Concatenate()([d, c, layers.Dense(1, name="h")(d)]))
        self.graph((6,), build)

    def test_models_in_models(self):
        def build(value):
            inner = keras.Sequential([layers.Dense(6), layers.BatchNormalization(), layers.Dense(6)])
            second = keras.Input((6,))
            middle = keras.Model(second, layers.Dense(4)(inner(layers.Dense(6)(second))))
            middle.layers[2].layers[0].trainable = False
            return layers.Dense(2)(middle(layers.Dense(6)(value)))
        self.graph((5,), build)

    def test_several_outputs(self):
        inputs = keras.Input((5,))
        first = layers.Dense(3, name="first")(inputs)
        middle = layers.Dense(4, name="middle")(inputs)
        model = keras.Model(inputs, [layers.Dense(2, name="main")(middle), first])
        again = self.both_ways(model, random(BATCH, 5))
        self.assertEqual(again.output_names, ["main", "first"])

    def test_what_else_a_file_keeps(self):
        frozen = layers.Dense(4, name="frozen")
        frozen.trainable = False
        again = self.stack((3,), frozen, layers.Dense(
            2, name="penalised", kernel_regularizer=regularizers.L1L2(0.1, 0.2),
            bias_regularizer=regularizers.L2(0.3), kernel_initializer="he_normal"))
        self.assertEqual([layer.name for layer in again.layers], ["frozen", "penalised"])
        self.assertFalse(again.layers[0].trainable)
        penalised = again.layers[1]
        self.assertAlmostEqual(float(penalised.kernel_regularizer.l1), 0.1)
        self.assertAlmostEqual(float(penalised.kernel_regularizer.l2), 0.2)
        self.assertAlmostEqual(float(penalised.bias_regularizer.l2), 0.3)
        self.assertIsInstance(penalised.kernel_initializer, keras.initializers.HeNormal)

    def test_layers_record_what_keras_computes(self):
        model = keras.Sequential([keras.Input((7, 6, 2)), layers.Conv2D(3, 3, name="conv"),
                                  layers.Flatten(), layers.Dense(4, name="out")])
        mix(model)
        model.save(self.path("m.keras"))
        x = random(BATCH, 7, 6, 2)
        self.ours(self.path("m.keras"), x, "--record", "conv.output", "--form", "tensor",
                  "--to", "npy", "--out", self.path("run"))
        found = [os.path.join(folder, name) for folder, _, names in os.walk(self.path("run"))
                 for name in names if name == "conv.output.npy"]
        inside = keras.Model(model.inputs, model.get_layer("conv").output)
        self.close(numpy.load(found[0])[0], inside.predict(x, verbose=0), "conv.output")

    def test_training_ends_in_a_file_that_keras_trains_on(self):
        x, y = random(24, 6), random(24, 2, seed=4)
        numpy.savez(self.path("data.npz"), x=x, y=y)
        self.train("name: t\ndata: {train: data.npz, label: {x: x, y: y}, batch: 8}\n"
                   "model:\n  - dense: {units: 5, activation: tanh}\n  - batch_normalization:\n"
                   "  - dense: {units: 2}\ntrain: {loss: mse, epochs: 3}\n", "--quiet")
        self.run_program("weights", self.path("runs", "t"), "--to", self.path("t.keras"))
        model = keras.models.load_model(self.path("t.keras"))
        self.close(self.ours(self.path("t.keras"), x), self.theirs(model, x), "predictions")
        model.compile("adam", "mse")
        model.fit(x, y, epochs=2, verbose=0)
        model.save(self.path("again.keras"))
        self.close(self.ours(self.path("again.keras"), x), self.theirs(model, x), "trained by both")

    def test_training_goes_on_as_keras_goes_on(self):
        """The same steps from the same file, with a frozen layer and penalties."""
        frozen = layers.Dense(6, activation="tanh", name="frozen")
        frozen.trainable = False
        model = keras.Sequential([
            keras.Input((5,)), frozen, layers.BatchNormalization(name="norm"),
            layers.Dense(4, activation="relu", kernel_regularizer="l2", name="hidden"),
            layers.Dense(2, name="out")])
        mix(model)
        model.save(self.path("start.keras"))
        x, y = random(24, 5), random(24, 2, seed=4)
        numpy.savez(self.path("data.npz"), x=x, y=y)
        self.train("name: t\ndata: {train: data.npz, label: {x: x, y: y}, batch: 8, shuffle: false}\n"
                   "model: {file: start.keras}\n"
                   "train: {loss: mse, epochs: 3, optimizer: {sgd: {learning_rate: 0.1}}}\n", "--quiet")
        self.run_program("weights", self.path("runs", "t"), "--to", self.path("end.keras"))
        model.compile(keras.optimizers.SGD(0.1), "mse")
        model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0)
        ours = keras.models.load_model(self.path("end.keras"))
        for mine, theirs in zip(ours.weights, model.weights):
            self.close(mine, theirs, theirs.path, 1e-4)
        self.assertFalse(ours.get_layer("frozen").trainable)

    def test_output_padding(self):
        """0 is not the same as none."""
        numpy.savez(self.path("data.npz"), x=random(8, 4, 3, 2), y=random(8, 2, seed=4))
        self.train("name: t\ndata: {train: data.npz, label: {x: x, y: y}, batch: 8}\nmodel:\n"
                   "  - conv2d_transpose: {filters: 2, kernel: [2, 3], stride: 3, output_padding: 1}\n"
                   "  - conv2d_transpose: {filters: 3, kernel: 3, stride: 2, padding: same, "
                   "output_padding: 1}\n"
                   "  - conv2d_transpose: {filters: 3, kernel: 3, stride: 2, padding: same, "
                   "output_padding: 0}\n"
                   "  - conv2d_transpose: {filters: 3, kernel: 3, stride: 2, padding: same}\n"
                   "  - flatten:\n  - dense: {units: 2}\ntrain: {loss: mse, epochs: 1}\n", "--quiet")
        self.run_program("weights", self.path("runs", "t"), "--to", self.path("t.keras"))
        model = keras.models.load_model(self.path("t.keras"))
        x = random(BATCH, 4, 3, 2)
        self.close(self.ours(self.path("t.keras"), x), self.theirs(model, x), "predictions")

    def test_wrappers_masks_and_volumes(self):
        sequence = [layers.Masking(name="m"), layers.Normalization(name="n"),
                    layers.Bidirectional(layers.LSTM(3, return_sequences=True, dropout=0.1), merge_mode="ave",
                                         name="both"),
                    layers.Dropout(0.2, noise_shape=(None, 1, 3), name="drop"),
                    layers.TimeDistributed(layers.Dense(4, activation="mish"), name="each"),
                    layers.Bidirectional(layers.GRU(2, use_bias=False), name="again")]
        # Not padded in front of the convolution: TensorFlow's graphs then compute something else than it does eagerly.
        volume = [layers.Conv3D(3, (2, 3, 1), padding="same", activation="hard_silu", name="c"),
                  layers.MaxPooling3D(2, name="p"), layers.ZeroPadding3D(((1, 0), (0, 1), (2, 1)), name="z"),
                  layers.Cropping3D(((0, 1), (0, 0), (1, 0)), name="x"),
                  layers.GlobalAveragePooling3D(name="g")]
        for shape, stack in (((6, 3), sequence), ((4, 4, 5, 2), volume)):
            model = keras.Sequential([keras.Input(shape), *stack])
            x = random(BATCH, *shape)
            x[:2, 3:] = 0
            if stack is sequence:
                stack[1].adapt(random(50, *shape))
                model = keras.Sequential([keras.Input(shape), *stack])
            model.save(self.path("m.keras"))
            wanted = self.theirs(model, x)
            self.close(self.ours(self.path("m.keras"), x), wanted, "loaded")
            self.run_program("weights", self.path("m.keras"), "--to", self.path("back.keras"))
            again = keras.models.load_model(self.path("back.keras"))
            self.close(self.theirs(again, x), wanted, "written")
            self.run_program("weights", self.path("m.keras"), "--to", self.path("back.safetensors"))
            self.close(self.ours(self.path("back.safetensors"), x), wanted, "kept")

    def test_a_name_inside_and_outside(self):
        for first in ("inner", "outer"):
            inputs = keras.Input((4,))
            inner_in = keras.Input((4,))
            inner = keras.Model(inner_in, layers.Dense(4, activation="tanh", name="same")(inner_in), name="inner")
            same = layers.Dense(4, activation="relu", name="same")
            value = same(inner(inputs)) if first == "inner" else inner(same(inputs))
            model = keras.Model(inputs, value)
            model.save(self.path("m.keras"))
            x = random(BATCH, 4)
            self.close(self.ours(self.path("m.keras"), x), self.theirs(model, x), first)

    def test_what_cannot_be_had_is_listed(self):
        inputs = keras.Input((6, 4))
        shared = layers.Dense(4, name="shared")
        value = shared(shared(inputs))
        value = layers.Lambda(lambda v: v * 2, name="code")(value)
        value = layers.Bidirectional(layers.LSTM(3), merge_mode=None, name="both")(value)
        keras.Model(inputs, value).save(self.path("m.keras"))
        numpy.save(self.path("x.npy"), random(BATCH, 6, 4))
        text = self.run_program("predict", self.path("m.keras"), "x.npy", "--to", "y.npy",
                                status=1).stderr
        self.assertIn("2 layers cannot be loaded", text)
        for part in ("Lambda 'code' (it is code",
                     "Bidirectional 'both' (its merge_mode is null"):
            self.assertIn(part, text)


if __name__ == "__main__":
    unittest.main()
