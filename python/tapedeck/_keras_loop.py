"""What a Keras training does, as facts that `tapedeck diagnose` judges: the note ``loop``, as `_loop.py` writes it for PyTorch.

Model, loss and optimizer say most of it before the first step. The arrays that ``fit`` was given are read once, at the beginning:
Keras hands them to no callback, so they are taken from its frame. Then some weights are compared in the first updates, and now
and then later, and the loss is followed from Keras's own running mean. Nothing here changes a value.
"""

from __future__ import annotations

import functools
import math
import statistics
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy

from . import _keras_apart, _keras_batches, _keras_head, _keras_origin, _keras_parameters, _loop_data
from ._keras_data import FitData, first_nonfinite, is_array

_FIRST_UPDATES = 16  # whose size is looked at
_RATIO_PERIOD = 64
_WEIGHTS = 8
_SAMPLE = 1 << 14  # numbers of a weight
_GROWN = 3.0  # times as large as drawn: noise and small updates are less
_BATCHES = 256  # of a PyDataset that are made once more where a loss is not finite


class KerasLoop:
    """Goes with a recorder during one ``fit``. A fact that is not available ends the gathering, not the training."""

    def __init__(self, deck: Any, model: Any, prefix: str, step: Any = None) -> None:
        self.deck, self.model, self.prefix, self.step = deck, model, prefix, step
        self.stopped = False
        self.facts: dict[str, Any] = {"updates": 0}
        self.written = ""
        self.updates = 0
        self.is_plain = False
        self.before: list[tuple[Any, numpy.ndarray]] = []
        self.first: dict[int, numpy.ndarray] = {}  # the same weights, before the first update
        self.ratios: list[float] = []
        self.seen, self.mean = 0, 0.0  # of this epoch: batches, and Keras's mean of their losses
        self.losses: list[float] = []
        self.losses_due = 1  # how many of them are looked at next
        self.data: FitData | None = None
        self.batches: Any = None  # a PyDataset, where fit was given one
        self.passing: _keras_batches.Batches | None = None  # those that pass by, where fit was given no arrays
        self.bad_batch: dict[str, Any] | None = None  # the first one with a number that is not finite
        self.starts_finite = False  # all weights, before the first step
        self.weights: list[_keras_origin.Weights] = []  # at the start, and of some updates ago
        self.parameters = _keras_parameters.Unchanged(model, self.sample_of, self.value_of)
        for name in ("before_batch", "see_batch", "after_batch", "end_epoch", "finish"):
            setattr(self, name, self.guarded(getattr(self, name)))
        self.guarded(self.begin)()

    def guarded(self, method: Callable) -> Callable:
        @functools.wraps(method)
        def call(*arguments: Any) -> None:
            if self.stopped:
                return
            try:
                method(*arguments)
            except Exception as error:
                self.stopped = True
                self.deck.note(self.prefix + "loop_stopped", f"facts about the loop end at update {self.updates}: {error!r}"[:500])

        return call

    def write(self) -> None:
        text = _loop_data.as_json(self.facts)
        if text != self.written:
            self.written = text
            self.deck.note(self.prefix + "loop", text)

    # ---- before the first step ------------------------------------------------------------------------

    def begin(self) -> None:
        model, facts = self.model, self.facts
        is_plain = _keras_head.is_plain(model)
        facts["optimizers"] = {"ours": 1, "others": 0 if is_plain else max(0, _keras_head.optimizer_count(model) - 1)}
        facts["optimizer"] = _keras_head.options_of(model.optimizer)
        self.is_plain = is_plain
        if is_plain and (head := _keras_head.describe(model)):
            facts["head"] = head
        elif is_plain and (heads := _keras_head.describe_each(model)):
            facts["heads"] = heads
        self.starts_finite = not _keras_head.nonfinite_weights(model, self.value_of)["count"]  # of none: initializers draw them later
        if model.built:
            facts["trainable"] = len(model.trainable_weights)
            if start := _keras_head.odd_weights(model):
                facts["start"] = start
            if biases := _keras_head.large_biases(model):
                facts["biases"] = biases
            if dropping := _keras_head.strong_dropout(model):
                facts["dropping"] = dropping
            if frozen := _keras_head.untrained_frozen(model):
                facts["frozen"] = frozen
        self.data, self.batches = FitData.find(model), _batches_of(model)
        if self.data is None and (found := _arguments_of_fit(model)) is not None:
            self.passing = _keras_batches.Batches(*found)
        if self.data is not None:
            facts |= self.data.facts(_keras_head.reads_indices(model), functools.partial(_keras_head.scaled_inputs, model))
            for head, y in zip(facts.get("heads", ()), self.data.labels_of(facts.get("heads", ()))):
                head |= self.data.facts_of(y)
            if is_plain and self.data.y is not None and (shapes := _keras_head.broadcast(model, self.data.y)):
                facts["head"] = facts.get("head", {}) | {"compared": shapes}
            if self.data.nonfinite is not None:
                what, row = self.data.nonfinite
                facts["nonfinite"] = {"since": self.deck.steps + 1, "what": what, "row": row, "of": "data"}
        self.write()

    # ---- steps ----------------------------------------------------------------------------------------

    def before_batch(self) -> None:
        self.before = []
        if self.updates < _FIRST_UPDATES or self.updates % _RATIO_PERIOD == 0:
            if self.model.built and (self.updates & (self.updates - 1) == 0 or self.updates % _RATIO_PERIOD == 0):
                self.keep_weights()
            kernels = [v for v in self.model.trainable_variables if len(v.shape) > 1]
            self.parameters.see(kernels, self.updates)
            kernels = kernels[:: max(1, len(kernels) // _WEIGHTS)][:_WEIGHTS]
            self.before = [(v, self.sample_of(v)) for v in kernels]

    @property
    def wants_batches(self) -> bool:
        """Data that are no arrays are seen as batches pass by, in the first updates."""
        return self.passing is not None and not self.stopped

    def see_batch(self, data: Any) -> None:
        if self.passing is not None and self.passing.see(data, self.deck.steps + 1):
            self.write_passing()

    def see_output(self) -> None:
        """The layer that puts out what the model does, of a model that calls its layers itself."""
        output = self.step.calls.output if self.step is not None else None
        if output is None or "head" in self.facts:
            return
        head = _keras_head.describe_called(self.model, *output)
        y = self.data.y if self.data is not None else None
        compared = y is not None and list(y.shape[1:]) == head.get("shape") and numpy.asarray(y[:1]).dtype.kind == "f"
        if head and ("loss" in head or compared):
            self.facts["head"] = head

    def write_passing(self) -> None:
        """What the batches that have passed are like."""
        passing, self.passing = self.passing, None
        if passing is None or not passing.updates:
            return
        self.facts |= passing.facts()
        self.bad_batch = passing.bad
        if self.is_plain and passing.bad is not None and "nonfinite" not in self.facts:  # a step of the user's own may leave out such rows
            self.facts["nonfinite"] = {"since": passing.bad_since} | passing.bad
        data = passing.data()
        if data is not None:
            facts = data.facts(_keras_head.reads_indices(self.model), functools.partial(_keras_head.scaled_inputs, self.model), own=False)
            for head, y in zip(self.facts.get("heads", ()), data.labels_of(self.facts.get("heads", ()))):
                head |= data.facts_of(y)
            self.facts |= {key: value for key, value in facts.items() if key not in self.facts}
        self.write()

    def keep_weights(self) -> None:
        """For when a loss is not finite: then they are what the step has made of them."""
        if self.data is None or not self.is_plain or "nonfinite" in self.facts or not _keras_origin.are_few(self.model):
            return
        weights = _keras_origin.Weights(self.model, self.value_of)
        if weights.is_finite and not (self.weights and weights.has_grown(self.weights[0])):
            self.weights[1:] = [weights]

    def value_of(self, variable: Any) -> numpy.ndarray:
        return numpy.array(keras.ops.convert_to_numpy(self.held_by(variable)))

    def sample_of(self, variable: Any) -> numpy.ndarray:
        """Of rows at equal distances: steps are measured with few numbers."""
        held = self.held_by(variable)
        distance = math.ceil(math.prod(held.shape) / _SAMPLE)
        some = held if distance == 1 else held[:: min(distance, held.shape[0])]
        return numpy.array(keras.ops.convert_to_numpy(some), numpy.float64)

    def held_by(self, variable: Any) -> Any:
        """Keras on JAX holds the values that are being trained apart from the model's variables."""
        state = getattr(self.model, "_jax_state", None)
        if state is not None:
            place = next((i for i, v in enumerate(self.model.trainable_variables) if v is variable), None)
            values = state.get("trainable_variables")
            if place is not None and values is not None:
                return values[place]
        return variable.value

    def after_batch(self, updates: int, logs: Any) -> None:
        self.updates += updates
        self.facts["updates"] = self.updates
        ratios, ways = [], []
        for variable, before in self.before:
            size, now = _norm(before), self.sample_of(variable)
            step = _norm(now - before)
            if size > 0 and math.isfinite(step):
                first = self.first.setdefault(id(variable), before)
                ratios.append(step / size / updates)
                ways.append(_norm(now - first) / max(_norm(first), 1e-30))
        if not self.before and self.updates == updates:  # the first update has built the model
            ratios, ways = self.growth(updates), [0.0]
        self.before = []
        if ratios:
            self.ratios.append(statistics.median(ratios))
            self.facts["steps"] = {"count": len(self.ratios), "median": statistics.median(self.ratios), "largest": max(self.ratios),
                                   "way": statistics.median(ways), "way_updates": self.updates, "drawn": self.parameters.are_drawn}
        loss = (logs or {}).get("loss")
        if loss is not None:
            self.see_loss(float(loss), updates)
        if self.updates <= _FIRST_UPDATES or self.updates % _RATIO_PERIOD == 0:
            self.see_output()
            self.write()

    def growth(self, updates: int) -> list[float]:
        """Of weights that were drawn in the first update and are much larger after it than their initializer draws them."""
        drawn, found = _keras_head.drawn_deviations(self.model), []
        for variable in self.model.trainable_variables:
            deviation = float(self.sample_of(variable).std()) if id(variable) in drawn else 0.0
            if deviation > 0 and _GROWN * drawn[id(variable)] < deviation < math.inf:
                found.append(deviation / drawn[id(variable)] / updates)
        return found

    def see_loss(self, mean: float, batches: int) -> None:
        """Keras reports the mean of the epoch so far, of batches of one size."""
        if not math.isfinite(mean):
            if "loss" not in self.facts.setdefault("nonfinite", {}):
                self.see_nonfinite("NaN" if math.isnan(mean) else "infinite", self.updates - batches)
            return
        self.seen += batches
        loss = (mean * self.seen - self.mean * (self.seen - batches)) / batches
        self.mean = mean
        self.losses.append(loss)
        if len(self.losses) >= self.losses_due:
            self.losses_due = len(self.losses) * 17 // 16 + 1  # reading all of them takes longer and longer
            self.write_losses()

    def write_losses(self) -> None:
        tenth = max(1, len(self.losses) // 10)
        self.facts["loss"] = {"points": len(self.losses), "first": self.losses[0],
                              "early": float(numpy.mean(self.losses[: max(1, tenth // 2)])),
                              "last": float(numpy.mean(self.losses[-tenth:])), "least": min(self.losses)}

    def see_nonfinite(self, loss: str, updates: int) -> None:
        """The step has updated the weights already: with a first loss that is not finite, no update has led to it."""
        fact = self.facts["nonfinite"]
        fact |= {"since": self.deck.steps + 1, "loss": loss}
        if "what" not in fact:
            started = updates == 0 and self.starts_finite
            fact |= {"what": "pass" if started else "weights", "updates": updates}
            fact |= {} if started else _keras_head.nonfinite_weights(self.model, self.value_of)
            self.write()  # the rest may fail
            self.write_passing()
            if bad := self.bad_batch or _bad_batch(self.batches):
                self.facts["nonfinite"] = {"since": fact["since"], "loss": loss} | bad
            for weights in self.weights if self.data is not None and not self.data.is_nested else ():
                found = _keras_origin.find(self.model, weights, self.data.x, self.data.y, _keras_head.loss_function(self.model))
                if found:
                    self.facts["nonfinite"] = {"since": fact["since"], "loss": loss, "what": "pass", "updates": 0, "of": "data"} | found
                    break
        self.write()

    @property
    def called(self) -> set[str] | None:
        """Names of layers that a recorded step has called; None: it was not seen."""
        return self.step.calls.names or None if self.step is not None else None

    def end_epoch(self, logs: dict[str, float]) -> None:
        self.seen, self.mean = 0, 0.0
        for head in self.facts.get("heads", ()):
            loss = logs.get(f"{head['output']}_loss", math.nan)
            if math.isfinite(loss):
                head["last_loss"] = loss
                head.setdefault("first_loss", loss)

    def finish(self) -> None:
        self.write_passing()
        if self.losses:
            self.write_losses()
        self.see_output()
        self.parameters.compare(self.updates)
        if unchanged := self.parameters.facts(self.is_plain, self.called):
            self.facts["unchanged"] = unchanged
        if self.data is not None and not self.data.is_nested and "head" in self.facts and "nonfinite" not in self.facts:
            self.facts |= self.data.predictions(self.model)
        self.write()


def _arguments_of_fit(model: Any) -> tuple[int, tuple[Any, Any] | None] | None:
    """Batches of an epoch (0: not known) and arrays of the validation, of the ``fit`` of this model that is running."""
    frame = sys._getframe(1)
    while frame is not None and not (frame.f_code.co_name == "fit" and frame.f_locals.get("self") is model):
        frame = frame.f_back
    if frame is None:
        return None
    x, y = frame.f_locals.get("val_x"), frame.f_locals.get("val_y")
    batches = getattr(frame.f_locals.get("epoch_iterator"), "num_batches", None)
    return int(batches or 0), (x, y) if is_array(x) and is_array(y) else None


def _batches_of(model: Any) -> Any:
    """The `PyDataset` that ``fit`` of this model was given."""
    frame = sys._getframe(1)
    while frame is not None and not (frame.f_code.co_name == "fit" and frame.f_locals.get("self") is model):
        frame = frame.f_back
    adapter = getattr(frame.f_locals.get("epoch_iterator"), "data_adapter", None) if frame is not None else None
    return getattr(adapter, "py_dataset", None)


def _bad_batch(batches: Any) -> dict[str, Any]:
    """The first row of a batch that is not finite, when the batches are made once more."""
    if batches is None:
        return {}
    with _keras_apart.untouched():
        for i in range(min(_BATCHES, batches.num_batches or 0)):
            batch = batches[i]
            for what, part in zip(("input", "label"), batch if isinstance(batch, (tuple, list)) else (batch,)):
                for array in filter(is_array, keras.tree.flatten(part)):
                    if (row := first_nonfinite(array)) is not None:
                        return {"what": what, "row": row}
    return {}


def _norm(values: numpy.ndarray) -> float:
    return math.sqrt(numpy.square(values).sum())  # numpy.linalg.norm wakes the threads of its BLAS
