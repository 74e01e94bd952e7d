#!/usr/bin/python3
"""Trains small networks in PyTorch, in float64, from given weights and in the file's order.

    /usr/bin/python3 tests/golden/train.py        # rewrites tests/golden/train/*.npz

Each .npz holds the data (x, y), the weights at the start (start:PARAMETER) and what 50 steps of
training gave: loss (50), and at the steps STEPS, of which the second is the last short batch of its
epoch, error:LAYER (rows of all those steps), gradient:PARAMETER; and end:PARAMETER. The experiment
that trains the same network in Tapedeck is the YAML beside it. test_train.py compares.
"""

import math
import os

import numpy as np
import torch
import torch.nn.functional as F

import layers as keras

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train")
BATCH, EXAMPLES, STEPS, LAST = 12, 42, (1, 4, 50), 50
random = np.random.default_rng(7)


def draw(*shape, scale=1.0):
    return (random.standard_normal(shape) * scale).astype(np.float32)


class Tape:
    """Hands out a layer's parameters and keeps the outputs whose errors are wanted."""

    def __init__(self, parameters):
        self.parameters, self.outputs = parameters, {}

    def of(self, layer):
        return keras.part(self.parameters, layer)

    def keep(self, layer, output):
        output.retain_grad()
        self.outputs[layer] = output
        return output


def train(name, forward, start, x, y, loss, make, clip=None, rate=None):
    parameters = {key: torch.tensor(value.astype(np.float64)) for key, value in start.items()}
    trained = {key: value.requires_grad_() for key, value in parameters.items() if "moving" not in key}
    optimizer = make(list(trained.values()))
    data, truth = torch.tensor(x.astype(np.float64)), torch.tensor(y.astype(np.float64))
    losses, errors, gradients = [], {}, {}
    order = [slice(first, min(first + BATCH, EXAMPLES)) for first in range(0, EXAMPLES, BATCH)]
    for step in range(1, LAST + 1):
        rows = order[(step - 1) % len(order)]
        for value in trained.values():
            value.grad = None
        tape = Tape(parameters)
        value = loss(forward(data[rows], tape), truth[rows])
        value.backward()
        losses.append(value.item())
        if step in STEPS:
            for layer, output in tape.outputs.items():
                errors.setdefault(layer, []).append(output.grad.reshape(output.shape[0], -1).numpy())
            for key, parameter in trained.items():
                gradients.setdefault(key, []).append(parameter.grad.numpy().copy())
        if clip:
            total = math.sqrt(sum((value.grad**2).sum().item() for value in trained.values()))
            for value in trained.values():
                value.grad *= min(1.0, clip / total)
        if rate:
            optimizer.param_groups[0]["lr"] = rate(step - 1)
        optimizer.step()
    arrays = {"x": x, "y": y, "loss": np.array(losses)}
    arrays.update({"start:" + key: value for key, value in start.items()})
    arrays.update({"error:" + key: np.concatenate(value).astype(np.float32) for key, value in errors.items()})
    arrays.update({"gradient:" + key: np.stack(value).astype(np.float32) for key, value in gradients.items()})
    arrays.update({"end:" + key: value.detach().numpy().astype(np.float32) for key, value in parameters.items()})
    np.savez_compressed(os.path.join(FOLDER, name + ".npz"), **arrays)
    print("%-12s %.6f -> %.6f" % (name, losses[0], losses[-1]))


def affine(layer, inputs, outputs):
    return {layer + ".kernel": draw(inputs, outputs, scale=1 / math.sqrt(inputs)), layer + ".bias": draw(outputs, scale=0.1)}


def floats(parameters):
    return {key: value.numpy().astype(np.float32) for key, value in parameters.items()}


def cross_entropy(z, y):
    return F.cross_entropy(z, y.long())


def dense():
    def forward(x, tape):
        h = tape.keep("hidden", keras.dense(x, tape.of("hidden"), "relu"))
        return tape.keep("output", keras.dense(h, tape.of("output")))

    train("dense", forward, {**affine("hidden", 5, 10), **affine("output", 10, 5)}, draw(EXAMPLES, 5),
          draw(EXAMPLES, 5), F.mse_loss, lambda w: keras.KerasAdam(w, learning_rate=0.01))


