"""Which weights of a Keras model no update has changed, although they are trainable: a step of the user's own may leave them out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from . import _keras_head

_MOST = 64  # weights that are compared
_LOOKED_AT = 8  # weights that may be as drawn
_NUMBERS = 1 << 22  # of one of them
_ENOUGH = 32  # updates
_NAMES = 16


class Unchanged:
    """Compares weights with what they were when they were first seen, until they have changed."""

    def __init__(self, model: Any, sample_of: Callable[[Any], numpy.ndarray], value_of: Callable[[Any], numpy.ndarray]) -> None:
        self.model, self.sample_of, self.value_of = model, sample_of, value_of
        self.first: dict[int, tuple[Any, numpy.ndarray]] = {}  # of those that have not changed so far
        self.since: int | None = None
        self.updates = 0
        self.changed = 0
        self.are_drawn = False  # most of them are as Keras draws them for new layers

    def see(self, kernels: list[Any], updates: int) -> None:
        if self.since is None and kernels:
            self.since = updates
            self.first = {id(v): (v, self.sample_of(v)) for v in kernels[:: -(-len(kernels) // _MOST)]}
            drawn = [_keras_head.is_as_drawn(self.value_of(v), 1e-3) for v in kernels[:: -(-len(kernels) // _LOOKED_AT)]
                     if math.prod(v.shape) <= _NUMBERS]
            self.are_drawn = len(drawn) > 0 and 2 * sum(drawn) >= len(drawn)
        elif self.first and updates >= 4:
            self.compare(updates)

    def compare(self, updates: int) -> None:
        self.updates = updates
        for key, (variable, first) in list(self.first.items()):
            if not numpy.array_equal(self.sample_of(variable), first):
                del self.first[key]
                self.changed += 1

    def facts(self, is_plain: bool, called: set[str] | None) -> dict[str, Any] | None:
        """`called`: names of layers that the step calls; another layer's weights have no reason to change."""
        if not self.changed or not self.first or self.updates - (self.since or 0) < _ENOUGH:
            return None
        owners = {id(v): layer for layer in self.model._flatten_layers(include_self=False) for v in getattr(layer, "_trainable_variables", [])}
        trainable = {id(v) for v in self.model.trainable_variables}
        left = [v for key, (v, _) in self.first.items() if key in trainable and float(abs(self.first[key][1]).max(initial=0)) > 0]
        if called is not None:
            left = [v for v in left if id(v) in owners and owners[id(v)].name in called]
        names = [v.path.removeprefix(f"{self.model.name}/").replace("/", ".") for v in left]
        new = [v for v in left if math.prod(v.shape) <= _NUMBERS and _keras_head.is_as_drawn(self.value_of(v))]
        if not names:
            return None
        return {"count": len(names), "names": names[:_NAMES], "new": 0 if is_plain or called is None else len(new), "left_out": True}
