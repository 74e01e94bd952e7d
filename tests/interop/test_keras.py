"""Networks trained by Keras and by tapedeck train (see keras_case.py): layers, losses, optimizers."""
import unittest

import keras
import numpy
from keras import layers
from keras_case import EXAMPLES, KerasCase, random


class Keras(KerasCase):
    def test_dense_with_every_activation(self):
        for function in ("relu", "leaky_relu", "elu", "selu", "gelu", "softplus", "sigmoid", "tanh",
                         "silu", "softmax", "log_softmax", "exponential", "hard_sigmoid",
                         "softsign", "relu6", "linear"):
            with self.subTest(function):
                self.setUp()
                ours = {"silu": "swish"}.get(function, function)
                rate = 0.001 if function == "exponential" else 0.05  # it blows up
                self.stack(layers.Dense(6, activation=function, name="a"),
                           layers.Dense(3, name="b"), shape=(5,),
                           optimizer=keras.optimizers.SGD(rate),
                           our_optimizer=f"{{sgd: {{learning_rate: {rate}}}}}",
                           text=[f"dense: {{name: a, units: 6, activation: {ours}}}",
                                 "dense: {name: b, units: 3}"])

    def test_convolutions(self):
        self.stack(layers.Conv2D(6, 3, strides=2, padding="same", activation="relu", name="a"),
                   layers.Conv2D(4, (2, 3), dilation_rate=(2, 1), padding="same", name="b"),
                   layers.Conv2D(4, 3, groups=2, activation="tanh", name="c"),
                   layers.Flatten(name="f"), layers.Dense(3, name="d"), shape=(11, 9, 2),
                   text=["conv2d: {name: a, filters: 6, kernel: 3, stride: 2, padding: same, "
                         "activation: relu}",
                         "conv2d: {name: b, filters: 4, kernel: [2, 3], dilation: [2, 1], "
                         "padding: same}",
                         "conv2d: {name: c, filters: 4, kernel: 3, groups: 2, activation: tanh}",
                         "flatten: {name: f}", "dense: {name: d, units: 3}"])

    def test_convolution_over_time(self):
        self.stack(layers.Conv1D(5, 3, padding="causal", dilation_rate=2, activation="tanh",
                                 name="a"),
                   layers.Conv1D(3, 4, strides=2, padding="same", name="b"), shape=(10, 2),
                   text=["conv1d: {name: a, filters: 5, kernel: 3, padding: causal, dilation: 2, "
                         "activation: tanh}",
                         "conv1d: {name: b, filters: 3, kernel: 4, stride: 2, padding: same}"])

    def test_transposed_convolution_and_up_sampling(self):
        self.stack(layers.Conv2DTranspose(4, 3, strides=2, padding="same", activation="relu",
                                          name="a"),
                   layers.UpSampling2D(2, interpolation="bilinear", name="u"),
                   layers.Conv2DTranspose(2, 2, name="b"), layers.UpSampling2D((1, 2), name="v"),
                   layers.Conv2D(3, 3, name="c"), shape=(3, 4, 2),
                   text=["conv2d_transpose: {name: a, filters: 4, kernel: 3, stride: 2, "
                         "padding: same, activation: relu}",
                         "up_sampling2d: {name: u, size: 2, interpolation: bilinear}",
                         "conv2d_transpose: {name: b, filters: 2, kernel: 2}",
                         "up_sampling2d: {name: v, size: [1, 2]}",
                         "conv2d: {name: c, filters: 3, kernel: 3}"])

    def test_pooling(self):
        self.stack(layers.Conv2D(4, 3, name="a"),
                   layers.MaxPooling2D(3, strides=2, padding="same", name="m"),
                   layers.AveragePooling2D(2, padding="same", name="p"),
                   layers.Conv2D(3, 2, name="b"), layers.GlobalAveragePooling2D(name="g"),
                   shape=(12, 11, 2),
                   text=["conv2d: {name: a, filters: 4, kernel: 3}",
                         "max_pool2d: {name: m, size: 3, stride: 2, padding: same}",
                         "average_pool2d: {name: p, size: 2, padding: same}",
                         "conv2d: {name: b, filters: 3, kernel: 2}",
                         "global_average_pool2d: {name: g}"])

    def test_pooling_over_steps(self):
        self.stack(layers.Conv1D(4, 3, name="a"),
                   layers.MaxPooling1D(3, strides=2, padding="same", name="m"),
                   layers.AveragePooling1D(2, name="p"), layers.Conv1D(3, 2, name="b"),
                   layers.GlobalMaxPooling1D(keepdims=True, name="x"),
                   layers.GlobalAveragePooling1D(name="g"), shape=(15, 2),
                   text=["conv1d: {name: a, filters: 4, kernel: 3}",
                         "max_pool1d: {name: m, size: 3, stride: 2, padding: same}",
                         "average_pool1d: {name: p, size: 2}",
                         "conv1d: {name: b, filters: 3, kernel: 2}",
                         "global_max_pool1d: {name: x, keepdims: true}",
                         "global_average_pool1d: {name: g}"])

    def test_padding_rescaling_and_pooling_that_keeps_its_axes(self):
        self.stack(layers.Rescaling(0.5, offset=-0.25, name="s"), layers.Conv2D(4, 3, name="a"),
                   layers.ZeroPadding2D(((0, 1), (2, 3)), name="z"), layers.Conv2D(4, 3, name="b"),
                   layers.GlobalAveragePooling2D(keepdims=True, name="g"),
                   layers.Conv2D(3, 1, name="c"),
                   layers.GlobalMaxPooling2D(keepdims=True, name="m"), shape=(6, 5, 2),
                   text=["rescaling: {name: s, scale: 0.5, offset: -0.25}",
                         "conv2d: {name: a, filters: 4, kernel: 3}",
                         "zero_padding2d: {name: z, bottom: 1, left: 2, right: 3}",
                         "conv2d: {name: b, filters: 4, kernel: 3}",
                         "global_average_pool2d: {name: g, keepdims: true}",
                         "conv2d: {name: c, filters: 3, kernel: 1}",
                         "global_max_pool2d: {name: m, keepdims: true}"])

    def test_normalisation_trains_and_moves(self):
        self.stack(layers.Conv2D(4, 3, name="a"), layers.BatchNormalization(name="n"),
                   layers.Activation("relu", name="r"), layers.GlobalMaxPooling2D(name="g"),
                   layers.LayerNormalization(name="l"), layers.Dense(3, name="d"), shape=(6, 6, 2),
                   tolerance=5e-5,
                   text=["conv2d: {name: a, filters: 4, kernel: 3}",
                         "batch_normalization: {name: n}", "activation: {name: r, function: relu}",
                         "global_max_pool2d: {name: g}", "layer_normalization: {name: l}",
                         "dense: {name: d, units: 3}"])

    def test_recurrent_layers(self):
        kinds = {"simple_rnn": layers.SimpleRNN, "lstm": layers.LSTM, "gru": layers.GRU}
        for name, kind in kinds.items():
            with self.subTest(name):
                self.setUp()
                self.stack(kind(5, return_sequences=True, name="a"),
                           kind(4, go_backwards=True, name="b"), layers.Dense(3, name="d"),
                           shape=(12, 3), tolerance=1e-4,
                           text=[f"{name}: {{name: a, units: 5, return_sequences: true}}",
                                 f"{name}: {{name: b, units: 4, go_backwards: true}}",
                                 "dense: {name: d, units: 3}"])

    def test_gru_that_resets_before(self):
        self.stack(layers.GRU(5, reset_after=False, name="a"), layers.Dense(3, name="d"),
                   shape=(9, 3), tolerance=1e-4,
                   text=["gru: {name: a, units: 5, reset_after: false}",
                         "dense: {name: d, units: 3}"])

    def test_a_graph_adds_multiplies_and_concatenates(self):
        def build(value):
            a = layers.Dense(4, activation="tanh", name="a")(value)
            b = layers.Dense(4, activation="relu", name="b")(value)
            summed = layers.Add(name="s")([a, b])
            product = layers.Multiply(name="p")([summed, a])
            both = layers.Concatenate(name="c")([product, b])
            return layers.Dense(3, name="d")(layers.Reshape((8,), name="r")(both))
        self.regression(build, shape=(5,), text=[
            "dense: {name: a, units: 4, activation: tanh}",
            "dense: {name: b, units: 4, activation: relu, from: input}",
            "add: {name: s, from: [a, b]}", "multiply: {name: p, from: [s, a]}",
            "concatenate: {name: c, from: [p, b]}", "reshape: {name: r, shape: [8]}",
            "dense: {name: d, units: 3}"])

    def test_channels_by_themselves_and_in_groups(self):
        self.stack(layers.DepthwiseConv2D(3, strides=2, depth_multiplier=2, padding="same",
                                          activation="relu", name="a"),
                   layers.GroupNormalization(groups=2, name="n"),
                   layers.SeparableConv2D(8, 3, depth_multiplier=2, activation="tanh", name="b"),
                   layers.GroupNormalization(groups=-1, center=False, name="m"),
                   layers.Flatten(name="f"), layers.Dense(3, name="d"), shape=(11, 9, 3),
                   tolerance=5e-5,
                   text=["depthwise_conv2d: {name: a, kernel: 3, stride: 2, multiplier: 2, "
                         "padding: same, activation: relu}",
                         "group_normalization: {name: n, groups: 2}",
                         "separable_conv2d: {name: b, filters: 8, kernel: 3, multiplier: 2, "
                         "activation: tanh}",
                         "group_normalization: {name: m, groups: -1, center: false}",
                         "flatten: {name: f}", "dense: {name: d, units: 3}"])

    def test_borders(self):
        self.stack(layers.Conv2D(4, 2, name="a"), layers.Cropping2D(((1, 0), (2, 1)), name="x"),
                   layers.Reshape((15, 4), name="r"), layers.ZeroPadding1D((1, 3), name="z"),
                   layers.Conv1D(3, 3, name="b"), layers.Cropping1D((2, 1), name="y"),
                   shape=(7, 7, 2),
                   text=["conv2d: {name: a, filters: 4, kernel: 2}",
                         "cropping2d: {name: x, top: 1, left: 2, right: 1}",
                         "reshape: {name: r, shape: [15, 4]}",
                         "zero_padding1d: {name: z, before: 1, after: 3}",
                         "conv1d: {name: b, filters: 3, kernel: 3}",
                         "cropping1d: {name: y, before: 2, after: 1}"])

    def test_merging(self):
        def build(value):
            a = layers.Dense(4, activation="tanh", name="a")(value)
            b = layers.Dense(4, activation="relu", name="b")(value)
            s = layers.Subtract(name="s")([a, b])
            v = layers.Average(name="v")([a, b, s])
            m = layers.Maximum(name="m")([v, a])
            n = layers.Minimum(name="n")([m, b])
            g = layers.GlobalAveragePooling1D(name="g")(n)
            w = layers.Add(name="w")([n, g])
            t = layers.Multiply(name="t")([g, w])
            o = layers.Dot(axes=2, name="o")([t, a])
            p = layers.Dot(axes=(1, 2), normalize=True, name="p")([b, o])
            q = layers.Dot(axes=1, name="q")([g, p])
            c = layers.Concatenate(axis=-2, name="c")([t, a])
            h = layers.GlobalMaxPooling1D(name="h")(c)
            return layers.Dense(3, name="d")(layers.Concatenate(name="e")([q, h]))
        self.regression(build, shape=(6, 5), tolerance=2e-5, text=[
            "dense: {name: a, units: 4, activation: tanh}",
            "dense: {name: b, units: 4, activation: relu, from: input}",
            "subtract: {name: s, from: [a, b]}", "average: {name: v, from: [a, b, s]}",
            "maximum: {name: m, from: [v, a]}", "minimum: {name: n, from: [m, b]}",
            "global_average_pool1d: {name: g, from: n}", "add: {name: w, from: [n, g]}",
            "multiply: {name: t, from: [g, w]}", "dot: {name: o, axes: 2, from: [t, a]}",
            "dot: {name: p, axes: [1, 2], normalize: true, from: [b, o]}",
            "dot: {name: q, axes: 1, from: [g, p]}",
            "concatenate: {name: c, axis: -2, from: [t, a]}",
            "global_max_pool1d: {name: h, from: c}", "concatenate: {name: e, from: [q, h]}",
            "dense: {name: d, units: 3}"])

    def test_a_transformer_block(self):
        def build(value):
            n = layers.LayerNormalization(name="n")(value)
            a = layers.MultiHeadAttention(2, 4, name="a")(n, n)
            s = layers.Add(name="s")([value, a])
            m = layers.LayerNormalization(name="m")(s)
            f = layers.Dense(6, name="g")(layers.Dense(12, activation="gelu", name="f")(m))
            t = layers.Add(name="t")([s, f])
            return layers.Dense(3, name="d")(t)
        self.regression(build, shape=(8, 6), tolerance=5e-5, text=[
            "layer_normalization: {name: n}",
            "multi_head_attention: {name: a, heads: 2, key_dim: 4}", "add: {name: s, from: [input, a]}",
            "layer_normalization: {name: m}", "dense: {name: f, units: 12, activation: gelu}",
            "dense: {name: g, units: 6}", "add: {name: t, from: [s, g]}",
            "dense: {name: d, units: 3}"])

    def test_embedding(self):
        inputs = keras.Input((6,), dtype="int32")
        value = layers.Embedding(11, 5, name="e")(inputs)
        value = layers.LSTM(4, name="l")(value)
        model = keras.Model(inputs, layers.Dense(3, name="d")(value))
        x = numpy.random.default_rng(1).integers(0, 11, (EXAMPLES, 6)).astype("int32")
        self.compare(model, ["embedding: {name: e, vocabulary: 11, width: 5}",
                             "lstm: {name: l, units: 4}", "dense: {name: d, units: 3}"],
                     x, random(EXAMPLES, 3), keras.losses.MeanSquaredError(), "mse",
                     tolerance=1e-4)

    def classifier(self, last, y, loss, ours, outputs, **options):
        inputs = keras.Input((5,))
        value = layers.Dense(6, activation="tanh", name="a")(inputs)
        model = keras.Model(inputs, layers.Dense(outputs, activation=last, name="b")(value))
        text = ["dense: {name: a, units: 6, activation: tanh}",
                f"dense: {{name: b, units: {outputs}, activation: {last}}}"]
        self.compare(model, text, random(EXAMPLES, 5), y, loss, ours, **options)

    def test_losses(self):
        classes = (numpy.arange(EXAMPLES) * 7 % 4).astype("int64")
        one_hot = numpy.eye(4, dtype="float32")[classes]
        bits = (random(EXAMPLES, 2) > 0).astype("float32")
        shares = numpy.abs(random(EXAMPLES, 4)) + 0.1
        shares /= shares.sum(1, keepdims=True)
        losses, real = keras.losses, random(EXAMPLES, 4)
        table = [
            ("linear", real, losses.MeanAbsoluteError(), "mae", 4, False),
            ("linear", real, losses.Huber(), "huber", 4, False),
            ("linear", real, losses.LogCosh(), "log_cosh", 4, False),
            ("linear", real, losses.CosineSimilarity(), "cosine_similarity", 4, False),
            ("linear", real + 3, losses.MeanAbsolutePercentageError(), "mape", 4, False),
            ("softplus", shares, losses.MeanSquaredLogarithmicError(), "msle", 4, False),
            ("softplus", shares, losses.Poisson(), "poisson", 4, False),
            ("linear", bits, losses.Hinge(), "hinge", 2, False),
            ("tanh", 2 * bits - 1, losses.SquaredHinge(), "squared_hinge", 2, False),
            ("linear", one_hot, losses.CategoricalHinge(), "categorical_hinge", 4, False),
            ("hard_sigmoid", bits, losses.BinaryFocalCrossentropy(), "binary_focal_crossentropy", 2,
             False),  # of a sigmoid Keras differentiates the logits instead
            ("linear", bits, losses.BinaryFocalCrossentropy(True, 0.3, 1.5, from_logits=True),
             "{binary_focal_crossentropy: {gamma: 1.5, alpha: 0.3, balanced: true}}", 2, True),
            ("softmax", one_hot, losses.CategoricalFocalCrossentropy(),
             "categorical_focal_crossentropy", 4, False),
            ("linear", one_hot, losses.CategoricalFocalCrossentropy(0.5, 3, from_logits=True),
             "{categorical_focal_crossentropy: {gamma: 3, alpha: 0.5}}", 4, True),
            ("sigmoid", bits, losses.BinaryCrossentropy(), "binary_crossentropy", 2, False),
            ("linear", bits, losses.BinaryCrossentropy(True), "binary_crossentropy", 2, True),
            ("softmax", one_hot, losses.CategoricalCrossentropy(), "categorical_crossentropy", 4,
             False),
            ("linear", one_hot, losses.CategoricalCrossentropy(True), "categorical_crossentropy", 4,
             True),
            ("softmax", classes, losses.SparseCategoricalCrossentropy(),
             "sparse_categorical_crossentropy", 4, False),
            ("linear", classes, losses.SparseCategoricalCrossentropy(True),
             "sparse_categorical_crossentropy", 4, True),
            ("softmax", shares, losses.KLDivergence(), "kl_divergence", 4, False),
        ]
        for last, y, loss, ours, outputs, from_logits in table:
            with self.subTest(ours, from_logits=from_logits):
                self.setUp()
                self.classifier(last, y, loss, ours, outputs, from_logits=from_logits,
                                tolerance=2e-5)

    def test_optimizers(self):
        make = keras.optimizers
        table = [
            (make.SGD(0.05, momentum=0.9), "{sgd: {learning_rate: 0.05, momentum: 0.9}}"),
            (make.SGD(0.05, momentum=0.9, nesterov=True),
             "{sgd: {learning_rate: 0.05, momentum: 0.9, nesterov: true}}"),
            (make.Adam(0.01), "{adam: {learning_rate: 0.01}}"),
            (make.AdamW(0.01, weight_decay=0.02), "{adamw: {learning_rate: 0.01, weight_decay: 0.02}}"),
            (make.RMSprop(0.01), "{rmsprop: {learning_rate: 0.01}}"),
            (make.RMSprop(0.01, momentum=0.5), "{rmsprop: {learning_rate: 0.01, momentum: 0.5}}"),
            (make.Adagrad(0.05), "{adagrad: {learning_rate: 0.05}}"),
            (make.Adadelta(0.5, rho=0.9), "{adadelta: {learning_rate: 0.5, rho: 0.9}}"),
            (make.Adamax(0.01), "{adamax: {learning_rate: 0.01}}"),
            (make.Nadam(0.01), "{nadam: {learning_rate: 0.01}}"),
            (make.Lion(0.002), "{lion: {learning_rate: 0.002}}"),
        ]
        for theirs, ours in table:
            with self.subTest(ours):
                self.setUp()
                self.classifier("linear", random(EXAMPLES, 3), keras.losses.MeanSquaredError(),
                                "mse", 3, optimizer=theirs, our_optimizer=ours, tolerance=3e-5)

    def test_clipping_by_norm(self):
        self.classifier("linear", random(EXAMPLES, 3), keras.losses.MeanSquaredError(), "mse", 3,
                        optimizer=keras.optimizers.Adam(0.01, global_clipnorm=0.2),
                        our_optimizer="{adam: {learning_rate: 0.01}}", train="  clip_norm: 0.2\n",
                        tolerance=3e-5)


if __name__ == "__main__":
    unittest.main()
