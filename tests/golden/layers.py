#!/usr/bin/python3
"""Writes the golden values of layers, optimizers and small networks, computed by PyTorch in float64.

    /usr/bin/python3 tests/golden/layers.py        # rewrites tests/golden/*.txt

Layouts and defaults are Keras's, so tensors are permuted on the way in and out, and borders of
'same' padding are padded by hand as TensorFlow pads them. The format is read by golden.h: a line
with words opens something, `tensor NAME DIMENSIONS…` is followed by a line of numbers.
"""

import math
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

FOLDER = os.path.dirname(os.path.abspath(__file__))
torch.set_default_dtype(torch.float64)
random = np.random.default_rng(20240607)


def draw(*shape, scale=1.0, positive=False):
    """Values that float32 holds exactly."""
    values = random.standard_normal(shape) * scale
    if positive:
        values = np.abs(values) + 0.5
    return torch.tensor(values.astype(np.float32).astype(np.float64))


class Writer:
    def __init__(self, name):
        self.path = os.path.join(FOLDER, name)
        self.lines = ["# written by " + os.path.basename(sys.argv[0])]

    def line(self, *words):
        self.lines.append(" ".join(str(word) for word in words))

    def tensor(self, name, values):
        values = values.detach().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
        self.line("tensor", name, *values.shape)
        self.line(*("%.9g" % value for value in values.reshape(-1)))

    def close(self):
        with open(self.path, "w") as file:
            file.write("\n".join(self.lines) + "\n")


# --- layers, as functions of Keras's layouts --------------------------------------------------

ACTIVATIONS = {
    "linear": lambda x: x,
    "relu": torch.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "elu": F.elu,
    "selu": torch.selu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus": F.softplus,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "swish": F.silu,
    "softmax": lambda x: torch.softmax(x, -1),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "exponential": torch.exp,
    "relu6": F.relu6,
    "hard_sigmoid": lambda x: torch.clamp(x / 6 + 0.5, 0, 1),
    "softsign": F.softsign,
}


def dense(x, p, activation="linear"):
    y = x @ p["kernel"]
    return ACTIVATIONS[activation](y + p["bias"] if "bias" in p else y)


def borders(size, window, stride, padding):
    """(before, after) as TensorFlow pads."""
    if padding == "valid":
        return 0, 0
    if padding == "causal":
        return window - 1, 0
    total = max((math.ceil(size / stride) - 1) * stride + window - size, 0)
    return total // 2, total - total // 2


def to_channels_first(x):
    return x.movedim(-1, 1)


def to_channels_last(x):
    return x.movedim(1, -1)


def pad_like_tensorflow(x, window, stride, padding, value=0.0):
    top, bottom = borders(x.shape[2], window[0], stride[0], padding)
    left, right = borders(x.shape[3], window[1], stride[1], padding)
    return F.pad(x, (left, right, top, bottom), value=value)


def conv2d(x, p, stride=(1, 1), dilation=(1, 1), groups=1, padding="valid", activation="linear"):
    kernel = p["kernel"]
    window = [(kernel.shape[i] - 1) * dilation[i] + 1 for i in range(2)]
    x = pad_like_tensorflow(to_channels_first(x), window, stride, padding)
    y = F.conv2d(x, kernel.permute(3, 2, 0, 1), p.get("bias"), stride, 0, dilation, groups)
    return ACTIVATIONS[activation](to_channels_last(y))


def conv1d(x, p, stride=1, dilation=1, groups=1, padding="valid", activation="linear"):
    kernel = p["kernel"]
    window = (kernel.shape[0] - 1) * dilation + 1
    x = F.pad(to_channels_first(x), borders(x.shape[1], window, stride, padding))
    y = F.conv1d(x, kernel.permute(2, 1, 0), p.get("bias"), stride, 0, dilation, groups)
    return ACTIVATIONS[activation](to_channels_last(y))


def conv2d_transpose(x, p, stride=(1, 1), padding="valid", activation="linear", groups=1):
    kernel = p["kernel"]  # (height, width, out / groups, in)
    y = F.conv_transpose2d(to_channels_first(x), kernel.permute(3, 2, 0, 1), None, stride, groups=groups)
    if padding == "same":  # what TensorFlow cuts off the full result, or adds where it is short
        for axis in (2, 3):
            k, s, size = kernel.shape[axis - 2], stride[axis - 2], x.shape[axis - 1]
            before = max(k - s, 0) // 2
            short = before + size * s - y.shape[axis]
            if short > 0:
                y = F.pad(y, (0, short) if axis == 3 else (0, 0, 0, short))
            y = y.narrow(axis, before, size * s)
    else:
        for axis in (2, 3):
            k, s = kernel.shape[axis - 2], stride[axis - 2]
            if s > k:
                y = F.pad(y, (0, s - k) if axis == 3 else (0, 0, 0, s - k))
    y = to_channels_last(y)
    return ACTIVATIONS[activation](y + p["bias"] if "bias" in p else y)


