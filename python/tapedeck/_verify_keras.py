"""The same step twice, in Keras: at every N-th step a batch is trained with, everything is put back, and it is trained with
again. All variables and what the step returns are compared by fingerprints; where they differ, the layers are called twice."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy

from ._keep_keras import _variables
from ._keras_signals import BACKEND, observing
from .deck import RecordingWarning


def _value(value: Any) -> numpy.ndarray:
    return numpy.array(keras.ops.convert_to_numpy(value))  # a copy: some backends hand out their memory


def _bytes(logs: Any) -> dict[str, bytes]:
    return {name: _value(each).tobytes() for name, each in logs.items()}


class KerasVerifier:
    """Goes with a deck that records a Keras model."""

    def __init__(self, deck: Any, model: Any, layers: Callable[[], dict[str, Any]], every: int) -> None:
        if every < 1:
            raise ValueError(f"verify_every is a number of steps, not {every}")
        self.deck, self.model, self.layers, self.every = deck, model, layers, every
        self.stopped = False
        self.steps = self.differing = 0

    def is_due(self, step: int) -> bool:
        return not self.stopped and step % self.every == 0 and self.model.built

    # ---- state ----------------------------------------------------------------------------------

    def _all(self) -> dict[str, Any]:
        if self.model.optimizer is not None and not self.model.optimizer.built:
            self.model.optimizer.build(self.model.trainable_variables)
        return _variables(self.model) | {f"metric {i}": each for i, each in enumerate(self.model.metrics_variables)}

    def _state(self) -> tuple[dict[str, numpy.ndarray], Any]:
        random = None
        if BACKEND == "torch":
            from . import _random

            random = _random.as_arrays(_random.states())
        return {name: _value(variable) for name, variable in self._all().items()}, random

    def _restore(self, state: tuple[dict[str, numpy.ndarray], Any]) -> None:
        values, random = state
        for name, variable in self._all().items():
            variable.assign(values[name])
        if random is not None:
            from . import _random

            _random.restore(random)

    # ---- steps ----------------------------------------------------------------------------------

    def rehearse(self, data: Any, train: Callable[[Any], Any]) -> None:
        """Executes a step twice, and puts back what it changed."""
        try:
            before = self._state()
            runs = []
            for _ in range(2):
                try:
                    logs = _bytes(train(data))
                    runs.append((logs, {name: value.tobytes() for name, value in self._state()[0].items()}))
                finally:
                    self._restore(before)
            self.steps += 1
            if runs[0] != runs[1]:
                self._report(self._name_layer(data, before) or self._name_variable(*runs))
        except Exception as error:
            self.stop(f"step {self.deck.steps + 1} cannot be executed twice: {type(error).__name__}: {error}")

    def compare(self, first: Any, second: Any) -> None:
        """JAX: a step returns the state that it leaves."""
        import jax

        self.steps += 1
        one, two = (jax.tree_util.tree_leaves_with_path(each) for each in (first, second))
        for (path, a), (_, b) in zip(one, two):
            if _value(a).tobytes() != _value(b).tobytes():
                self._report(f"what train_step returns ({jax.tree_util.keystr(path)})")
                return

    def _name_variable(self, first: Any, second: Any) -> str:
        different = [name for name in first[1] if first[1][name] != second[1][name]]
        own = [name for name in different if not name.startswith(("optimizer.", "metric "))]
        if own:
            return f"the update of {self._all()[own[0]].path}"
        return different[0] if different else next(name for name in first[0] if first[0][name] != second[0].get(name))

    def _name_layer(self, data: Any, before: Any) -> str | None:
        """The first layer that puts out something else when the model is called twice."""
        if BACKEND == "jax":
            return None
        if BACKEND == "tensorflow" and hasattr(data, "get_value"):
            data = data.get_value()
        x, _, _ = keras.utils.unpack_x_y_sample_weight(data[0] if BACKEND == "torch" else data)
        runs: list[list[tuple[str, bytes]]] = [[], []]
        for outputs in runs:
            def observe(name: str, value: Any, outputs: list[tuple[str, bytes]] = outputs) -> Any:
                outputs.append((name, _value(value.detach() if BACKEND == "torch" else value).tobytes()))
                return value

            try:
                with observing(self.layers(), observe):
                    self.model(x, training=True)
            finally:
                self._restore(before)
        for (name, value), (_, again) in zip(*runs):
            if value != again:
                layer = self.layers().get(name.partition("@")[0])
                return f"layer {name} ({type(layer).__name__}), forward," if layer is not None else f"layer {name}, forward,"
        return None

    def _report(self, what: str) -> None:
        self.differing += 1
        text = f"step {self.deck.steps + 1}: executed twice, {what} made something else"
        if self.differing == 1:
            self.deck.note("verify.differs", text)
            warnings.warn(f"tapedeck: {self.deck.folder}: {text}", RecordingWarning, stacklevel=2)

    def stop(self, text: str) -> None:
        self.stopped = True
        self.deck.note("verify", text)
        warnings.warn(f"tapedeck: {text}", RecordingWarning, stacklevel=2)

    # ---- the deck -------------------------------------------------------------------------------

    def before_step(self) -> bool:
        return True

    def after_step(self) -> None:
        pass

    def finish(self) -> None:
        if self.steps:
            self.deck.note("verify.steps", f"{self.steps}, {self.differing} of them differ")
