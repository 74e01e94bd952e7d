"""Layers of sequences and volumes, wrappers and masks, beside Keras (see keras_case.py)."""
import unittest

import keras
import numpy
from keras import layers
from keras_case import EXAMPLES, KerasCase, random


def gappy(*shape):
    """Sequences of random length, with zeros behind and now and then in between."""
    x = random(*shape)
    generator = numpy.random.default_rng(4)
    for row in x:
        row[generator.integers(2, shape[1] + 1):] = 0
        row[generator.integers(1, shape[1])] = 0
    return x


class Layers(KerasCase):
    def sequences(self, build, text, shape, x=None, **options):
        inputs = keras.Input(shape)
        model = keras.Model(inputs, build(inputs))
        x = gappy(EXAMPLES, *shape) if x is None else x
        y = random(EXAMPLES, *model.output.shape[1:], seed=9)
        self.compare(model, text, x, y, keras.losses.MeanSquaredError(), "mse", **options)

    def chain(self, *steps):
        def build(value):
            for step in steps:
                value = step(value)
            return value
        return build

    def test_every_activation_of_keras(self):
        for function in ("hard_silu", "hard_tanh", "hard_shrink", "soft_shrink", "tanh_shrink", "mish", "celu",
                         "log_sigmoid", "squareplus", "sparse_plus", "sparse_sigmoid"):
            with self.subTest(function):
                self.setUp()
                self.stack(layers.Dense(6, activation=function, name="a"), layers.Dense(3, name="b"), shape=(5,),
                           text=[f"dense: {{name: a, units: 6, activation: {function}}}",
                                 "dense: {name: b, units: 3}"])

    def test_bidirectional(self):
        for kind, name, merge, sequences in ((layers.LSTM, "lstm", "concat", True), (layers.GRU, "gru", "sum", False),
                                             (layers.SimpleRNN, "simple_rnn", "mul", True),
                                             (layers.LSTM, "lstm", "ave", False), (layers.GRU, "gru", "concat", True)):
            with self.subTest(f"{name} {merge} {sequences}"):
                self.setUp()
                self.stack(layers.Bidirectional(kind(4, return_sequences=sequences), merge_mode=merge, name="both"),
                           layers.Dense(3, name="d"), shape=(6, 2),
                           text=[f"bidirectional: {{name: both, layer: {name}, units: 4, "
                                 f"return_sequences: {str(sequences).lower()}, merge_mode: {merge}}}",
                                 "dense: {name: d, units: 3}"])

    def test_time_distributed(self):
        self.stack(layers.TimeDistributed(layers.Conv2D(4, 3, strides=2, activation="tanh"), name="c"),
                   layers.TimeDistributed(layers.BatchNormalization(), name="n"),
                   layers.TimeDistributed(layers.Flatten(), name="f"),
                   layers.TimeDistributed(layers.Dense(5, activation="relu"), name="d"),
                   layers.LSTM(3, name="r"), shape=(4, 7, 6, 2),
                   text=["time_distributed: {name: c, layer: conv2d, filters: 4, kernel: 3, stride: 2, "
                         "activation: tanh}",
                         "time_distributed: {name: n, layer: batch_normalization}",
                         "time_distributed: {name: f, layer: flatten}",
                         "time_distributed: {name: d, layer: dense, units: 5, activation: relu}",
                         "lstm: {name: r, units: 3}"])

    def test_masks_through_recurrent_layers(self):
        for kind, name in ((layers.LSTM, "lstm"), (layers.GRU, "gru"), (layers.SimpleRNN, "simple_rnn")):
            with self.subTest(name):
                self.setUp()
                self.sequences(self.chain(layers.Masking(name="m"), kind(4, return_sequences=True, name="a"),
                                          kind(4, go_backwards=True, name="b"), layers.Dense(3, name="d")),
                               shape=(6, 2),
                               text=["masking: {name: m}", f"{name}: {{name: a, units: 4, return_sequences: true}}",
                                     f"{name}: {{name: b, units: 4, go_backwards: true}}",
                                     "dense: {name: d, units: 3}"])

    def test_masks_reach_losses_and_normalization(self):
        self.sequences(self.chain(layers.Masking(name="m"), layers.LSTM(4, return_sequences=True, name="a"),
                                  layers.BatchNormalization(name="n"), layers.Dense(5, activation="tanh", name="c"),
                                  layers.LayerNormalization(name="l"),
                                  layers.TimeDistributed(layers.Dense(3), name="d")), shape=(6, 2),
                       text=["masking: {name: m}", "lstm: {name: a, units: 4, return_sequences: true}",
                             "batch_normalization: {name: n}", "dense: {name: c, units: 5, activation: tanh}",
                             "layer_normalization: {name: l}",
                             "time_distributed: {name: d, layer: dense, units: 3}"])

    def test_masks_in_both_directions(self):
        self.sequences(self.chain(layers.Masking(name="m"),
                                  layers.Bidirectional(layers.GRU(4, return_sequences=True), name="a"),
                                  layers.Bidirectional(layers.LSTM(3), merge_mode="sum", name="b")), shape=(6, 2),
                       text=["masking: {name: m}",
                             "bidirectional: {name: a, layer: gru, units: 4, return_sequences: true}",
                             "bidirectional: {name: b, layer: lstm, units: 3, merge_mode: sum}"])

    def test_masks_in_attention_and_pooling(self):
        def build(value):
            value = layers.Masking(name="m")(value)
            value = layers.Dense(4, name="d")(value)
            value = layers.MultiHeadAttention(2, 3, name="h")(value, value, use_causal_mask=True)
            return layers.GlobalAveragePooling1D(name="g")(value)
        self.sequences(build, shape=(6, 2),
                       text=["masking: {name: m}", "dense: {name: d, units: 4}",
                             "multi_head_attention: {name: h, heads: 2, key_dim: 3, causal: true}",
                             "global_average_pool1d: {name: g}"])

    def test_embedding_masks_zero(self):
        words = numpy.random.default_rng(3).integers(0, 5, (EXAMPLES, 7)).astype("float32")
        words[:, 0] = 1
        self.sequences(self.chain(layers.Embedding(5, 4, mask_zero=True, name="e"), layers.LSTM(4, name="a"),
                                  layers.Dense(3, name="d")), shape=(7,), x=words,
                       text=["embedding: {name: e, vocabulary: 5, width: 4, mask_zero: true}",
                             "lstm: {name: a, units: 4}", "dense: {name: d, units: 3}"])

    def test_masks_of_merged_sequences(self):
        def build(value):
            value = layers.Masking(name="m")(value)
            a = layers.LSTM(4, return_sequences=True, name="a")(value)
            b = layers.GRU(4, return_sequences=True, name="b")(value)
            joined = layers.Concatenate(name="c")([layers.Add(name="s")([a, b]), b])
            return layers.LSTM(3, name="r")(joined)
        self.sequences(build, shape=(6, 2),
                       text=["masking: {name: m}", "lstm: {name: a, units: 4, return_sequences: true}",
                             "gru: {name: b, units: 4, return_sequences: true, from: m}",
                             "add: {name: s, from: [a, b]}", "concatenate: {name: c, from: [s, b]}",
                             "lstm: {name: r, units: 3}"])

    MERGES = (layers.Add, layers.Subtract, layers.Average, layers.Multiply, layers.Maximum, layers.Minimum,
              layers.Concatenate)

    def merged(self, kind, which, after, after_text):
        """Two masks that differ (m, n) and an input without one (u), merged as `which` says."""
        kinds = {"m": (lambda: layers.Masking(name="m"), "masking: {name: m, from: input}"),
                 "n": (lambda: layers.Masking(1.0, name="n"), "masking: {name: n, mask_value: 1, from: input}"),
                 "u": (lambda: layers.Dense(2, activation="tanh", name="u"),
                       "dense: {name: u, units: 2, activation: tanh, from: input}")}
        used = sorted(set(which))

        def build(value):
            mixed = {name: layers.Dense(3, name=name + "d")(kinds[name][0]()(value)) for name in used}
            return after(kind(name="s")([mixed[name] for name in which]))
        self.sequences(build, shape=(6, 2), x=self.two_gaps(), text=[
            *(kinds[name][1] for name in used),
            *(f"dense: {{name: {name}d, units: 3, from: {name}}}" for name in used),
            f"{kind.__name__.lower()}: {{name: s, from: [{', '.join(name + 'd' for name in which)}]}}", after_text])

    def two_gaps(self):
        """Steps of zeros, of ones, and of neither; the first step counts."""
        x = numpy.random.default_rng(8).standard_normal((EXAMPLES, 6, 2)).astype("float32")
        kinds = numpy.random.default_rng(9).integers(0, 4, (EXAMPLES, 6))
        kinds[:, 0] = 3
        x[kinds == 0] = 0
        x[kinds == 1] = 1
        return x

    def test_masks_that_differ_are_merged(self):
        for kind in self.MERGES:
            for which in ("mn", "mu", "un", "mm"):
                with self.subTest(f"{kind.__name__} {which}"):
                    self.setUp()
                    self.merged(kind, which, layers.LSTM(3, name="r"), "lstm: {name: r, units: 3}")

    def test_masks_of_three_inputs_are_merged(self):
        for kind in (layers.Multiply, layers.Maximum, layers.Minimum):
            for which in ("mnm", "mun", "unm", "mnu"):
                with self.subTest(f"{kind.__name__} {which}"):
                    self.setUp()
                    self.merged(kind, which, layers.GRU(3, name="r"), "gru: {name: r, units: 3}")

    def test_merged_masks_reach_pools_and_losses(self):
        for kind in self.MERGES:
            for after, text in ((layers.GlobalAveragePooling1D(name="g"), "global_average_pool1d: {name: g}"),
                                (layers.Dense(3, name="g"), "dense: {name: g, units: 3}")):
                with self.subTest(f"{kind.__name__} {text}"):
                    self.setUp()
                    self.merged(kind, "mn", after, text)

    def test_gates_and_states_with_any_activation(self):
        for kind, name in ((layers.LSTM, "lstm"), (layers.GRU, "gru")):
            for activation, gates in (("softmax", "linear"), ("relu", "softmax")):
                with self.subTest(f"{name} {activation} {gates}"):
                    self.setUp()
                    self.stack(kind(3, activation=activation, recurrent_activation=gates, name="a"), shape=(5, 2),
                               optimizer=keras.optimizers.SGD(0.01), our_optimizer="{sgd: {learning_rate: 0.01}}",
                               text=[f"{name}: {{name: a, units: 3, activation: {activation}, "
                                     f"recurrent_activation: {gates}}}"])

    def test_volumes(self):
        self.stack(layers.ZeroPadding3D(((0, 1), (1, 0), (2, 1)), name="z"),
                   layers.Conv3D(4, 3, padding="same", strides=(2, 1, 2), activation="tanh", name="a"),
                   layers.Conv3D(4, (2, 3, 1), groups=2, name="b"),
                   # of several largest, the first gets the gradient here, each gets all of it in TensorFlow
                   layers.MaxPooling3D((1, 2, 2), padding="same", name="m"), layers.UpSampling3D((1, 2, 2), name="u"),
                   layers.Conv3D(4, 2, dilation_rate=(1, 2, 1), padding="same", use_bias=False, name="c"),
                   layers.Cropping3D(((0, 1), (1, 0), (0, 1)), name="x"),
                   layers.AveragePooling3D(2, strides=1, padding="same", name="p"),
                   layers.Flatten(name="f"), layers.Dense(3, name="d"), shape=(6, 5, 7, 2),
                   text=["zero_padding3d: {name: z, back: 1, top: 1, left: 2, right: 1}",
                         "conv3d: {name: a, filters: 4, kernel: 3, padding: same, stride: [2, 1, 2], "
                         "activation: tanh}",
                         "conv3d: {name: b, filters: 4, kernel: [2, 3, 1], groups: 2}",
                         "max_pool3d: {name: m, size: [1, 2, 2], padding: same}",
                         "up_sampling3d: {name: u, size: [1, 2, 2]}",
                         "conv3d: {name: c, filters: 4, kernel: 2, dilation: [1, 2, 1], padding: same, "
                         "use_bias: false}",
                         "cropping3d: {name: x, back: 1, top: 1, right: 1}",
                         "average_pool3d: {name: p, size: 2, stride: 1, padding: same}",
                         "flatten: {name: f}", "dense: {name: d, units: 3}"])

    def test_transposed_over_steps_and_volumes(self):
        self.stack(layers.Conv1DTranspose(4, 3, strides=2, padding="same", activation="tanh", name="a"),
                   layers.UpSampling1D(2, name="u"), layers.DepthwiseConv1D(3, depth_multiplier=2, name="b"),
                   layers.SeparableConv1D(3, 2, strides=2, padding="same", name="c"),
                   layers.Conv1DTranspose(3, 2, strides=3, name="d"), shape=(4, 2),
                   text=["conv1d_transpose: {name: a, filters: 4, kernel: 3, stride: 2, padding: same, "
                         "activation: tanh}", "up_sampling1d: {name: u}",
                         "depthwise_conv1d: {name: b, kernel: 3, multiplier: 2}",
                         "separable_conv1d: {name: c, filters: 3, kernel: 2, stride: 2, padding: same}",
                         "conv1d_transpose: {name: d, filters: 3, kernel: 2, stride: 3}"])
        self.setUp()
        self.stack(layers.Conv3DTranspose(3, (3, 2, 2), strides=(2, 1, 2), activation="tanh", name="a"),
                   layers.Conv3DTranspose(3, (2, 3, 1), strides=(3, 2, 1), padding="same", name="b"), shape=(2, 3, 3, 2),
                   text=["conv3d_transpose: {name: a, filters: 3, kernel: [3, 2, 2], stride: [2, 1, 2], "
                         "activation: tanh}",
                         "conv3d_transpose: {name: b, filters: 3, kernel: [2, 3, 1], stride: [3, 2, 1], "
                         "padding: same}"])

    def test_moved_scaled_and_cut_off(self):
        self.stack(layers.Dense(6, name="a"), layers.PReLU(name="p"), layers.RepeatVector(4, name="r"),
                   layers.Permute((2, 1), name="m"), layers.Dense(5, name="b"),
                   layers.ReLU(1.0, negative_slope=0.25, threshold=0.1, name="l"),
                   layers.RMSNormalization(name="n"), layers.PReLU(shared_axes=[1], name="q"),
                   layers.UnitNormalization(axis=1, name="w"), layers.Dense(3, name="c"), shape=(5,), tolerance=3e-5,
                   text=["dense: {name: a, units: 6}", "prelu: {name: p}", "repeat_vector: {name: r, n: 4}",
                         "permute: {name: m, dims: [2, 1]}", "dense: {name: b, units: 5}",
                         "relu: {name: l, max_value: 1, negative_slope: 0.25, threshold: 0.1}",
                         "rms_normalization: {name: n}", "prelu: {name: q, shared_axes: [1]}",
                         "unit_normalization: {name: w, axis: 1}", "dense: {name: c, units: 3}"])

    def test_attention_without_projections(self):
        for kind, word, options, ours in (
                (layers.Attention, "attention", {}, ""),
                (layers.Attention, "attention", {"use_scale": True, "score_mode": "concat"},
                 ", use_scale: true, score_mode: concat"),
                (layers.AdditiveAttention, "additive_attention", {}, "")):
            with self.subTest(word + ours):
                self.setUp()

                def build(value):
                    value = layers.Masking(name="m")(value)
                    query = layers.Dense(4, activation="tanh", name="q")(value)
                    key = layers.Dense(4, name="k")(value)
                    mixed = kind(name="a", **options)([query, value, key], use_causal_mask=True)
                    return layers.Dense(3, name="d")(mixed)
                x = random(EXAMPLES, 6, 2)
                x[:, 4:] = 0
                self.sequences(build, shape=(6, 2), x=x,
                               text=["masking: {name: m}", "dense: {name: q, units: 4, activation: tanh}",
                                     "dense: {name: k, units: 4, from: m}",
                                     f"{word}: {{name: a, from: [q, m, k], causal: true{ours}}}",
                                     "dense: {name: d, units: 3}"])

    def test_pooling_all_of_a_volume(self):
        for kind, name in ((layers.GlobalAveragePooling3D, "average"), (layers.GlobalMaxPooling3D, "max")):
            with self.subTest(name):
                self.setUp()
                self.stack(layers.Conv3D(3, 2, name="a"), kind(name="g"), shape=(4, 4, 5, 2),
                           text=["conv3d: {name: a, filters: 3, kernel: 2}", f"global_{name}_pool3d: {{name: g}}"])


if __name__ == "__main__":
    unittest.main()