def max_pool2d(x, p, size=(2, 2), stride=None, padding="valid"):
    stride = stride or size
    x = pad_like_tensorflow(to_channels_first(x), size, stride, padding, -math.inf)
    return to_channels_last(F.max_pool2d(x, size, stride))


def average_pool2d(x, p, size=(2, 2), stride=None, padding="valid"):
    stride = stride or size
    x = to_channels_first(x)
    ones = pad_like_tensorflow(torch.ones_like(x), size, stride, padding)
    x = pad_like_tensorflow(x, size, stride, padding)
    return to_channels_last(F.avg_pool2d(x, size, stride) / F.avg_pool2d(ones, size, stride))


def up_sampling2d(x, p, size=(2, 2), interpolation="nearest"):
    options = {} if interpolation == "nearest" else {"align_corners": False}
    y = F.interpolate(to_channels_first(x), scale_factor=tuple(map(float, size)), mode=interpolation, **options)
    return to_channels_last(y)


def batch_normalization(x, p, training=True, epsilon=1e-3):
    axes = tuple(range(x.dim() - 1))
    mean = x.mean(axes) if training else p["moving_mean"]
    variance = x.var(axes, unbiased=False) if training else p["moving_variance"]
    return (x - mean) / torch.sqrt(variance + epsilon) * p["gamma"] + p["beta"]


def layer_normalization(x, p, epsilon=1e-3):
    return F.layer_norm(x, x.shape[-1:], p["gamma"], p["beta"], epsilon)


def embedding(x, p):
    return F.embedding(x.long(), p["embeddings"])


def recurrent(kind, x, p, return_sequences=False):
    units = p["recurrent_kernel"].shape[0]
    bias = p["bias"] if p["bias"].dim() == 2 else torch.stack([p["bias"], torch.zeros_like(p["bias"])])
    flat = [p["kernel"].T, p["recurrent_kernel"].T, bias[0], bias[1]]
    if kind == "gru":  # Keras's gates are z, r, h; PyTorch's r, z, n
        flat = [torch.cat([w[units : 2 * units], w[:units], w[2 * units :]]) for w in flat]
    start = torch.zeros(1, x.shape[0], units)
    run = {"simple_rnn": torch.rnn_tanh, "lstm": torch.lstm, "gru": torch.gru}[kind]
    y = run(x, (start, start) if kind == "lstm" else start, flat, True, 1, 0.0, False, False, True)[0]
    return y if return_sequences else y[:, -1]


def gru_reset_before(x, p):
    units = p["recurrent_kernel"].shape[0]
    z_r = slice(0, 2 * units)
    h = torch.zeros(x.shape[0], units)
    for t in range(x.shape[1]):
        a = x[:, t] @ p["kernel"] + p["bias"]
        gates = torch.sigmoid(a[:, z_r] + h @ p["recurrent_kernel"][:, z_r])
        z, r = gates[:, :units], gates[:, units:]
        candidate = torch.tanh(a[:, 2 * units :] + (r * h) @ p["recurrent_kernel"][:, 2 * units :])
        h = z * h + (1 - z) * candidate
    return h


def attention(x, p, causal=False, heads=2):
    """Through PyTorch's own module: Keras's (in, heads, dim) kernels side by side are its weights."""
    width = x.shape[-1]
    module = torch.nn.MultiheadAttention(width, heads, batch_first=True)
    projections = ["query", "key", "value"]
    weights = {
        "in_proj_weight": torch.cat([p[n + "_kernel"].reshape(width, -1).T for n in projections]),
        "in_proj_bias": torch.cat([p[n + "_bias"].reshape(-1) for n in projections]),
        "out_proj.weight": p["attention_output_kernel"].reshape(-1, width).T,
        "out_proj.bias": p["attention_output_bias"],
    }
    mask = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1) if causal else None
    y, _ = torch.nn.utils.stateless.functional_call(module, weights, (x, x, x), {"attn_mask": mask})
    return y


# --- one layer at a time ----------------------------------------------------------------------


def layer_case(out, name, kind, settings, function, x, parameters, integer=False, training=True, extra=()):
    """Outputs, the error at the input, and the gradients of all parameters, of sum(weight * y)."""
    x = x.clone().requires_grad_(not integer)
    p = {key: value.clone().requires_grad_(not key.startswith("moving")) for key, value in parameters.items()}
    y = function(x, p)
    weight = draw(*y.shape)
    (y * weight).sum().backward()
    out.line("case", name)
    out.line("training" if training else "inference")
    out.line("input", *x.shape[1:])
    out.line("layer", kind, "name=it", *settings)
    out.tensor("x", x)
    for key, value in p.items():
        out.tensor("it." + key, value)
    out.tensor("weight", weight)
    out.tensor("expect.output", y)
    if not integer:
        out.tensor("expect.input.error", x.grad)
    for key, value in p.items():
        if value.requires_grad:
            out.tensor("expect.it." + key + ".gradient", value.grad)
    for key, value in extra:
        out.tensor("expect.it." + key, value)
    out.line("end")


