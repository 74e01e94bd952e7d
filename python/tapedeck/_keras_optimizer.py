"""The optimizer's state of a Keras model: PARAMETER.moment1 and .moment2, by the names that Keras's optimizers give them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras

# The lists of an optimizer that hold a variable for each parameter, as of Keras 3.
_MOMENTS: tuple[tuple[str, tuple[str | None, str | None]], ...] = (
    ("Adamax", ("_m", "_u")), ("Adam", ("_momentums", "_velocities")), ("Nadam", ("_momentums", "_velocities")),
    ("Lion", ("_momentums", None)), ("SGD", ("momentums", None)), ("RMSprop", ("_momentums", "_velocities")),
    ("Adagrad", (None, "_accumulators")), ("Adadelta", (None, "_accumulated_grads")),
)


def _lists_of(optimizer: Any) -> tuple[Any, tuple[str | None, str | None]]:
    """The optimizer that has the state (one within a LossScaleOptimizer), and the names of its lists."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    for name, lists in _MOMENTS:
        kind = getattr(keras.optimizers, name, None)
        if kind is not None and isinstance(inner, kind):
            return inner, lists
    return inner, (None, None)


def words_of(optimizer: Any) -> list[str]:
    """What can be recorded of each parameter."""
    _, lists = _lists_of(optimizer)
    return [f"moment{i + 1}" for i, name in enumerate(lists) if name] + ["update_ratio"] * (optimizer is not None)


def moments_of(optimizer: Any, variable: Any) -> Iterator[tuple[str, Any]]:
    """Word and variable of each moment that there is by now."""
    inner, lists = _lists_of(optimizer)
    if not getattr(inner, "built", False):
        return
    try:
        index = inner._get_variable_index(variable)
    except (KeyError, AttributeError):
        return  # the optimizer does not train it
    for i, name in enumerate(lists):
        kept = getattr(inner, name, None) if name else None
        if kept and index < len(kept) and kept[index] is not None:
            yield f"moment{i + 1}", kept[index]
