"""TensorFlow's training step for the networks of the engine benchmark, as Keras layers in one tf.function.

    engine_tf.py NETWORK THREADS function|xla

A worker, as engine.py, which has the networks in words.
"""
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
THREADS = int(sys.argv[2])

import tensorflow as tf  # noqa: E402 the level of its log is read when it is loaded
from keras import layers as L  # noqa: E402

from lines import answer  # noqa: E402


def convolve(x, filters, size, stride=1, groups=1, activation="relu", bias=True):
    if groups == filters == x.shape[-1] and size == 3:
        return L.DepthwiseConv2D(3, stride, "same", activation=activation)(x)
    return L.Conv2D(filters, size, stride, "same", groups=groups, activation=activation, use_bias=bias)(x)


def pooled(x):
    return L.Dense(10)(L.GlobalAveragePooling2D()(x))


def m3(x):
    for filters in (32, 64):
        x = L.MaxPooling2D()(L.Conv2D(filters, 3, activation="relu")(x))
    return L.Dense(10)(L.Dense(128, activation="relu")(L.Flatten()(x)))


def m4(x):
    for _ in range(2):
        x = L.Dense(512, activation="relu")(x)
    return L.Dense(10)(x)


def m5a(x):
    for _ in range(2):
        normal = L.LayerNormalization()(x)
        x = L.Add()([x, L.MultiHeadAttention(4, 32)(normal, normal)])
        normal = L.LayerNormalization()(x)
        x = L.Add()([x, L.Dense(128)(L.Dense(512, activation="relu")(normal))])
    return x


def m5b(x):
    x = convolve(x, 32, 3)
    for filters in (32, 64):
        x = convolve(x, 64, 3, 2) if filters == 64 else x
        for _ in range(2):
            x = L.ReLU()(L.Add()([x, convolve(convolve(x, filters, 3), filters, 3, activation=None)]))
    return pooled(x)


def mobile(x):
    x = convolve(x, 32, 3)
    for inputs, outputs, stride in [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1)]:
        x = convolve(convolve(x, inputs, 3, stride, groups=inputs), outputs, 1)
    return pooled(x)


def grouped(x):
    x = convolve(x, 64, 3)
    for _ in range(2):
        body = convolve(convolve(convolve(x, 128, 1), 128, 3, groups=32), 64, 1, activation=None)
        x = L.ReLU()(L.Add()([x, body]))
    return pooled(x)


def normalized(x, filters, size, stride=1):
    return L.BatchNormalization()(convolve(x, filters, size, stride, activation=None, bias=False))


def resnet18(x):
    x = L.ReLU()(normalized(x, 64, 3))
    for filters in (64, 128, 256, 512):
        for stride in (1 if filters == 64 else 2, 1):
            body = normalized(L.ReLU()(normalized(x, filters, 3, stride)), filters, 3)
            x = L.ReLU()(L.Add()([body, normalized(x, filters, 1, 2) if stride == 2 else x]))
    return pooled(x)


NETWORKS = {  # batch and shape of the input, the layers, the number of classes (0: a regression)
    "M1": ((32, 5), lambda x: L.Dense(5)(L.Dense(10, activation="relu")(x)), 0),
    "M2": ((10, 10), lambda x: L.Dense(1)(L.Dense(64, activation="relu")(x)), 0),
    "M3": ((64, 28, 28, 1), m3, 10),
    "M4": ((128, 784), m4, 10),
    "M5a": ((32, 64, 128), m5a, 0),
    "M5b": ((32, 32, 32, 3), m5b, 10),
    "mobile": ((32, 32, 32, 3), mobile, 10),
    "grouped": ((32, 32, 32, 3), grouped, 10),
    "adding": ((64, 50, 2), lambda x: L.Dense(1)(L.LSTM(64)(x)), 0),
    "text": ((32, 100), lambda x: L.Dense(2)(L.GRU(64)(L.Embedding(5000, 64)(x))), 2),
    "resnet18": ((16, 32, 32, 3), resnet18, 10),
}


def make_step(network, xla):
    import keras
    keras.utils.set_random_seed(1)
    shape, build, classes = NETWORKS[network]
    entry = keras.Input(shape[1:])
    model = keras.Model(entry, build(entry))
    x = tf.random.uniform(shape, 0, 5000, tf.int32) if network == "text" else tf.random.normal(shape)
    if classes:
        y = tf.random.uniform(shape[:1], 0, classes, tf.int32)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    else:
        y, loss_of = tf.random.normal(model(x).shape), keras.losses.MeanSquaredError()
    optimizer = keras.optimizers.Adam(0.001, epsilon=1e-7)
    optimizer.build(model.trainable_variables)

    @tf.function(jit_compile=xla)
    def step():
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    return lambda: step().numpy()


def main():
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)
    answer(make_step(sys.argv[1], sys.argv[3] == "xla"))


main()