def affine(inputs, outputs):
    return {"kernel": draw(inputs, outputs, scale=0.5), "bias": draw(outputs, scale=0.3)}


def convolution(*kernel, bias=None):
    return {"kernel": draw(*kernel, scale=0.3), "bias": draw(bias or kernel[-1], scale=0.2)}


def gates(inputs, units, count, bias=None):
    return {
        "kernel": draw(inputs, count * units, scale=0.5),
        "recurrent_kernel": draw(units, count * units, scale=0.4),
        "bias": draw(*(bias or (count * units,)), scale=0.2),
    }


def heads(width, count):
    size = width // count
    p = {}
    for name in ["query", "key", "value"]:
        p[name + "_kernel"] = draw(width, count, size, scale=0.5)
        p[name + "_bias"] = draw(count, size, scale=0.2)
    p["attention_output_kernel"] = draw(count, size, width, scale=0.5)
    p["attention_output_bias"] = draw(width, scale=0.2)
    return p


def write_more_layers(out):
    """Leaves the random numbers of what follows as they are."""
    before = random.bit_generator.state

    def steps(function):
        return lambda x, p, size, stride, padding="valid": function(
            x[:, :, None], p, (size, 1), (stride, 1), padding)[:, :, 0]

    for kind, function in [("max_pool1d", steps(max_pool2d)), ("average_pool1d", steps(average_pool2d))]:
        layer_case(out, kind, kind, [], lambda x, p: function(x, p, 2, 2), draw(2, 7, 3), {})
        layer_case(out, kind + "_same", kind, ["size=3", "stride=2", "padding=same"],
                   lambda x, p: function(x, p, 3, 2, "same"), draw(2, 8, 3), {})
    for kind, function in [("global_average_pool1d", torch.mean), ("global_max_pool1d", torch.amax)]:
        layer_case(out, kind, kind, [], lambda x, p: function(x, 1), draw(2, 7, 3), {})
        layer_case(out, kind + "_keepdims", kind, ["keepdims=true"],
                   lambda x, p: function(x, 1, keepdim=True), draw(2, 7, 3), {})
    for kind, function in [("global_average_pool2d", torch.mean), ("global_max_pool2d", torch.amax)]:
        layer_case(out, kind + "_keepdims", kind, ["keepdims=true"],
                   lambda x, p: function(x, (1, 2), keepdim=True), draw(2, 4, 3, 3), {})
    layer_case(out, "zero_padding2d", "zero_padding2d", ["top=1", "left=2", "right=3"],
               lambda x, p: F.pad(x, (0, 0, 2, 3, 1, 0)), draw(2, 3, 2, 2), {})
    layer_case(out, "rescaling", "rescaling", ["scale=0.25", "offset=-1.5"],
               lambda x, p: x * 0.25 - 1.5, draw(2, 3), {})
    both = ["from=input,input"]
    layer_case(out, "subtract", "subtract", both, lambda x, p: x - x, draw(2, 3), {})
    layer_case(out, "average", "average", ["from=input,input,input"], lambda x, p: (x + x + x) / 3, draw(2, 3), {})
    layer_case(out, "maximum", "maximum", both, lambda x, p: torch.maximum(x, x), draw(2, 3), {})
    layer_case(out, "minimum", "minimum", both, lambda x, p: torch.minimum(x, x), draw(2, 3), {})
    layer_case(out, "dot", "dot", both + ["axes=1"], lambda x, p: (x * x).sum(1, keepdim=True), draw(2, 3), {})
    layer_case(out, "dot_matrices", "dot", both + ["axes=2,2"], lambda x, p: x @ x.transpose(1, 2), draw(2, 3, 4), {})
    layer_case(out, "dot_normalized", "dot", both + ["axes=1,1", "normalize=true"],
               lambda x, p: F.normalize(x, dim=1).transpose(1, 2) @ F.normalize(x, dim=1), draw(2, 3, 4), {})
    layer_case(out, "gaussian_noise_inference", "gaussian_noise", ["stddev=0.5"], lambda x, p: x * 1, draw(2, 3), {},
               training=False)

    def depthwise(x, kernel, bias=None, stride=1):
        height, width, channels, multiplier = kernel.shape
        weight = kernel.permute(2, 3, 0, 1).reshape(channels * multiplier, 1, height, width)
        y = F.conv2d(x.permute(0, 3, 1, 2), weight, bias, stride=stride, groups=channels)
        return y.permute(0, 2, 3, 1)

    layer_case(out, "depthwise_conv2d", "depthwise_conv2d",
               ["kernel=3,2", "multiplier=2", "stride=2", "activation=tanh"],
               lambda x, p: torch.tanh(depthwise(x, p["kernel"], p["bias"], 2)), draw(2, 7, 6, 3),
               {"kernel": draw(3, 2, 3, 2), "bias": draw(6)})
    layer_case(out, "separable_conv2d", "separable_conv2d", ["kernel=3", "filters=4", "multiplier=2"],
               lambda x, p: depthwise(x, p["depthwise_kernel"]) @ p["pointwise_kernel"][0, 0] + p["bias"],
               draw(2, 6, 5, 2),
               {"depthwise_kernel": draw(3, 3, 2, 2), "pointwise_kernel": draw(1, 1, 4, 4), "bias": draw(4)})
    layer_case(out, "group_normalization", "group_normalization", ["groups=2"],
               lambda x, p: F.group_norm(x.permute(0, 3, 1, 2), 2, p["gamma"], p["beta"], 1e-3).permute(0, 2, 3, 1),
               draw(2, 4, 3, 6), {"gamma": draw(6, positive=True), "beta": draw(6)})
    layer_case(out, "zero_padding1d", "zero_padding1d", ["before=1", "after=2"],
               lambda x, p: F.pad(x, (0, 0, 1, 2)), draw(2, 3, 2), {})
    layer_case(out, "cropping1d", "cropping1d", ["before=1", "after=2"], lambda x, p: x[:, 1:-2], draw(2, 5, 2), {})
    layer_case(out, "cropping2d", "cropping2d", ["top=1", "left=1", "right=2"], lambda x, p: x[:, 1:, 1:-2],
               draw(2, 3, 5, 2), {})
    random.bit_generator.state = before


