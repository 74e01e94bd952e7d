"""Random networks, trained by Keras and here (see keras_case.py). NETWORKS=1000 FIRST=200 in the environment trains
others; a failure names the seed, which alone makes the network again: NETWORKS=1 FIRST=SEED.
"""
import json
import os
import random
import unittest

import keras
import numpy
from keras import layers
from keras_case import EXAMPLES, KerasCase

NETWORKS = int(os.environ.get("NETWORKS", "200"))
FIRST = int(os.environ.get("FIRST", "0"))

# Smooth, or with the kink at 0 that Keras has, too; not celu: at exactly 0, as behind a relu, TensorFlow adds the
# gradients of a maximum and a minimum and gets 2, where its derivative, ours and PyTorch's, is 1.
ACTIVATIONS = ("linear", "relu", "leaky_relu", "elu", "selu", "gelu", "softplus", "sigmoid", "tanh", "swish",
               "softsign", "exponential", "mish", "log_sigmoid", "squareplus", "softmax", "log_softmax")
INITIALIZERS = ("glorot_uniform", "he_normal", "lecun_normal", "random_normal", "ones")
# Of equal inputs of a maximum TensorFlow gives the error to the first, we and PyTorch half to each: none are equal here.
MERGES = (layers.Add, layers.Multiply, layers.Subtract, layers.Average, layers.Concatenate, layers.Maximum,
          layers.Minimum)


def word(name):
    """MaxPooling2D is max_pool2d here."""
    return {row["keras"]: row["name"] for row in WORDS}[name]


WORDS = []  # of tapedeck list layers --json


