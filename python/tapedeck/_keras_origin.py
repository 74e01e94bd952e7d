"""Where the first loss of a Keras training that is not finite came from, when its data and the weights that it started from are finite.

The step itself cannot be seen again: Keras has updated the weights when it reports the loss. So the weights of a little earlier are
kept, and the examples go through the model with them, layer by layer, outside of the training: what is not finite for one of them
without a step that blew weights up comes from an operation.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import keras
import numpy

from ._keras_apart import has_effects, has_own_code, untouched
from ._keras_signals import leaves, observing

MOST_NUMBERS = 1 << 22  # of weights that are kept
_ROWS = 1 << 13  # that are looked at
_TOGETHER = 256
_GROWN = 10.0  # times the largest weight at the start: a rate that is too high makes numbers that are not finite in many layers
_SMALLER = 2.0**-10  # times the inputs: what overflows no longer does
_USUAL = 80.0  # of numbers in size: an exponential of more is infinite, so below it a quotient or a logarithm has to be


def _is_finite(values: numpy.ndarray) -> bool:
    return bool(numpy.isfinite(values.sum(dtype=numpy.float64))) or bool(numpy.isfinite(values).all())


def _bad_rows(values: numpy.ndarray) -> numpy.ndarray:
    return (~numpy.isfinite(values)).reshape(len(values), -1).any(1)


class Weights:
    """The values of a model's variables as they were."""

    def __init__(self, model: Any, value_of: Any) -> None:
        self.trainable = [value_of(v) for v in model.trainable_variables]
        self.others = [value_of(v) for v in model.non_trainable_variables]
        floats = [v for v in self.trainable + self.others if v.dtype.kind == "f" and v.size]
        ends = [(float(v.max()), -float(v.min())) for v in floats]  # NaN, where there is one
        self.is_finite = all(math.isfinite(end) for pair in ends for end in pair)
        self.largest = max((max(pair) for pair in ends), default=0.0)

    def has_grown(self, since: "Weights") -> bool:
        return self.largest > _GROWN * max(since.largest, 1.0)


def are_few(model: Any) -> bool:
    return sum(int(numpy.prod(v.shape)) for v in model.variables) <= MOST_NUMBERS


class _Pass:
    """One call of the model, and the first layer that puts out something that is not finite in a row."""

    def __init__(self, rows: int, largest: float) -> None:
        self.rows, self.largest = rows, largest
        self.layer: str | None = None
        self.last: str | None = None  # of those before it
        self.bad: numpy.ndarray | None = None

    def observe(self, label: str, output: Any) -> Any:
        if self.layer is None:
            values = keras.ops.convert_to_numpy(output)
            if _is_finite(values):
                self.last = label
                self.largest = max(self.largest, float(numpy.abs(values).max(initial=0)))
            elif len(values) == self.rows:
                self.layer, self.bad = label, _bad_rows(values)
        return output


def find(model: Any, weights: Weights, x: Any, y: Any, loss: Any) -> dict[str, Any] | None:
    """The fact's members: of the first row whose output, or whose loss, is not finite; None: there is none."""
    if has_own_code(model) and has_effects(functools.partial(model, training=False), numpy.asarray(x[:1])):
        return None
    with untouched():
        return _find(model, weights, x, y, loss)


def _find(model: Any, weights: Weights, x: Any, y: Any, loss: Any) -> dict[str, Any] | None:
    layers = leaves(model)

    def run(some: numpy.ndarray) -> tuple[_Pass, numpy.ndarray | None]:
        seen = _Pass(len(some), float(numpy.abs(some).max(initial=0)) if some.dtype.kind == "f" else 0.0)
        with observing(layers, seen.observe):
            outputs, _ = model.stateless_call(weights.trainable, weights.others, keras.ops.convert_to_tensor(some), training=False)
        return seen, keras.ops.convert_to_numpy(outputs) if hasattr(outputs, "shape") else None

    for start in range(0, min(len(x), _ROWS), _TOGETHER):
        some = numpy.asarray(x[start : start + _TOGETHER])
        seen, values = run(some)
        if values is None:
            return None
        if not _is_finite(values):
            if seen.layer is None:
                return None
            smaller = run((some * _SMALLER).astype(some.dtype))[0] if some.dtype.kind == "f" else None
            row = int(seen.bad.argmax())
            divides = seen.largest < _USUAL if smaller is None else smaller.layer == seen.layer and bool(smaller.bad[row])
            return {"operation": type(layers[seen.layer.partition("@")[0]]).__name__.lower(), "is_layer": True, "layer": seen.layer,
                    "divides": divides, "row": start + row}
        if y is not None and (found := _of_loss(loss, numpy.asarray(y[start : start + _TOGETHER]), values, start)):
            return found | {"layer": seen.last}
    return None


def _of_loss(loss: Any, targets: numpy.ndarray, outputs: numpy.ndarray, start: int) -> dict[str, Any] | None:
    def value(a: int, b: int) -> float:
        return float(numpy.sum(keras.ops.convert_to_numpy(loss(targets[a:b], outputs[a:b]))))

    if not callable(loss) or has_effects(loss, targets[:1], outputs[:1]) or numpy.isfinite(value(0, len(outputs))):
        return None
    row = next((i for i in range(len(outputs)) if not numpy.isfinite(value(i, i + 1))), None)
    divides = float(numpy.abs(outputs).max()) < _USUAL
    return {"operation": getattr(loss, "name", None) or getattr(loss, "__name__", "loss"), "is_loss": True, "is_layer": False,
            "divides": divides} | ({} if row is None else {"row": start + row})