def transposed_by_others(out):
    """What Keras's transposed convolutions do not have: groups, and with strides of 1 dilation."""
    state = random.bit_generator.state
    layer_case(out, "conv2d_transpose_groups", "conv2d_transpose",
               ["filters=6", "kernel=3", "stride=2", "padding=same", "groups=2"],
               lambda x, p: conv2d_transpose(x, p, stride=(2, 2), padding="same", groups=2), draw(2, 4, 3, 4),
               convolution(3, 3, 3, 4, bias=6))
    layer_case(out, "conv1d_transpose_groups", "conv1d_transpose", ["filters=4", "kernel=3", "groups=2", "dilation=2"],
               lambda x, p: to_channels_last(F.conv_transpose1d(to_channels_first(x), p["kernel"].permute(2, 1, 0),
                                                                p["bias"], groups=2, dilation=2)),
               draw(2, 5, 6), convolution(3, 2, 6, bias=4))
    layer_case(out, "conv3d_transpose_groups", "conv3d_transpose",
               ["filters=4", "kernel=2,3,2", "groups=2", "dilation=3,1,2"],
               lambda x, p: to_channels_last(F.conv_transpose3d(to_channels_first(x), p["kernel"].permute(4, 3, 0, 1, 2),
                                                                p["bias"], groups=2, dilation=(3, 1, 2))),
               draw(2, 3, 2, 3, 4), convolution(2, 3, 2, 2, 4, bias=4))
    random.bit_generator.state = state


