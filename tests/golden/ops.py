#!/usr/bin/python3
"""Writes the golden values of operations, computed by PyTorch in float64.

    /usr/bin/python3 tests/golden/ops.py        # rewrites tests/golden/ops.txt

Each case names an operation and its settings, gives its inputs x, b, truth and sample_weight, and
expects the output and, for sum(output * cotangent), the gradients of the inputs. The format is
read by golden.h.
"""

import numpy as np
import torch
import torch.nn.functional as F

from layers import ACTIVATIONS, Writer

random = np.random.default_rng(7)


def exact(values):
    """As float64, after rounding to what float32 holds."""
    return torch.tensor(np.asarray(values, dtype=np.float32).astype(np.float64))


def draw(*shape, low=-3.0, high=3.0):
    return exact(random.uniform(low, high, shape))


def distribution(*shape):
    """Rows that sum to 1, up to float32's rounding."""
    values = random.uniform(0.05, 1.0, shape)
    return exact(values / values.sum(-1, keepdims=True))


out = Writer("ops.txt")


def write_case(name, operation, settings, inputs, compute):
    """inputs: name -> tensor; those of floats get a gradient when PyTorch has one."""
    leaves = {key: value.clone() for key, value in inputs.items()}
    for leaf in leaves.values():
        leaf.requires_grad_(leaf.is_floating_point())
    output = compute(*leaves.values())
    cotangent = draw(*output.shape, low=0.5, high=2.0)
    (output * cotangent).sum().backward()
    out.line("case", name)
    words = ["%s=%s" % (key, str(value).lower()) for key, value in settings.items()]
    out.line("layer", operation, *words)
    for key, value in inputs.items():
        out.tensor(key, value)
    out.tensor("cotangent", cotangent)
    out.tensor("expect.output", output)
    for key, leaf in leaves.items():
        if leaf.grad is not None:
            out.tensor("expect.%s.gradient" % key, leaf.grad)
    out.line("end")


# --- activations ----------------------------------------------------------------------------------

def write_activations():
    for name, compute in ACTIVATIONS.items():
        write_case("activation_" + name, name, {}, {"x": draw(6, 11, low=-7, high=7)}, compute)
    for name, compute in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        for axis in (0, 1, -1):
            write_case("%s_axis_%d" % (name, axis), name, {"axis": axis},
                       {"x": draw(4, 5, 3)}, lambda x: compute(x, axis))
        far = exact([[1000, -1000, 999, 0], [-500, -500, -501, -500], [88, 89, 90, 91]])
        write_case(name + "_far_out", name, {"axis": -1}, {"x": far}, lambda x: compute(x, -1))


# --- products -------------------------------------------------------------------------------------

def write_products():
    for name, a, b, options in (
        ("matrix", (3, 4), (4, 5), {}),
        ("transpose_a", (4, 3), (4, 5), {"transpose_a": True}),
        ("transpose_b", (3, 4), (5, 4), {"transpose_b": True}),
        ("transpose_both", (4, 3), (5, 4), {"transpose_a": True, "transpose_b": True}),
        ("batches", (2, 3, 4), (2, 4, 5), {}),
        ("batches_broadcast", (3, 1, 2, 4), (2, 4, 3), {}),
        ("one_matrix_for_all", (3, 2, 4), (4, 3), {"transpose_b": False}),
        ("wide", (20, 33), (33, 17), {}),
    ):
        def product(x, b):
            x = x.transpose(-1, -2) if options.get("transpose_a") else x
            return x @ (b.transpose(-1, -2) if options.get("transpose_b") else b)
        write_case("matmul_" + name, "matmul", options, {"x": draw(*a), "b": draw(*b)}, product)


# --- losses ---------------------------------------------------------------------------------------

def kl(x, truth):
    return F.kl_div(x.log(), truth, reduction="none").sum(-1)


def normalised(x):
    """Keras divides probabilities by their sum first."""
    return (x / x.sum(-1, keepdim=True)).log()


def elementwise(compute):
    return lambda x, truth: compute(x, truth, reduction="none").mean(-1)


def smooth(truth, amount):
    return truth * (1 - amount) + amount / 2


def classes(x):
    """Classes to the axis where PyTorch wants them."""
    return x.movedim(-1, 1) if x.dim() > 2 else x


def weighted(rows, sample_weight):
    return rows * sample_weight.reshape(sample_weight.shape + (1,) * (rows.dim() - sample_weight.dim()))