def conv():
    def forward(x, tape):
        h = tape.keep("conv1", keras.conv2d(x, tape.of("conv1"), padding="same", activation="relu"))
        h = tape.keep("pool", keras.max_pool2d(h, None))
        h = tape.keep("conv2", keras.conv2d(h, tape.of("conv2"), activation="tanh"))
        return tape.keep("logits", keras.dense(h.reshape(h.shape[0], -1), tape.of("logits")))

    start = {"conv1.kernel": draw(3, 3, 1, 4, scale=0.4), "conv1.bias": draw(4, scale=0.1),
             "conv2.kernel": draw(2, 2, 4, 5, scale=0.3), "conv2.bias": draw(5, scale=0.1), **affine("logits", 45, 3)}
    train("conv", forward, start, draw(EXAMPLES, 8, 8, 1), random.integers(0, 3, EXAMPLES).astype(np.int32),
          cross_entropy, lambda w: torch.optim.SGD(w, 0.05, 0.9, nesterov=True))


def recurrent():
    def forward(x, tape):
        h = tape.keep("memory", keras.recurrent("lstm", x, tape.of("memory"), True))
        h = tape.keep("gru", keras.recurrent("gru", h, tape.of("gru"), True))
        h = tape.keep("rnn", keras.recurrent("simple_rnn", h, tape.of("rnn")))
        return tape.keep("sum", keras.dense(h, tape.of("sum")))

    start = {**floats(keras.named("memory", keras.gates(2, 6, 4))), **floats(keras.named("gru", keras.gates(6, 5, 3, (2, 15)))),
             **floats(keras.named("rnn", keras.gates(5, 4, 1))), **affine("sum", 4, 1)}
    x = draw(EXAMPLES, 7, 2)
    y = (x[:, :, 0] * (x[:, :, 1] > 0)).sum(1, keepdims=True).astype(np.float32)
    train("recurrent", forward, start, x, y, F.mse_loss, lambda w: keras.Written(w, keras.rmsprop(rate=0.005)))


def normalised():
    def forward(x, tape):
        h = tape.keep("first", keras.dense(x, tape.of("first")))
        p = tape.parameters
        with torch.no_grad():
            for key, statistic in (("moving_mean", h.mean(0)), ("moving_variance", h.var(0, unbiased=False))):
                p["batch." + key] = 0.99 * p["batch." + key] + 0.01 * statistic
        h = tape.keep("batch", keras.batch_normalization(h, tape.of("batch")))
        h = torch.relu(h)
        h = tape.keep("layer", keras.layer_normalization(h, tape.of("layer")))
        return tape.keep("logits", keras.dense(h, tape.of("logits")))

    ones, zeros = np.ones(8, np.float32), np.zeros(8, np.float32)
    start = {"first.kernel": draw(6, 8, scale=0.4), "batch.gamma": ones, "batch.beta": zeros, "batch.moving_mean": zeros,
             "batch.moving_variance": ones, "layer.gamma": ones, "layer.beta": zeros, **affine("logits", 8, 3)}
    train("normalised", forward, start, draw(EXAMPLES, 6), random.integers(0, 3, EXAMPLES).astype(np.int32),
          cross_entropy, lambda w: keras.KerasAdam(w, torch.optim.AdamW, learning_rate=0.01, weight_decay=0.1))


def attention():
    def forward(x, tape):
        h = tape.keep("attention", keras.attention(x, tape.of("attention"), True))
        h = tape.keep("sum", h + x)
        h = tape.keep("norm", keras.layer_normalization(h, tape.of("norm")))
        return tape.keep("logits", keras.dense(h.reshape(h.shape[0], -1), tape.of("logits")))

    start = {**floats(keras.named("attention", keras.heads(8, 2))), "norm.gamma": np.ones(8, np.float32),
             "norm.beta": np.zeros(8, np.float32), **affine("logits", 40, 3)}
    rate = lambda t: 0.2 * (t / 10 if t < 10 else (1 + math.cos(math.pi * (t - 10) / 40)) / 2)
    train("attention", forward, start, draw(EXAMPLES, 5, 8), random.integers(0, 3, EXAMPLES).astype(np.int32),
          cross_entropy, lambda w: torch.optim.SGD(w, 0.2), clip=0.5, rate=rate)


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    for network in (dense, conv, recurrent, normalised, attention):
        network()