def write_layers():
    out = Writer("layers.txt")
    for activation in ACTIVATIONS:
        layer_case(out, "dense_" + activation, "dense", ["units=4", "activation=" + activation],
                   lambda x, p: dense(x, p, activation), draw(3, 5), affine(5, 4))
        layer_case(out, "activation_" + activation, "activation", ["function=" + activation],
                   lambda x, p: ACTIVATIONS[activation](x), draw(2, 3, 4), {})
    layer_case(out, "dense_without_bias", "dense", ["units=3", "use_bias=false"], dense, draw(2, 4, 5),
               {"kernel": draw(5, 3)})

    image = lambda channels: draw(2, 6, 7, channels)
    for name, settings, options in [
        ("plain", [], {}),
        ("same", ["padding=same", "activation=relu"], {"padding": "same", "activation": "relu"}),
        ("stride", ["stride=2", "padding=same"], {"stride": (2, 2), "padding": "same"}),
        ("dilation", ["dilation=2,1", "activation=tanh"], {"dilation": (2, 1), "activation": "tanh"}),
        ("softmax", ["activation=softmax"], {"activation": "softmax"}),
    ]:
        layer_case(out, "conv2d_" + name, "conv2d", ["filters=4", "kernel=3,2"] + settings,
                   lambda x, p: conv2d(x, p, **options), image(2), convolution(3, 2, 2, 4))
    layer_case(out, "conv2d_groups", "conv2d", ["filters=6", "kernel=3", "groups=2"],
               lambda x, p: conv2d(x, p, groups=2), image(4), convolution(3, 3, 2, 6))
    for name, settings, options in [
        ("plain", [], {}),
        ("causal", ["padding=causal", "activation=relu"], {"padding": "causal", "activation": "relu"}),
        ("same", ["padding=same", "stride=2"], {"padding": "same", "stride": 2}),
        ("dilation", ["dilation=2"], {"dilation": 2}),
    ]:
        layer_case(out, "conv1d_" + name, "conv1d", ["filters=4", "kernel=3"] + settings,
                   lambda x, p: conv1d(x, p, **options), draw(2, 9, 3), convolution(3, 3, 4))
    for name, settings, options in [
        ("plain", [], {}),
        ("stride", ["stride=2"], {"stride": (2, 2)}),
        ("same", ["stride=2", "padding=same", "activation=relu"],
         {"stride": (2, 2), "padding": "same", "activation": "relu"}),
        ("same_wide", ["stride=1", "padding=same"], {"padding": "same"}),
    ]:
        layer_case(out, "conv2d_transpose_" + name, "conv2d_transpose", ["filters=3", "kernel=3"] + settings,
                   lambda x, p: conv2d_transpose(x, p, **options), draw(2, 4, 3, 2), convolution(3, 3, 3, 2, bias=3))

    for kind, function in [("max_pool2d", max_pool2d), ("average_pool2d", average_pool2d)]:
        layer_case(out, kind, kind, [], function, image(3), {})
        layer_case(out, kind + "_same", kind, ["size=3,2", "stride=2", "padding=same"],
                   lambda x, p: function(x, p, (3, 2), (2, 2), "same"), image(3), {})
        layer_case(out, kind + "_overlap", kind, ["size=3", "stride=1"],
                   lambda x, p: function(x, p, (3, 3), (1, 1)), image(2), {})
    layer_case(out, "global_average_pool2d", "global_average_pool2d", [], lambda x, p: x.mean((1, 2)), image(3), {})
    layer_case(out, "global_max_pool2d", "global_max_pool2d", [], lambda x, p: x.amax((1, 2)), image(3), {})
    layer_case(out, "up_sampling2d", "up_sampling2d", ["size=2,3"],
               lambda x, p: up_sampling2d(x, p, (2, 3)), draw(2, 3, 4, 2), {})
    layer_case(out, "up_sampling2d_bilinear", "up_sampling2d", ["interpolation=bilinear"],
               lambda x, p: up_sampling2d(x, p, interpolation="bilinear"), draw(2, 3, 4, 2), {})
    layer_case(out, "flatten", "flatten", [], lambda x, p: x.reshape(x.shape[0], -1), draw(2, 3, 4), {})
    layer_case(out, "reshape", "reshape", ["shape=2,-1"], lambda x, p: x.reshape(x.shape[0], 2, 6), draw(2, 3, 4), {})
    layer_case(out, "dropout_inference", "dropout", ["rate=0.5"], lambda x, p: x * 1, draw(2, 3), {}, training=False)

    def norm(channels, moving):
        p = {"gamma": draw(channels, positive=True), "beta": draw(channels)}
        if moving:
            p["moving_mean"] = draw(channels)
            p["moving_variance"] = draw(channels, positive=True)
        return p

    x, p = draw(4, 3, 3, 2) * 2 + 1, norm(2, True)
    x = torch.tensor(x.numpy().astype(np.float32).astype(np.float64))
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2), unbiased=False)
    layer_case(out, "batch_normalization", "batch_normalization", [], batch_normalization, x, p,
               extra=[("moving_mean", 0.99 * p["moving_mean"] + 0.01 * mean),
                      ("moving_variance", 0.99 * p["moving_variance"] + 0.01 * variance)])
    layer_case(out, "batch_normalization_inference", "batch_normalization", ["epsilon=0.01"],
               lambda x, p: batch_normalization(x, p, False, 0.01), draw(4, 3), norm(3, True), training=False,
               extra=[])
    layer_case(out, "batch_normalization_frozen", "batch_normalization", ["frozen=true"],
               lambda x, p: batch_normalization(x, p, False), draw(4, 3), norm(3, True))
    layer_case(out, "layer_normalization", "layer_normalization", [], layer_normalization, draw(3, 4, 6), norm(6, False))
    tokens = torch.tensor([[1.0, 4.0, 1.0], [0.0, 6.0, 2.0]])
    layer_case(out, "embedding", "embedding", ["vocabulary=7", "width=3"], embedding, tokens,
               {"embeddings": draw(7, 3)}, integer=True)

    for kind, count in [("simple_rnn", 1), ("lstm", 4), ("gru", 3)]:
        for sequences in [False, True]:
            bias = (2, 3 * 4) if kind == "gru" else None
            layer_case(out, kind + ("_sequences" if sequences else ""), kind,
                       ["units=4", "return_sequences=" + str(sequences).lower()],
                       lambda x, p: recurrent(kind, x, p, sequences), draw(3, 5, 2), gates(2, 4, count, bias))
    layer_case(out, "gru_reset_before", "gru", ["units=3", "reset_after=false"], gru_reset_before, draw(2, 4, 2),
               gates(2, 3, 3))
    layer_case(out, "lstm_long", "lstm", ["units=3"], lambda x, p: recurrent("lstm", x, p), draw(2, 60, 2),
               gates(2, 3, 4))
    layer_case(out, "simple_rnn_backwards", "simple_rnn", ["units=3", "go_backwards=true"],
               lambda x, p: recurrent("simple_rnn", x.flip(1), p), draw(2, 4, 2), gates(2, 3, 1))
    layer_case(out, "attention", "multi_head_attention", ["heads=2", "key_dim=3"], attention, draw(2, 5, 6), heads(6, 2))
    layer_case(out, "attention_causal", "multi_head_attention", ["heads=2", "key_dim=4", "causal=true"],
               lambda x, p: attention(x, p, True), draw(2, 5, 8), heads(8, 2))
    layer_case(out, "add", "add", ["from=input,input"], lambda x, p: x + x, draw(2, 3), {})
    layer_case(out, "multiply", "multiply", ["from=input,input"], lambda x, p: x * x, draw(2, 3), {})
    layer_case(out, "concatenate", "concatenate", ["from=input,input"], lambda x, p: torch.cat([x, x], -1),
               draw(2, 3, 2), {})
    layer_case(out, "concatenate_axis", "concatenate", ["from=input,input", "axis=1"],
               lambda x, p: torch.cat([x, x], 1), draw(2, 3, 2), {})
    write_more_layers(out)
    transposed_by_others(out)
    out.close()


