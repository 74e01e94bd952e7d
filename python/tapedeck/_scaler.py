"""The GradScaler of a model: gradients carry its scale until the optimizer steps."""

from __future__ import annotations

import weakref
from typing import Any

from . import _observe


class ModelScaler:
    """The scaler that was given, or the one that scaled a loss before the model's first update."""

    def __init__(self, given: Any = None) -> None:
        self.reference: Any = None
        self.known_states: Any = None
        self.is_settled = False
        if given is None:
            _observe.scaling.add(self.observe)
        else:
            self.observe(given)

    def observe(self, scaler: Any) -> None:
        if self.reference is None or self.reference() is not scaler:
            self.reference = weakref.ref(scaler)
            self.known_states = self.states()

    def settle(self) -> None:
        """The first update is over: the scaler is known, or there is none."""
        self.is_settled = True
        _observe.scaling.remove(self.observe)

    def find(self) -> Any:
        scaler = self.reference() if self.reference is not None else None
        return scaler if scaler is not None and scaler.is_enabled() else None

    def scale(self) -> float:
        scaler = self.find()
        return 1.0 if scaler is None else float(scaler.get_scale())

    def states(self) -> Any:
        """What the scaler knows about each optimizer. It replaces this dict in every `update()`."""
        return getattr(self.find(), "_per_optimizer_states", None)

    def has_updated(self) -> bool:
        """Whether `update()` was called since this was asked last."""
        if self.reference is None:
            return False
        states, known = self.states(), self.known_states
        self.known_states = states
        return states is not None and states is not known

    def has_unscaled(self, optimizers: set[int]) -> bool:
        """Whether gradients of these optimizers, or of any if none are known, were unscaled since the last update."""
        states = self.states() or {}
        return any(getattr(state["stage"], "name", "READY") != "READY"
                   for key, state in states.items() if key in optimizers or not optimizers)
