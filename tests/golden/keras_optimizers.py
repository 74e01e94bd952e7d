#!/usr/bin/env python3
"""Writes the golden values of optimizers' options that PyTorch has not or has otherwise, computed by Keras in float64.

    python3 tests/golden/keras_optimizers.py        # with keras and tensorflow; rewrites keras_optimizers.txt

The format is that of layers.py.
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras  # noqa: E402
import numpy as np  # noqa: E402

keras.config.set_floatx("float64")
STEPS = 20
SHAPES = ((3, 4), (4,), (5, 1, 2))
DECAY = {"weight_decay": 0.2}
CASES = [
    ("sgd", keras.optimizers.SGD, DECAY),
    ("sgd", keras.optimizers.SGD, {"momentum": 0.9, "nesterov": True, **DECAY}),
    ("adam", keras.optimizers.Adam, DECAY),
    ("adam", keras.optimizers.Adam, {"amsgrad": True, "beta_2": 0.5}),
    ("adamw", keras.optimizers.AdamW, {"amsgrad": True, "beta_2": 0.7}),
    ("adamw", keras.optimizers.AdamW, {"weight_decay": 0.0}),
    ("rmsprop", keras.optimizers.RMSprop, DECAY),
    ("rmsprop", keras.optimizers.RMSprop, {"centered": True}),
    ("rmsprop", keras.optimizers.RMSprop, {"centered": True, "momentum": 0.7, "rho": 0.5, "epsilon": 0.001}),
    ("adagrad", keras.optimizers.Adagrad, DECAY),
    ("adadelta", keras.optimizers.Adadelta, DECAY),
    ("adamax", keras.optimizers.Adamax, DECAY),
    ("nadam", keras.optimizers.Nadam, DECAY),
    ("lion", keras.optimizers.Lion, DECAY),
]
random = np.random.default_rng(20261117)
lines = ["# written by keras_optimizers.py"]


def draw(*shape):
    return random.standard_normal(shape).astype("float32").astype("float64")


def tensor(name, values):
    lines.append(" ".join(["tensor", name, *map(str, values.shape)]))
    lines.append(" ".join("%.9g" % value for value in values.reshape(-1)))


def text(value):
    return str(value).lower() if isinstance(value, bool) else "%g" % value


for kind, make, options in CASES:
    options = {"learning_rate": 0.02, **options}
    settings = [f"{key}={text(value)}" for key, value in options.items()]
    starts = [draw(*shape) for shape in SHAPES]
    gradients = [draw(STEPS, *shape) for shape in SHAPES]
    weights = [keras.Variable(start, dtype="float64") for start in starts]
    optimizer = make(**options)
    for step in range(STEPS):
        optimizer.apply([keras.ops.convert_to_tensor(g[step]) for g in gradients], weights)
    lines.append("case " + "_".join([kind, *list(options)[1:]]))
    lines.append(" ".join(["optimizer", kind, *settings]))
    for i, weight in enumerate(weights):
        tensor(f"start.{i}", starts[i])
        tensor(f"gradients.{i}", gradients[i])
        tensor(f"expect.{i}", np.asarray(weight))
    lines.append("end")

folder = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(folder, "keras_optimizers.txt"), "w", encoding="utf-8") as file:
    file.write("\n".join(lines) + "\n")