# --- optimizers -------------------------------------------------------------------------------

STEPS = 20


class KerasAdam:
    """PyTorch adds epsilon after the bias correction of v, Keras before: the same with another one."""

    def __init__(self, parameters, kind=torch.optim.Adam, learning_rate=0.001, beta_1=0.9, beta_2=0.999,
                 epsilon=1e-7, **more):
        self.inner = kind(parameters, lr=learning_rate, betas=(beta_1, beta_2), **more)
        self.beta_2, self.epsilon, self.steps = beta_2, epsilon, 0

    def step(self):
        self.steps += 1
        self.inner.param_groups[0]["eps"] = self.epsilon / math.sqrt(1 - self.beta_2**self.steps)
        self.inner.step()


class Written:
    """Keras's equations where PyTorch puts epsilon outside of the root."""

    def __init__(self, parameters, update):
        self.parameters, self.update, self.states = parameters, update, [{} for _ in parameters]

    def step(self):
        with torch.no_grad():
            for parameter, state in zip(self.parameters, self.states):
                parameter -= self.update(state, parameter.grad)


def rmsprop(momentum=0.0, rate=0.001, rho=0.9, epsilon=1e-7):
    def update(state, g):
        state["s"] = rho * state.get("s", 0) + (1 - rho) * g * g
        state["v"] = momentum * state.get("v", 0) + rate * g / torch.sqrt(state["s"] + epsilon)
        return state["v"]

    return update


def adagrad(rate=0.001, start=0.1, epsilon=1e-7):
    def update(state, g):
        state["s"] = state.get("s", start) + g * g
        return rate * g / torch.sqrt(state["s"] + epsilon)

    return update


