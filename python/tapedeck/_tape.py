"""TensorFlow loops that are written by hand: a GradientTape that records.

How: while the tape is on, layers report their outputs; its gradient is taken with respect to these as well. In a
``tf.function`` Python runs only while it is traced, so the graph calls back, in steps that are due. Parameters
are read when the deck's step is closed.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy
import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from ._keras_signals import Signals, observing
from ._keras_steps import Capture
from .deck import Deck


class TapeSignals(Signals):
    """Goes with a deck: the model's parameters in each of its steps."""

    def __init__(self, deck: Deck, model: Any, prefix: str = "") -> None:
        super().__init__(deck, model, prefix)
        self.note_facts()
        self.before: dict[str, numpy.ndarray] = {}
        self.taken: set[str] = set()  # recorded in the open step
        self.due = tf.Variable(deck.due(), trainable=False, name="tapedeck_due")

    def value_of(self, variable: Any) -> numpy.ndarray:
        return variable.numpy()

    def take(self, captured: dict[str, Any], before: dict[str, Any]) -> None:
        """What a pass of the tape brings, before the optimizer steps."""
        again = self.taken & set(captured)
        if again - {"loss"}:
            self.cannot("a second pass", "several passes of the tape in a step: outputs, errors and gradients are those of "
                        "the first; call deck.step() after each to have them all")
        self.put({name: value for name, value in captured.items() if name not in again})
        self.taken |= set(captured)
        wants = self.deck._native.wants
        for name, value in before.items():
            if name not in self.before and wants(f"{name}.update"):
                self.before[name] = numpy.array(value)

    def before_step(self) -> bool:
        try:
            if self.deck.due():
                self.put_parameters(self.before, self.value_of)
        except Exception as error:
            self.cannot(f"{self.prefix}*", error)
        self.before, self.taken = {}, set()
        return True

    def after_step(self) -> None:
        self.after_track()

    def after_track(self) -> None:
        """Something may be due that was not before."""
        due = self.deck.due()
        if bool(self.due) != due:
            self.due.assign(due)


class Tape(tf.GradientTape):
    """A plain tape, with gradients of a plain tape; what it records besides."""

    def __init__(self, signals: TapeSignals, optimizer: Any, **options: Any) -> None:
        super().__init__(**options)
        self._signals = signals
        self._capture = Capture(tf, signals, optimizer)
        self._records = signals.deck.due() if self._capture.graph is None else self._can_call_back()
        self._passed: set[str] = set()  # signals that the deck has
        self._contexts = contextlib.ExitStack()

    def _can_call_back(self) -> bool:
        if control_flow_util.GraphOrParentsInXlaContext(self._capture.graph):
            self._signals.cannot(f"{self._signals.prefix}*.output, *.error, *.gradient",
                                 "the function is compiled by XLA (jit_compile=True), which calls no Python")
            return False
        return True

    def __enter__(self) -> "Tape":
        super().__enter__()
        self._contexts.enter_context(self._capture.scaling)
        if self._records:
            self._contexts.enter_context(observing(self._signals.layers, self._capture.observe))
        return self

    def __exit__(self, *error: Any) -> None:
        self._contexts.close()
        super().__exit__(*error)

    def gradient(self, target: Any, sources: Any, *arguments: Any, **options: Any) -> Any:
        if not self._records:
            return super().gradient(target, sources, *arguments, **options)
        signals = self._signals
        if not signals.complete:  # layers that were built by this call of the model
            signals.declare()
        result = self._capture.gradient(tf.GradientTape.gradient, self, target, sources, *arguments, **options)
        fresh = {name: value for name, value in self._capture.values.items() if name not in self._passed}
        self._passed |= set(fresh)
        try:
            self._pass_on(fresh)
        except Exception as error:
            signals.cannot(f"{signals.prefix}*", error)
        return result

    def _pass_on(self, captured: dict[str, Any]) -> None:
        """To the deck: at once, or when the graph runs."""
        signals, variables = self._signals, self._signals.variables
        if self._capture.graph is None:
            signals.take(captured, {name: signals.value_of(v) for name, v in variables.items()})
            return
        names = list(captured)

        def take(*values: Any) -> None:
            try:
                signals.take(dict(zip(names, values)), dict(zip(variables, values[len(names):])))
            except Exception as error:
                signals.cannot(f"{signals.prefix}*", error)

        def call_back() -> Any:
            now = [tf.convert_to_tensor(v) for v in variables.values()]  # before the optimizer's update
            with tf.control_dependencies([tf.numpy_function(take, [*captured.values(), *now], [])]):
                return tf.constant(True)

        tf.cond(signals.due, call_back, lambda: tf.constant(False))
