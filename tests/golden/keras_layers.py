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


def case(name, shape, ours, *stack, x=None, training=False, call=None, branches=None):
    """stack: Keras layers; ours: a line each, the last called `it`. branches: which outputs each layer reads, 0 being
    the input; without, the one above."""
    x = draw(3, *shape) if x is None else x
    inputs = keras.Input(shape, dtype=keras.config.dtype_policy().name)
    value, values = inputs, [inputs]
    for i, layer in enumerate(stack):
        if branches:
            read = [values[k] for k in branches[i]]
            value = layer(read if len(read) > 1 else read[0])
        else:
            value = call(layer, value, inputs) if call and layer is stack[-1] else layer(value)
        values.append(value)
    model = keras.Model(inputs, value)
    kept = {}
    for layer, line in zip(stack, ours):
        own = line.split("name=")[1].split()[0]
        for weight in layer.weights:
            if weight.path.endswith("count") or "seed" in weight.path:
                continue
            values = np.abs(draw(*weight.shape)) + 0.5 if "variance" in weight.path else 0.5 * draw(*weight.shape)
            values = values.astype("float32").astype("float64")
            weight.assign(values)
            kept[f"{own}.{parameter(layer, weight)}"] = (weight, values)
        if isinstance(layer, layers.Normalization):
            layer.finalize_state()
    variable = tf.constant(x.astype(keras.config.dtype_policy().name))
    with tf.GradientTape() as tape:
        tape.watch(variable)
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
     call=lambda layer, value, _: layer(value, value, use_causal_mask=True))
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
for name, options, ours in (
        ("", {"kernel_size": 3, "strides": 2}, "kernel=3 stride=2"),
        ("_same", {"kernel_size": 2, "strides": 3, "padding": "same", "activation": "tanh"},
         "kernel=2 stride=3 padding=same activation=tanh"),
        ("_padded", {"kernel_size": 3, "strides": 2, "padding": "same", "output_padding": 0, "use_bias": False},
         "kernel=3 stride=2 padding=same output_padding=0 use_bias=false")):
    case(f"conv1d_transpose{name}", (4, 3), [f"conv1d_transpose name=it filters=2 {ours}"],
         layers.Conv1DTranspose(2, **options))
keras.config.set_dtype_policy("float32")  # TensorFlow stretches volumes in no other
for name, options, ours in (
        ("", {"kernel_size": 3, "strides": 2}, "kernel=3 stride=2"),
        ("_same", {"kernel_size": (2, 3, 1), "strides": (3, 1, 2), "padding": "same", "activation": "tanh"},
         "kernel=2,3,1 stride=3,1,2 padding=same activation=tanh"),
        ("_padded", {"kernel_size": 3, "strides": 2, "padding": "same", "output_padding": (0, 1, 0),
                     "use_bias": False},
         "kernel=3 stride=2 padding=same output_padding=0,1,0 use_bias=false"),
        ("_wide", {"kernel_size": (1, 2, 2), "strides": (2, 3, 1)}, "kernel=1,2,2 stride=2,3,1")):
    case(f"conv3d_transpose{name}", (3, 2, 3, 2), [f"conv3d_transpose name=it filters=2 {ours}"],
         layers.Conv3DTranspose(2, **options))
keras.config.set_dtype_policy("float64")
for name, options, ours in (
        ("", {"kernel_size": 3}, "kernel=3"),
        ("_same", {"kernel_size": 2, "strides": 2, "padding": "same", "depth_multiplier": 2, "activation": "tanh"},
         "kernel=2 stride=2 padding=same multiplier=2 activation=tanh"),
        ("_dilated", {"kernel_size": 2, "dilation_rate": 2, "use_bias": False},
         "kernel=2 dilation=2 use_bias=false")):
    case(f"depthwise_conv1d{name}", (6, 3), [f"depthwise_conv1d name=it {ours}"], layers.DepthwiseConv1D(**options))
    case(f"separable_conv1d{name}", (6, 3), [f"separable_conv1d name=it filters=4 {ours}"],
         layers.SeparableConv1D(4, **options))
case("up_sampling1d", (3, 2), ["up_sampling1d name=it size=3"], layers.UpSampling1D(3))
case("repeat_vector", (3,), ["repeat_vector name=it n=4"], layers.RepeatVector(4))
case("permute", (2, 3, 4), ["permute name=it dims=3,1,2"], layers.Permute((3, 1, 2)))
case("relu_limited", (7,), ["relu name=it max_value=1.5 negative_slope=0.25 threshold=0.5"],
     layers.ReLU(1.5, negative_slope=0.25, threshold=0.5))