def write_optimizers():
    out = Writer("optimizers.txt")
    cosine = lambda t, warmup, steps: 0.1 * (t / warmup if t < warmup else (1 + math.cos(math.pi * (t - warmup) / steps)) / 2)
    cases = [
        ("sgd", "sgd", ["learning_rate=0.1"], lambda w: torch.optim.SGD(w, 0.1)),
        ("sgd_momentum", "sgd", ["learning_rate=0.05", "momentum=0.9"], lambda w: torch.optim.SGD(w, 0.05, 0.9)),
        ("sgd_nesterov", "sgd", ["learning_rate=0.05", "momentum=0.8", "nesterov=true"],
         lambda w: torch.optim.SGD(w, 0.05, 0.8, nesterov=True)),
        ("adam", "adam", [], lambda w: KerasAdam(w)),
        ("adam_options", "adam", ["learning_rate=0.01", "beta_1=0.8", "beta_2=0.95", "epsilon=0.01"],
         lambda w: KerasAdam(w, learning_rate=0.01, beta_1=0.8, beta_2=0.95, epsilon=0.01)),
        ("adam_beta_zero", "adam", ["beta_1=0"], lambda w: KerasAdam(w, beta_1=0.0)),
        ("adamw", "adamw", ["learning_rate=0.01", "weight_decay=0.1"],
         lambda w: KerasAdam(w, torch.optim.AdamW, learning_rate=0.01, weight_decay=0.1)),
        ("rmsprop", "rmsprop", [], lambda w: Written(w, rmsprop())),
        ("rmsprop_torch", "rmsprop", ["learning_rate=0.01", "rho=0.95", "epsilon=1e-30"],
         lambda w: torch.optim.RMSprop(w, 0.01, 0.95, 1e-30)),
        ("rmsprop_momentum", "rmsprop", ["learning_rate=0.002", "momentum=0.7", "epsilon=1e-30"],
         lambda w: torch.optim.RMSprop(w, 0.002, 0.9, 1e-30, momentum=0.7)),
        ("adagrad", "adagrad", ["learning_rate=0.1"], lambda w: Written(w, adagrad(0.1))),
        ("adagrad_torch", "adagrad", ["learning_rate=0.1", "epsilon=1e-30"],
         lambda w: torch.optim.Adagrad(w, 0.1, initial_accumulator_value=0.1, eps=1e-30)),
        ("sgd_clip_norm", "sgd", ["learning_rate=0.1", "clip_norm=2"], lambda w: torch.optim.SGD(w, 0.1)),
        ("adam_clip_value", "adam", ["clip_value=0.25"], lambda w: KerasAdam(w)),
        ("sgd_cosine", "sgd", ["learning_rate=0.1", "schedule=cosine", "warmup=5", "steps=12"],
         lambda w: torch.optim.SGD(w, 0.1)),
    ]
    shapes = [(3, 4), (4,), (5, 1, 2)]
    for name, kind, settings, make in cases:
        weights = [draw(*shape).requires_grad_() for shape in shapes]
        start = [w.detach().clone() for w in weights]
        gradients = [draw(STEPS, *shape) for shape in shapes]
        optimizer = make(weights)
        for step in range(STEPS):
            for w, g in zip(weights, gradients):
                w.grad = g[step].clone()
            if "clip_norm" in name:
                total = torch.sqrt(sum((w.grad**2).sum() for w in weights))
                for w in weights:
                    w.grad *= min(1.0, 2 / total)
            if "clip_value" in name:
                torch.nn.utils.clip_grad_value_(weights, 0.25)
            if "cosine" in name:
                for group in optimizer.param_groups:
                    group["lr"] = cosine(step, 5, 12) if step < 17 else 0.0
            optimizer.step()
        out.line("case", name)
        out.line("optimizer", kind, *settings)
        for i, w in enumerate(weights):
            out.tensor("start.%d" % i, start[i])
            out.tensor("gradients.%d" % i, gradients[i])
            out.tensor("expect.%d" % i, w)
        out.line("end")
    out.close()


# --- networks ---------------------------------------------------------------------------------


def network_case(out, name, input_shape, layers, forward, parameters, x, y, loss_name, loss, optimizer, make, steps):
    p = {key: value.clone() for key, value in parameters.items()}
    trained = [v.requires_grad_() for k, v in p.items() if "moving" not in k]
    step_function = make(trained)
    out.line("case", name)
    out.line("training")
    out.line("input", *input_shape)
    for layer in layers:
        out.line("layer", *layer.split())
    out.line("loss", loss_name)
    out.line("optimizer", *optimizer.split())
    out.tensor("x", x)
    out.tensor("y", y)
    for key, value in parameters.items():
        out.tensor(key, value)
    losses = []
    for _ in range(steps):
        for w in trained:
            w.grad = None
        value = loss(forward(x, p), y)
        value.backward()
        losses.append(value.item())
        step_function.step()
    out.tensor("expect.losses", np.array(losses))
    out.line("end")
    print("%-12s %.6f -> %.6f" % (name, losses[0], losses[-1]))


def part(p, layer):
    return {key[len(layer) + 1 :]: value for key, value in p.items() if key.startswith(layer + ".")}


def named(layer, parameters):
    return {layer + "." + key: value for key, value in parameters.items()}


