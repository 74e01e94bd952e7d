#!/usr/bin/env python3
"""Writes the golden values of layers that only Keras has in this form, computed by it in float64.

    python3 tests/golden/keras_layers.py        # with keras and tensorflow; rewrites keras_layers.txt

The format is that of layers.py.
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers  # noqa: E402

keras.config.set_dtype_policy("float64")
random = np.random.default_rng(20261117)
lines = ["# written by keras_layers.py"]


def draw(*shape):
    return random.standard_normal(shape).astype("float32").astype("float64")


def tensor(name, values):
    values = np.asarray(values)
    lines.append(" ".join(["tensor", name, *map(str, values.shape)]))
    lines.append(" ".join("%.9g" % value for value in values.reshape(-1)))


def parameter(layer, weight):
    parts = weight.path.split("/")
    if isinstance(layer, layers.Bidirectional):
        return ("forward_" if any(part.startswith("forward_") for part in parts) else "backward_") + parts[-1]
    if isinstance(layer, layers.MultiHeadAttention):
        return f"{parts[-2]}_{parts[-1]}"
    return parts[-1]


def case(name, shape, ours, *stack, x=None, training=False, call=None):
    """stack: Keras layers; ours: a line each, the last called `it`."""
    x = draw(3, *shape) if x is None else x
    inputs = keras.Input(shape, dtype=keras.config.dtype_policy().name)
    value = inputs
    for layer in stack:
        value = call(layer, value) if call and layer is stack[-1] else layer(value)
    model = keras.Model(inputs, value)
    kept = {}
    for layer, line in zip(stack, ours):
        own = line.split("name=")[1].split()[0]
        for weight in layer.weights:
            if weight.shape == ():
                continue
            values = np.abs(draw(*weight.shape)) + 0.5 if "variance" in weight.path else 0.5 * draw(*weight.shape)
            values = values.astype("float32").astype("float64")
            weight.assign(values)
            kept[f"{own}.{parameter(layer, weight)}"] = (weight, values)
        if isinstance(layer, layers.Normalization):
            layer.finalize_state()
    variable = tf.Variable(x.astype(keras.config.dtype_policy().name))
    with tf.GradientTape() as tape:
        output = model(variable, training=training)
        scale = draw(*output.shape)
        total = tf.reduce_sum(output * tf.cast(scale, output.dtype))
    watched = [variable] + [weight.value for weight, _ in kept.values() if weight.trainable]
    names = ["input.error"] + [f"{name}.gradient" for name, (weight, _) in kept.items() if weight.trainable]
    gradients = tape.gradient(total, watched)
    lines.append(f"case {name}")
    if training:
        lines.append("training")
    lines.append(" ".join(["input", *map(str, shape)]))
    lines.extend("layer " + line for line in ours)
    tensor("x", x)
    for name, (_, values) in kept.items():
        tensor(name, values)
    tensor("weight", scale)
    tensor("expect.output", output)
    for name, gradient in zip(names, gradients):
        if gradient is not None and (name == "input.error" or name.startswith("it.")):
            tensor("expect." + name, tf.convert_to_tensor(gradient))
    lines.append("end")


def gappy(*shape):
    x = draw(*shape)
    x[0, 2:] = 0
    x[1, 1] = 0
    return x


for kind, ours in ((layers.LSTM, "lstm"), (layers.GRU, "gru"), (layers.SimpleRNN, "simple_rnn")):
    for merge, sequences in (("concat", True), ("sum", False), ("mul", True), ("ave", False)):
        case(f"bidirectional_{ours}_{merge}", (4, 3),
             [f"bidirectional name=it layer={ours} units=2 merge_mode={merge} "
              f"return_sequences={str(sequences).lower()}"],
             layers.Bidirectional(kind(2, return_sequences=sequences), merge_mode=merge))
    case(f"masked_{ours}", (4, 3), ["masking name=m", f"{ours} name=it units=2"], layers.Masking(), kind(2),
         x=gappy(3, 4, 3))
    case(f"masked_{ours}_backwards", (4, 3),
         ["masking name=m", f"{ours} name=it units=2 return_sequences=true go_backwards=true"], layers.Masking(),
         kind(2, return_sequences=True, go_backwards=True), x=gappy(3, 4, 3))
    case(f"masked_bidirectional_{ours}", (4, 3),
         ["masking name=m", f"bidirectional name=it layer={ours} units=2 return_sequences=true"], layers.Masking(),
         layers.Bidirectional(kind(2, return_sequences=True)), x=gappy(3, 4, 3))
for kind, ours in ((layers.LSTM, "lstm"), (layers.GRU, "gru")):
    case(f"softmax_{ours}", (4, 3), [f"{ours} name=it units=3 activation=softmax recurrent_activation=linear"],
         kind(3, activation="softmax", recurrent_activation="linear"))
    case(f"softmax_gates_{ours}", (4, 3), [f"{ours} name=it units=3 recurrent_activation=softmax"],
         kind(3, recurrent_activation="softmax"))
case("masking", (4, 2), ["masking name=it mask_value=0.5"], layers.Masking(0.5))
case("masked_attention", (4, 3), ["masking name=m", "multi_head_attention name=it heads=2 key_dim=2 causal=true"],
     layers.Masking(), layers.MultiHeadAttention(2, 2), x=gappy(3, 4, 3),
     call=lambda layer, value: layer(value, value, use_causal_mask=True))
case("masked_global_average_pool1d", (4, 3), ["masking name=m", "global_average_pool1d name=it"], layers.Masking(),
     layers.GlobalAveragePooling1D(), x=gappy(3, 4, 3))
case("masked_batch_normalization", (4, 3), ["masking name=m", "batch_normalization name=it"], layers.Masking(),
     layers.BatchNormalization(), x=gappy(3, 4, 3), training=True)
case("time_distributed_dense", (4, 3), ["time_distributed name=it layer=dense units=2 activation=tanh"],
     layers.TimeDistributed(layers.Dense(2, activation="tanh")))
case("time_distributed_conv2d", (3, 4, 4, 2), ["time_distributed name=it layer=conv2d filters=2 kernel=3"],
     layers.TimeDistributed(layers.Conv2D(2, 3)))
case("time_distributed_batch_normalization", (3, 4), ["time_distributed name=it layer=batch_normalization"],
     layers.TimeDistributed(layers.BatchNormalization()), training=True)
case("normalization", (3, 2), ["normalization name=it"], layers.Normalization())
case("normalization_invert", (3, 2), ["normalization name=it invert=true"], layers.Normalization(invert=True))
for name, options, ours in (
        ("conv3d", {"kernel_size": 2}, "kernel=2"),
        ("conv3d_same", {"kernel_size": (2, 3, 1), "strides": (2, 1, 2), "padding": "same", "activation": "tanh"},
         "kernel=2,3,1 stride=2,1,2 padding=same activation=tanh"),
        ("conv3d_dilated", {"kernel_size": 2, "dilation_rate": (2, 1, 1), "use_bias": False},
         "kernel=2 dilation=2,1,1 use_bias=false"),
        ("conv3d_flat", {"kernel_size": (1, 2, 2)}, "kernel=1,2,2")):
    case(name, (4, 3, 4, 2), [f"conv3d name=it filters=2 {ours}"], layers.Conv3D(2, **options))
keras.config.set_dtype_policy("float32")  # TensorFlow pools volumes in no other
for name, kind, ours in (("max", layers.MaxPooling3D, "max_pool3d"), ("average", layers.AveragePooling3D, "average_pool3d")):
    case(f"{name}_pool3d", (4, 5, 4, 2), [f"{ours} name=it"], kind(2))
    case(f"{name}_pool3d_same", (4, 5, 3, 2), [f"{ours} name=it size=2,3,2 stride=1,2,3 padding=same"],
         kind((2, 3, 2), strides=(1, 2, 3), padding="same"))
keras.config.set_dtype_policy("float64")
case("global_average_pool3d", (2, 3, 4, 2), ["global_average_pool3d name=it"], layers.GlobalAveragePooling3D())
case("global_max_pool3d", (2, 3, 4, 2), ["global_max_pool3d name=it keepdims=true"],
     layers.GlobalMaxPooling3D(keepdims=True))
case("zero_padding3d", (2, 2, 3, 2), ["zero_padding3d name=it front=1 bottom=2 left=1"],
     layers.ZeroPadding3D(((1, 0), (0, 2), (1, 0))))
case("cropping3d", (3, 4, 4, 2), ["cropping3d name=it back=1 top=1 right=2"],
     layers.Cropping3D(((0, 1), (1, 0), (0, 2))))
case("up_sampling3d", (2, 2, 3, 2), ["up_sampling3d name=it size=2,1,3"], layers.UpSampling3D((2, 1, 3)))
for name in ("hard_silu", "hard_tanh", "hard_shrink", "soft_shrink", "tanh_shrink", "mish", "celu", "log_sigmoid",
             "squareplus", "sparse_plus", "sparse_sigmoid"):
    case(f"dense_{name}", (5,), [f"dense name=it units=4 activation={name}"], layers.Dense(4, activation=name))

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "keras_layers.txt"), "w") as file:
    file.write("\n".join(lines) + "\n")