case("relu_capped", (7,), ["relu name=it max_value=0.75"], layers.ReLU(0.75))
case("relu_leaky_capped", (7,), ["relu name=it max_value=0.75 negative_slope=0.5"],
     layers.ReLU(0.75, negative_slope=0.5))
case("relu_above", (7,), ["relu name=it threshold=0.75"], layers.ReLU(threshold=0.75))
case("prelu", (3, 2), ["prelu name=it"], layers.PReLU())
case("prelu_shared", (3, 2, 4), ["prelu name=it shared_axes=1,2"], layers.PReLU(shared_axes=[1, 2]))
case("identity", (3,), ["identity name=it"], layers.Identity())
for name, shape, kind in (("spatial_dropout1d", (4, 3), layers.SpatialDropout1D),
                          ("spatial_dropout2d", (3, 2, 3), layers.SpatialDropout2D),
                          ("spatial_dropout3d", (2, 3, 2, 3), layers.SpatialDropout3D),
                          ("gaussian_dropout", (4, 3), layers.GaussianDropout),
                          ("alpha_dropout", (4, 3), layers.AlphaDropout)):  # what it does in training is random
    case(name, shape, [f"{name} name=it rate=0.5"], kind(0.5))
case("unit_normalization", (3, 4), ["unit_normalization name=it"], layers.UnitNormalization())
case("unit_normalization_axes", (3, 4, 2), ["unit_normalization name=it axis=1,3"],
     layers.UnitNormalization(axis=[1, 3]))
case("rms_normalization", (3, 4), ["rms_normalization name=it epsilon=0.01"], layers.RMSNormalization(epsilon=0.01))
for name, kind, options, ours in (
        ("attention", layers.Attention, {}, ""),
        ("attention_scaled", layers.Attention, {"use_scale": True}, "use_scale=true"),
        ("attention_concat", layers.Attention, {"use_scale": True, "score_mode": "concat"},
         "use_scale=true score_mode=concat"),
        ("additive_attention", layers.AdditiveAttention, {}, ""),
        ("additive_attention_plain", layers.AdditiveAttention, {"use_scale": False}, "use_scale=false")):
    for causal in (False, True):
        case(name + ("_causal" if causal else ""), (4, 3),
             ["dense name=d units=3", f"{name.split('_')[0] if kind is layers.Attention else 'additive_attention'} "
              f"name=it from=d,input causal={str(causal).lower()} {ours}".rstrip()],
             layers.Dense(3), kind(**options),
             call=lambda layer, value, first, causal=causal: layer([value, first], use_causal_mask=causal))
for name, kind in (("attention", layers.Attention), ("additive_attention", layers.AdditiveAttention)):
    case(f"masked_scores_of_{name}", (4, 3), ["masking name=m", f"{name} name=it from=m,m"], layers.Masking(), kind(),
         x=gappy(3, 4, 3), call=lambda layer, value, _: layer([value, value]))

# Merged masks: 1 and 2 have one each, which differ; 0, the input, has none.
for name, kind in (("multiply", layers.Multiply), ("maximum", layers.Maximum), ("minimum", layers.Minimum),
                   ("average", layers.Average), ("concatenate", layers.Concatenate)):
    for word, ends in (("two", (3, 4)), ("one", (3, 0)), ("other", (0, 4)), ("three", (3, 4, 0))):
        x = gappy(3, 4, 3)
        x[2, 1:3] = 0.5
        sources = ["input", "m", "n", "a", "b"]
        case(f"masked_{name}_of_{word}", (4, 3),
             ["masking name=m", "masking name=n mask_value=0.5 from=input", "dense name=a units=3 from=m",
              "dense name=b units=3 from=n", f"{name} name=s from={','.join(sources[k] for k in ends)}",
              "lstm name=it units=2"],
             layers.Masking(), layers.Masking(0.5), layers.Dense(3), layers.Dense(3), kind(), layers.LSTM(2), x=x,
             branches=((0,), (0,), (1,), (2,), ends, (5,)))

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "keras_layers.txt"), "w") as file:
    file.write("\n".join(lines) + "\n")