class Network:
    """A stack that grows layer by layer, in Keras and as lines of an experiment file."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = numpy.random.default_rng(seed)
        rank = self.random.choice((1, 1, 2, 2, 3, 3, 4))
        self.shape = {1: (5,), 2: (6, 4), 3: (6, 5, 4), 4: (4, 4, 3, 2)}[rank]
        self.inputs = self.value = keras.Input(self.shape)
        self.text = []
        self.normalizes = False
        self.gaps = ()  # values that whole steps of a sequence have
        if rank == 2 and self.any(True, False):
            self.mask()

    def any(self, *values):
        return self.random.choice(values)

    def add(self, kind, text=None, **options):
        """text: the options as they are spelt here, where that is another way."""
        name = f"l{len(self.text)}"
        value = kind(name=name, **options)(self.value)
        if any(size < 1 for size in value.shape[1:]):
            return
        self.value = value
        self.line(kind.__name__, name, options if text is None else text)

    def line(self, kind, name, options):
        self.text.append(f"{word(kind)}: {json.dumps({'name': name, **options})}")

    def activation(self):
        function = self.any(*ACTIVATIONS)
        self.normalizes |= "softmax" in function
        return function

    def weights(self):
        return {"activation": self.activation(), "use_bias": self.any(True, True, False),
                "kernel_initializer": self.any(*INITIALIZERS)}

    def rank(self):
        return len(self.value.shape) - 1

    def least(self):
        return min(self.value.shape[1:-1])

    def mask(self):
        """One mask, or two that differ and a merge of both."""
        self.gaps = self.any((0.0,), (0.0, 1.0))
        ends = []
        for value in self.gaps:
            name = f"l{len(self.text)}"
            self.value = layers.Masking(value, name=name)(self.inputs)
            self.line("Masking", name, {"mask_value": value, "from": "input"})
            if len(self.gaps) > 1:
                self.add(layers.Dense, units=3, activation="tanh")
            ends.append((self.value, f"l{len(self.text) - 1}"))
        if len(ends) > 1:
            kind, name = self.any(*MERGES), f"l{len(self.text)}"
            self.value = kind(name=name)([value for value, _ in ends])
            self.line(kind.__name__, name, {"from": [end for _, end in ends]})

    def data(self):
        x = self.numbers.standard_normal((EXAMPLES, *self.shape)).astype("float32")
        if self.gaps:
            kinds = self.numbers.integers(0, 3 + len(self.gaps), x.shape[:2])
            kinds[:, 0] = len(self.gaps)  # the first step counts
            for kind, value in enumerate(self.gaps):
                x[kinds == kind] = value
        return x

    # --- layers of any shape ---

    def dense(self):
        self.add(layers.Dense, units=self.any(2, 3, 6), **self.weights())

    def function(self):
        self.add(layers.Activation, activation=self.activation())

    def rescaling(self):
        self.add(layers.Rescaling, scale=self.any(0.5, -2.0), offset=self.any(0.0, 0.25))

    def layer_normalization(self):
        self.normalizes = True
        # more than a few values near each other, over a small epsilon, lose digits in both
        self.add(layers.LayerNormalization, epsilon=self.any(0.01, 0.1), scale=self.any(True, False),
                 center=self.any(True, False))

    def batch_normalization(self):
        self.normalizes = True
        self.add(layers.BatchNormalization, epsilon=self.any(0.01, 0.1), momentum=self.any(0.9, 0.5),
                 scale=self.any(True, False), center=self.any(True, False))

    def merged(self):
        kind = self.any(*MERGES)
        before, start = f"l{len(self.text) - 1}", self.value
        if not self.text:
            return
        self.add(layers.Dense, units=start.shape[-1], activation="tanh")
        name = f"l{len(self.text)}"
        self.value = kind(name=name)([start, self.value])
        self.line(kind.__name__, name, {"from": [before, f"l{len(self.text) - 1}"]})

    # --- sequences ---

    def recurrent(self):
        kind = self.any(layers.SimpleRNN, layers.LSTM, layers.GRU)
        options = {"units": self.any(2, 4), "return_sequences": self.any(True, False),
                   "activation": self.any("tanh", "sigmoid", "softsign"), "use_bias": self.any(True, False)}
        if kind is layers.GRU:
            options["reset_after"] = self.any(True, False)
        if self.any(True, False):
            return self.add(kind, go_backwards=self.any(True, False), **options)
        merge, name = self.any("concat", "sum", "mul", "ave"), f"l{len(self.text)}"
        self.value = layers.Bidirectional(kind(**options), merge_mode=merge, name=name)(self.value)
        return self.line("Bidirectional", name, {"layer": word(kind.__name__), "merge_mode": merge, **options})

    def attention(self):
        self.normalizes = True
        heads, width, causal, name = self.any(1, 2), self.any(2, 3), self.any(True, False), f"l{len(self.text)}"
        self.value = layers.MultiHeadAttention(heads, width, name=name)(self.value, self.value,
                                                                        use_causal_mask=causal)
        self.line("MultiHeadAttention", name, {"num_heads": heads, "key_dim": width, "causal": causal})

    def conv1d(self):
        stride, dilation = self.any((1, 1), (2, 1), (1, 2))
        self.add(layers.Conv1D, filters=self.any(2, 4), kernel_size=self.any(1, 2, 3), strides=stride,
                 dilation_rate=dilation, padding=self.any("same", "causal"), **self.weights())

    def edges1d(self):
        before, after = self.any(0, 1), self.any(1, 2)
        self.add(layers.ZeroPadding1D, {"before": before, "after": after}, padding=(before, after))
        if self.least() > 4:
            self.add(layers.Cropping1D, {"before": 1, "after": before}, cropping=(1, before))

    # --- pictures and volumes ---

    def window(self, most=3):
        stride, dilation = self.any((1, 1), (2, 1), (1, 2))
        return {"kernel_size": self.any(1, 2, most), "strides": stride, "dilation_rate": dilation,
                "padding": "same", **self.weights()}

    def conv2d(self):
        # without groups: Keras compiles each such layer anew, for a second or more
        self.add(layers.Conv2D, filters=self.any(2, 4), **self.window())

    def transpose2d(self):
        self.add(layers.Conv2DTranspose, filters=self.any(2, 3), kernel_size=self.any(2, 3), strides=self.any(1, 2),
                 padding=self.any("valid", "same"), **self.weights())

    def depthwise2d(self):
        options = self.window()
        options["strides"] = 1
        options["depthwise_initializer"] = options.pop("kernel_initializer")
        self.add(layers.DepthwiseConv2D, depth_multiplier=self.any(1, 2), **options)

    def edges2d(self):
        top, left = self.any(0, 1), self.any(0, 2)
        self.add(layers.ZeroPadding2D, {"top": top, "bottom": 1, "left": left, "right": 0},
                 padding=((top, 1), (left, 0)))
        if self.least() > 3:
            self.add(layers.Cropping2D, {"top": 1, "bottom": 0, "left": 0, "right": top},
                     cropping=((1, 0), (0, top)))

    def up2d(self):
        if self.least() < 7:
            self.add(layers.UpSampling2D, size=(self.any(1, 2), 2), interpolation=self.any("nearest", "bilinear"))

    def conv3d(self):
        self.add(layers.Conv3D, filters=self.any(2, 3), kernel_size=self.any(1, 2), strides=self.any(1, 2),
                 padding="same", **self.weights())

    def pool(self):
        rank = self.rank() - 1
        # of several largest in a volume the first has the gradient here, in TensorFlow each has all of it
        most = rank < 3 and self.any(True, False)
        kind = getattr(layers, f"{'Max' if most else 'Average'}Pooling{rank}D")
        self.add(kind, pool_size=2, strides=self.any(1, 2), padding="same")

    def pool_all(self):
        kind = getattr(layers, f"Global{self.any('Max', 'Average')}Pooling{self.rank() - 1}D")
        self.add(kind, keepdims=self.any(True, False))

    def flatten(self):
        self.add(layers.Flatten)

    def grow(self):
        anywhere = (self.dense, self.dense, self.function, self.rescaling, self.layer_normalization,
                    self.batch_normalization, self.merged)
        # an unusually shaped one is as likely as all that fit everywhere
        of_rank = {1: (self.dense,),
                   2: (self.recurrent, self.recurrent, self.attention, self.conv1d, self.edges1d, self.pool),
                   3: (self.conv2d, self.conv2d, self.transpose2d, self.depthwise2d, self.edges2d, self.up2d,
                       self.pool),
                   4: (self.conv3d, self.conv3d, self.pool)}
        for _ in range(self.random.randint(1, 3)):
            self.any(*self.any(anywhere, of_rank[self.rank()]))()
        if self.rank() > 1 and self.any(True, False):
            self.any(self.pool_all, self.flatten)()

    # --- what it is trained by ---

    def head(self):
        """A last layer, targets and a loss that fit each other: (y, Keras's loss, ours, from_logits)."""
        kind, logits = self.any(*HEADS), self.any(True, False)
        function, losses = HEADS[kind]
        if kind == "classes" and self.rank() > 1 and max(self.value.shape[1:-1]) == 1:
            self.flatten()  # a single class is the example's here: (N, 1, 1) does not fit (N, 1, 1, classes)
        self.add(layers.Dense, units=3, activation="linear" if logits and kind in LOGITS else function)
        shape = (EXAMPLES, *self.value.shape[1:])
        theirs, ours, options = self.any(*losses)
        if kind in LOGITS:
            options = {**options, "from_logits": logits}
        if kind == "values":
            y = self.numbers.standard_normal(shape)
        elif kind == "positive":
            y = self.numbers.uniform(0.1, 2, shape)
        elif kind == "two":
            y = self.numbers.integers(0, 2, shape)
        elif kind == "signs":
            y = 2 * self.numbers.integers(0, 2, shape) - 1
        elif kind == "classes":
            y = self.numbers.integers(0, 3, shape[:-1]).astype("int32")
        else:
            y = numpy.eye(3)[self.numbers.integers(0, 3, shape[:-1])]
        y = y if kind == "classes" else y.astype("float32")
        return y, getattr(keras.losses, theirs)(**options), ours, kind in LOGITS and logits

    def optimizer(self):
        """A gradient that is 0 but for rounding, as in front of what normalises, becomes a step of full size in
        those that divide by its size: they have an epsilon beside which it is nothing."""
        kinds = ("SGD",) if self.normalizes else ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adamax", "Nadam")
        kind = self.any(*kinds)
        options = {"learning_rate": self.any(0.01, 0.003)}
        if kind == "SGD":
            options.update(momentum=self.any(0.0, 0.9), nesterov=self.any(True, False))
            options["nesterov"] &= options["momentum"] > 0
        else:
            options["epsilon"] = 0.01
        return getattr(keras.optimizers, kind)(**options), json.dumps({kind.lower(): options})


LOGITS = ("two", "hot", "classes")
HEADS = {
    "values": ("linear", (("MeanSquaredError", "mse", {}), ("MeanAbsoluteError", "mae", {}), ("Huber", "huber", {}),
                          ("LogCosh", "log_cosh", {}))),
    "positive": ("softplus", (("Poisson", "poisson", {}), ("MeanSquaredLogarithmicError", "msle", {}))),
    "two": ("sigmoid", (("BinaryCrossentropy", "binary_crossentropy", {}),
                        ("BinaryCrossentropy", "{binary_crossentropy: {label_smoothing: 0.1}}",
                         {"label_smoothing": 0.1}))),
    "signs": ("linear", (("Hinge", "hinge", {}), ("SquaredHinge", "squared_hinge", {}))),
    "hot": ("softmax", (("CategoricalCrossentropy", "categorical_crossentropy", {}),
                        ("CategoricalCrossentropy", "{categorical_crossentropy: {label_smoothing: 0.1}}",
                         {"label_smoothing": 0.1}))),
    "classes": ("softmax", (("SparseCategoricalCrossentropy", "sparse_categorical_crossentropy", {}),)),
}


class Random(KerasCase):
    steps = 3

    def test_random_networks_train_as_in_keras(self):
        WORDS.extend(json.loads(self.run_program("layers", "--json").stdout))
        for seed in range(FIRST, FIRST + NETWORKS):
            network = Network(seed)
            network.grow()
            y, loss, ours, from_logits = network.head()
            optimizer, our_optimizer = network.optimizer()
            with self.subTest(seed=seed, model=network.text, loss=ours, optimizer=our_optimizer):
                self.setUp()
                self.compare(keras.Model(network.inputs, network.value), network.text, network.data(), y, loss, ours,
                             optimizer=optimizer, our_optimizer=our_optimizer, from_logits=from_logits)
            if seed % 50 == 49:
                keras.backend.clear_session()


if __name__ == "__main__":
    unittest.main()