def write_loss(name, loss, settings, x, truth, rows):
    """Every loss as the mean, one value per example, and both with weights."""
    def write(suffix, more, inputs, compute):
        write_case("%s_%s" % (name, suffix), loss, {**settings, **more}, inputs, compute)

    inputs = {"x": x, "truth": truth}
    write("mean", {}, inputs, lambda x, truth: rows(x, truth).mean())
    write("per_example", {"per_example": True}, inputs, rows)
    inputs["sample_weight"] = draw(x.shape[0], low=0, high=2)
    write("weighted", {}, inputs,
          lambda x, truth, sample_weight: weighted(rows(x, truth), sample_weight).mean())
    if x.dim() > 2:
        inputs["sample_weight"] = draw(*x.shape[:-1], low=0, high=2)
    write("weighted_per_example", {"per_example": True}, inputs,
          lambda x, truth, sample_weight: weighted(rows(x, truth), sample_weight))


def write_losses():
    x, truth = draw(6, 5), draw(6, 5)
    write_loss("mse", "mse", {}, x, truth, elementwise(F.mse_loss))
    write_loss("mse_3d", "mse", {}, draw(3, 2, 4), draw(3, 2, 4), elementwise(F.mse_loss))
    write_loss("mae", "mae", {}, x, truth, elementwise(F.l1_loss))
    for delta in (1.0, 0.4):
        write_loss("huber_%g" % delta, "huber", {"delta": delta}, x, truth,
                   lambda x, truth: F.huber_loss(x, truth, reduction="none", delta=delta).mean(-1))

    probabilities, labels = draw(6, 5, low=0.02, high=0.98), draw(6, 5, low=0, high=1).round()
    logits = draw(6, 5, low=-9, high=9)
    for amount in (0.0, 0.2):
        options = {"label_smoothing": amount}
        name = "binary_crossentropy_smoothing_%g" % amount
        write_loss(name, "binary_crossentropy", options, probabilities, labels,
                   lambda x, truth: F.binary_cross_entropy(
                       x, smooth(truth, amount).detach(), reduction="none").mean(-1))
        write_loss(name + "_logits", "binary_crossentropy", {**options, "from_logits": True},
                   logits, labels, lambda x, truth: F.binary_cross_entropy_with_logits(
                       x, smooth(truth, amount).detach(), reduction="none").mean(-1))
    far = exact([[60, -60, 100, -100], [-300, 300, 0, 1e-6]])
    write_loss("binary_crossentropy_far_logits", "binary_crossentropy", {"from_logits": True}, far,
               exact([[1, 1, 0, 0], [0, 1, 0, 1]]), lambda x, truth:
               F.binary_cross_entropy_with_logits(x, truth.detach(), reduction="none").mean(-1))

    targets = distribution(6, 5)
    for amount in (0.0, 0.1):
        options = {"label_smoothing": amount}
        name = "categorical_crossentropy_smoothing_%g" % amount
        write_loss(name + "_logits", "categorical_crossentropy", {**options, "from_logits": True},
                   logits, targets, lambda x, truth: F.cross_entropy(
                       x, truth, reduction="none", label_smoothing=amount))
        write_loss(name, "categorical_crossentropy", options, distribution(6, 5), targets,
                   lambda x, truth: F.cross_entropy(
                       normalised(x), truth, reduction="none", label_smoothing=amount))
    numbers = torch.tensor(random.integers(0, 5, 6))
    name = "sparse_categorical_crossentropy"
    write_loss(name + "_logits", name, {"from_logits": True}, logits, numbers,
               lambda x, truth: F.cross_entropy(x, truth, reduction="none"))
    write_loss(name + "_far_logits", name, {"from_logits": True},
               exact([[1000, 0, -1000], [-1000, 1000, 990]]), torch.tensor([1, 2]),
               lambda x, truth: F.cross_entropy(x, truth, reduction="none"))
    write_loss(name, name, {}, distribution(6, 5), numbers,
               lambda x, truth: F.nll_loss(normalised(x), truth, reduction="none"))
    write_loss(name + "_sequence", name, {"from_logits": True}, draw(3, 4, 5),
               torch.tensor(random.integers(0, 5, (3, 4))),
               lambda x, truth: F.cross_entropy(classes(x), truth, reduction="none"))
    write_loss("kl_divergence", "kl_divergence", {}, distribution(6, 5), targets, kl)


if __name__ == "__main__":
    write_activations()
    write_products()
    write_losses()
    out.close()