def write_networks():
    out = Writer("networks.txt")
    cross_entropy = lambda z, y: F.cross_entropy(z, y.long())
    mse = lambda z, y: F.mse_loss(z, y)

    def cnn(x, p):
        h = max_pool2d(conv2d(x, part(p, "conv1"), activation="relu"), None)
        h = conv2d(h, part(p, "conv2"), padding="same", activation="relu")
        h = dense(h.reshape(h.shape[0], -1), part(p, "hidden"), "relu")
        return dense(h, part(p, "logits"))

    network_case(out, "cnn", (8, 8, 1),
                 ["conv2d name=conv1 filters=4 kernel=3 activation=relu", "max_pool2d",
                  "conv2d name=conv2 filters=6 kernel=3 padding=same activation=relu", "flatten",
                  "dense name=hidden units=10 activation=relu", "dense name=logits units=3"],
                 cnn, {**named("conv1", convolution(3, 3, 1, 4)), **named("conv2", convolution(3, 3, 4, 6)),
                       **named("hidden", affine(54, 10)), **named("logits", affine(10, 3))},
                 draw(12, 8, 8, 1), torch.tensor(random.integers(0, 3, 12).astype(np.float64)),
                 "sparse_categorical_crossentropy", cross_entropy, "adam learning_rate=0.01",
                 lambda w: KerasAdam(w, learning_rate=0.01), 25)

    def residual(x, p):
        h = torch.relu(batch_normalization(conv2d(x, part(p, "first"), padding="same"), part(p, "norm")))
        h = conv2d(h, part(p, "second"), padding="same")
        h = torch.relu(h + x).mean((1, 2))
        return dense(h, part(p, "logits"))

    network_case(out, "residual", (6, 6, 4),
                 ["conv2d name=first filters=4 kernel=3 padding=same", "batch_normalization name=norm",
                  "activation function=relu", "conv2d name=second filters=4 kernel=3 padding=same",
                  "add name=sum from=second,input", "activation function=relu", "global_average_pool2d",
                  "dense name=logits units=3"],
                 residual, {**named("first", convolution(3, 3, 4, 4)),
                            **named("norm", {"gamma": torch.ones(4), "beta": torch.zeros(4)}),
                            **named("second", convolution(3, 3, 4, 4)), **named("logits", affine(4, 3))},
                 draw(10, 6, 6, 4), torch.tensor(random.integers(0, 3, 10).astype(np.float64)),
                 "sparse_categorical_crossentropy", cross_entropy, "sgd learning_rate=0.1 momentum=0.9",
                 lambda w: torch.optim.SGD(w, 0.1, 0.9), 25)

    def lstm(x, p):
        h = recurrent("lstm", x, part(p, "memory"), True)
        return dense(recurrent("gru", h, part(p, "gru")), part(p, "sum"))

    adding = draw(16, 10, 2)
    network_case(out, "lstm", (10, 2),
                 ["lstm name=memory units=6 return_sequences=true", "gru name=gru units=5", "dense name=sum units=1"],
                 lstm, {**named("memory", gates(2, 6, 4)), **named("gru", gates(6, 5, 3, (2, 15))),
                        **named("sum", affine(5, 1))},
                 adding, torch.tensor((adding[:, :, 0] * (adding[:, :, 1] > 0)).sum(1, keepdim=True).numpy()
                                      .astype(np.float32).astype(np.float64)),
                 "mse", mse, "rmsprop learning_rate=0.01", lambda w: Written(w, rmsprop(rate=0.01)), 25)

    def transformer(x, p):
        h = embedding(x, part(p, "tokens"))
        h = h + attention(layer_normalization(h, part(p, "norm1")), part(p, "attention"), True)
        m = dense(layer_normalization(h, part(p, "norm2")), part(p, "wide"), "gelu")
        h = h + dense(m, part(p, "narrow"))
        return dense(h, part(p, "logits"))

    tokens = torch.tensor(random.integers(0, 9, (6, 7)).astype(np.float64))
    norm = lambda width: {"gamma": torch.ones(width), "beta": torch.zeros(width)}
    network_case(out, "transformer", (7,),
                 ["embedding name=tokens vocabulary=9 width=8", "layer_normalization name=norm1",
                  "multi_head_attention name=attention heads=2 key_dim=4 causal=true", "add name=add1 from=attention,tokens",
                  "layer_normalization name=norm2", "dense name=wide units=16 activation=gelu",
                  "dense name=narrow units=8", "add name=add2 from=narrow,add1", "dense name=logits units=9"],
                 transformer, {**named("tokens", {"embeddings": draw(9, 8, scale=0.5)}), **named("norm1", norm(8)),
                               **named("attention", heads(8, 2)), **named("norm2", norm(8)),
                               **named("wide", affine(8, 16)), **named("narrow", affine(16, 8)),
                               **named("logits", affine(8, 9))},
                 tokens, torch.roll(tokens, -1, 1), "sparse_categorical_crossentropy",
                 lambda z, y: F.cross_entropy(z.reshape(-1, 9), y.reshape(-1).long()),
                 "adamw learning_rate=0.01", lambda w: KerasAdam(w, torch.optim.AdamW, learning_rate=0.01, weight_decay=0.004),
                 25)
    out.close()


if __name__ == "__main__":
    write_layers()
    write_optimizers()
    write_networks()
