"""What a Keras training does, as facts that `tapedeck diagnose` judges: the note ``loop``, as `_loop.py` writes it for PyTorch.

Model, loss and optimizer say most of it before the first step. The arrays that ``fit`` was given are read once, at the beginning:
Keras hands them to no callback, so they are taken from its frame. Then some weights are compared in the first updates, and now
and then later, and the loss is followed from Keras's own running mean. Nothing here changes a value.
"""

from __future__ import annotations

import functools
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy

from . import _keras_apart, _keras_batches, _keras_head, _keras_origin, _keras_parameters, _loop_data

_FIRST_UPDATES = 16  # whose size is looked at
_RATIO_PERIOD = 64
_WEIGHTS = 8
_SAMPLE = 1 << 14  # numbers of a weight
_CHUNK = 1 << 22  # numbers of an array that are looked at together
_MOST_ROWS = 1 << 16  # of which copies are looked for
_GROWN = 3.0  # times as large as drawn: noise and small updates are less
_BATCHES = 256  # of a PyDataset that are made once more where a loss is not finite
_PLACES = ("the token before", "their own token", "the token after")
_TOLD_BY_WORDS = 0.15  # of the labels, more than the most frequent class
_NUMBERS_OF_PLACES = 1 << 18  # of targets for each place that are compared
_COMPARED = 64  # rows in which targets are looked for among the inputs
_TOKENS = 4096  # of sequences with a label for each place
_ROWS_AT_END = 512  # that are predicted when training is over


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
        text = json.dumps(self.facts)
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
            facts |= self.data.facts(_keras_head.reads_indices(model))
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
            facts = data.facts(_keras_head.reads_indices(self.model), own=False)
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


class FitData:
    """The arrays that ``fit`` was called with."""

    def __init__(self, x: Any, y: Any, weight: Any, validation: tuple[Any, Any] | None, *, shuffles: bool, batch: int) -> None:
        self.arrays = [(what, array) for what, part in (("input", x), ("label", y)) for array in keras.tree.flatten(part) if array is not None]
        self.is_nested = not _is_array(x) or not (y is None or _is_array(y))
        self.labels = y
        self.x, self.y, self.weight = _columns_of(x), y if _is_array(y) else None, weight if _is_array(weight) else None
        self.shuffles, self.batch = shuffles, batch
        self.validation = validation
        self.nonfinite: tuple[str, int] | None = None
        self.places: numpy.ndarray | None = None  # of examples that did not come before; None: each comes once
        self.reads_indices = False

    @classmethod
    def find(cls, model: Any) -> "FitData | None":
        """Of the ``fit`` of this model that is running; None: it was given something else than arrays, or there is none."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_name == "fit" and frame.f_locals.get("self") is model:
                break
            frame = frame.f_back
        if frame is None:
            return None
        adapter = getattr(frame.f_locals.get("epoch_iterator"), "data_adapter", None)
        if not all(hasattr(adapter, name) for name in ("_inputs", "_shuffle", "_batch_size")):
            return None
        inputs = adapter._inputs if isinstance(adapter._inputs, (tuple, list)) else (adapter._inputs,)  # without labels
        if not all(map(_is_array, keras.tree.flatten(inputs[:2]))):
            return None
        x, y = frame.f_locals.get("val_x"), frame.f_locals.get("val_y")
        x_y_weight = [*inputs[:3], None, None][:3]
        return cls(*x_y_weight, (x, y) if _is_array(x) and _is_array(y) else None,
                   shuffles=bool(adapter._shuffle), batch=int(adapter._batch_size))

    def facts(self, reads_indices: bool, own: bool = True) -> dict[str, Any]:
        """Whole numbers that name words or the like have no size, and no neighbours. `own`: ``fit`` was given arrays; else they are of the
        first batches, among which an example may come again."""
        found: dict[str, Any] = {}
        for what, array in self.arrays:
            if self.nonfinite is None and (row := _first_nonfinite(array)) is not None:
                self.nonfinite = what, row
        if self.x is None:
            return found
        self.reads_indices = reads_indices and not self.is_nested  # of several inputs, numbers that name something are left out
        if not self.reads_indices and (scale := _range(self.x)) is not None:
            found["input"] = scale
            if self.validation is not None and self.validation[0].shape[1:] == self.x.shape[1:] and not self.is_nested:
                found |= _scale_of_validation(scale, _array(self.x, _MOST_ROWS // 8), _array(self.validation[0], _MOST_ROWS // 8))
        if not own:
            marks = _loop_data.digests(self.x)
            self.places = numpy.unique(marks, return_index=True)[1]
            self.places.sort()
        if self.y is None:
            return found
        found |= self.targets(self.y, self.weight)
        if not self.is_nested:
            found |= self.copied_targets() | self.shifted_tokens()
        if self.validation is not None and not self.is_nested and _loop_data.is_told_apart(_array(self.x, 1)) and (copies := self.copies()):
            found["copies"] = copies
        return found

    def labels_of(self, heads: Any) -> list[Any]:
        """One for each of several outputs, by name or in order."""
        if isinstance(self.labels, dict):
            return [self.labels.get(head["output"]) for head in heads]
        same = isinstance(self.labels, (list, tuple)) and len(self.labels) == len(heads)
        return list(self.labels) if same else [None] * len(heads)

    def facts_of(self, y: Any) -> dict[str, Any]:
        """Of the labels of one output of several."""
        return self.targets(y, None) if _is_array(y) and self.x is not None else {}

    def targets(self, y: Any, weight: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        counted = y
        if weight is not None and weight.shape == y.shape and y.size <= _CHUNK:  # labels that a weight of 0 leaves out do not count
            counted = numpy.asarray(y)[numpy.asarray(weight) != 0]
        if (scale := _range(counted)) is not None:
            found["target"] = scale | {"all": counted.size <= _CHUNK, "whole": numpy.asarray(y[:1]).dtype.kind in "iu"}
            if self.places is not None:  # labels of the first batches alone; what is left of several by their weights is meant
                whole = _range(y)
                is_left = counted is not y and whole is not None and whole["minimum"] < whole["maximum"]
                found["target"] |= {"all": is_left, "batches": 2}
        classes = _loop_data.classes_of(_array(y, _MOST_ROWS))
        if classes is not None and not self.shuffles and (sorted_ := _loop_data.purity(classes, self.batch)):
            found["classes"] = sorted_
        if self.reads_indices and classes is None:
            return found | self.tokens(y, weight)
        if classes is None and (own := self.places_of(y)) is not None:
            return found | own
        if self.places is not None and classes is not None:
            classes = classes[self.places[self.places < len(classes)]]
        return found | (self.dependence(y) if classes is None else self.neighbours(classes))

    def places_of(self, y: Any) -> dict[str, Any] | None:
        """Of a target for each place of the inputs, as masks and cleaned pictures have; None: there is none."""
        x, shape = self.x, tuple(y.shape[1:])
        sides = tuple(x.shape[1:-1])
        if self.is_nested or not sides or shape[: len(sides)] != sides or _array(x, 1).dtype.kind != "f":
            return None
        places, rows = math.prod(sides), _NUMBERS_OF_PLACES // math.prod(sides)
        if math.prod(shape) != places or rows < 32:
            return {}
        inputs, targets = (self.unique(part)[:rows].reshape(-1, places, *rest) for part, rest in ((x, (x.shape[-1],)), (y, ())))
        if targets.dtype.kind not in "iufb" or not numpy.isfinite(inputs).all() or not numpy.isfinite(targets).all():
            return {}
        return {"place_dependence": _loop_data.place_dependence(inputs.transpose(0, 2, 1)[:128], targets[:128])}

    def unique(self, values: Any) -> numpy.ndarray:
        rows = _array(values, _MOST_ROWS)
        return rows if self.places is None else rows[self.places[self.places < len(rows)]]

    def tokens(self, y: Any, weight: Any) -> dict[str, Any]:
        """Sequences of whole numbers with a label for each place."""
        found = {}
        parts = [("token_dependence", self.x, y, weight), ("validation_token_dependence", *(self.validation or (None, None)), None)]
        for key, tokens, labels, counts in parts:
            if tokens is None or len(tokens.shape) != 2 or math.prod(tokens.shape) != math.prod(labels.shape):
                continue
            rows = _TOKENS // tokens.shape[1] + 1
            some, own = (self.unique(part)[:rows] if key == "token_dependence" else _array(part, rows) for part in (tokens, labels))
            if some.dtype.kind in "iu" and own.dtype.kind in "iu":
                own = own.reshape(some.shape).astype(numpy.int64)
                if counts is not None and counts.shape == y.shape:
                    own = numpy.where(self.unique(counts)[:rows].reshape(own.shape) != 0, own, -1)
                told = _loop_data.token_dependence(some, own)
                found |= {key: told} if told else {}
        return found

    def shifted_tokens(self) -> dict[str, Any]:
        """Which token tells a label best: the one before it, its own or the one after it, in both parts of the data."""
        if self.validation is None or not self.reads_indices or len(self.x.shape) != 2 or self.x.shape != self.y.shape:
            return {}
        parts = [(self.unique(self.x), self.unique(self.y)), tuple(_array(part, _MOST_ROWS) for part in self.validation)]
        told = [_loop_data.told_by_places(x, y) for x, y in parts if x.shape[1:] == y.shape[1:] and x.dtype.kind in "iu" and y.dtype.kind in "iu"]
        if len(told) != 2 or told[0] is None or told[1] is None:
            return {}
        best = [max(range(3), key=each.__getitem__) for each in told]
        gain = min(each[mine] - each[other] for each, mine, other in zip(told, best, reversed(best)))
        return {"token_places": {"training": _PLACES[best[0]], "validation": _PLACES[best[1]], "gain": gain}}

    def copied_targets(self) -> dict[str, Any]:
        """Targets that are columns of the inputs, number by number: all of them, and those of the validation."""
        copied = _loop_data.copied_columns(_array(self.x, _COMPARED), _array(self.y, _COMPARED))
        if copied is None:
            return {}
        found = {"columns": copied[0], "of": copied[1]}
        if self.validation is not None and (other := _loop_data.copied_columns(*(_array(part, _COMPARED) for part in self.validation))):
            found |= {"validation": other[0]}
        return {"copied_targets": found}

    def neighbours(self, classes: numpy.ndarray) -> dict[str, Any]:
        """Spread over the data: it may be sorted."""
        places = numpy.linspace(0, len(classes) - 1, min(len(classes), _loop_data.EXAMPLES)).astype(int)
        words = self.reads_indices
        if words and (len(self.x.shape) != 2 or not _loop_data.is_told_apart(_array(self.x, 1)) or _array(self.x, 1).dtype.kind not in "iu"):
            return {}
        rows_of = _loop_data.bag_of_words if words else (lambda part: part)
        training = _loop_data.agreement(rows_of(self.unique(self.x)[places]), classes[places])
        if training is None:
            return {}
        found = {"neighbours": training}
        if self.validation is not None:
            labels = _loop_data.classes_of(_array(self.validation[1], _MOST_ROWS))
            if labels is not None:
                places = numpy.linspace(0, len(labels) - 1, min(len(labels), _loop_data.EXAMPLES)).astype(int)
                other = _loop_data.agreement(rows_of(_array(self.validation[0], _MOST_ROWS)[places]), labels[places])
                if other is not None:
                    found["validation_neighbours"] = other
        if words:  # which need not tell a class by being there: only where those of the validation do
            other = found.get("validation_neighbours")
            return found if other and other["told"] > other["most"] + _TOLD_BY_WORDS else {}
        return found

    def dependence(self, y: Any) -> dict[str, Any]:
        """Of targets that are values, in both parts of the data."""
        found = {}
        for key, examples, targets in (("dependence", self.x, y), ("validation_dependence", *(self.validation or (None, None)))):
            if examples is None or not _is_array(targets) or len(targets) != len(examples):
                continue
            rows = [self.unique(part) if key == "dependence" else _array(part, _MOST_ROWS) for part in (examples, targets)]
            places = numpy.unique(numpy.linspace(0, len(rows[0]) - 1, min(len(rows[0]), _loop_data.EXAMPLES)).astype(int))
            values = _loop_data.values_of(rows[1][places])
            if values is None:
                values = _loop_data.main_values_of(rows[1][places])
            if values is not None and rows[0].dtype.kind == "f":
                part = _loop_data.dependence(rows[0][places], values)
                found |= {key: part} if part else {}
        return found

    def copies(self) -> dict[str, Any] | None:
        training = _loop_data.digests(self.unique(self.x))
        validation = _loop_data.digests(_array(self.validation[0], _MOST_ROWS // 8))
        if len(validation) < 16 or len(training) < 16:
            return None
        known = set(training)
        return {"rows": len(validation), "copies": sum(mark in known for mark in validation),
                "within": 1 - len(known) / len(training), "whole": _array(self.x, 1).dtype.kind in "iub"}

    def predictions(self, model: Any) -> dict[str, Any]:
        """Which classes the trained model says: of validation examples, and of training examples to compare."""
        found: dict[str, Any] = {}
        if _keras_apart.has_own_code(model) and _keras_apart.has_effects(
                functools.partial(model, training=False), _array(self.x, 1)):
            return found
        for key, examples, labels in (("said_of_validation", *(self.validation or (None, None))), ("said_of_training", self.x, self.y)):
            classes = None if examples is None or labels is None else _loop_data.classes_of(_array(labels, _ROWS_AT_END))
            if classes is None:
                continue
            with _keras_apart.untouched():
                outputs = model(keras.ops.convert_to_tensor(_array(examples, _ROWS_AT_END)), training=False)
                outputs = keras.ops.convert_to_numpy(outputs) if hasattr(outputs, "shape") else None
            if outputs is None or outputs.ndim != 2 or outputs.shape[1] < 2 or not numpy.isfinite(outputs).all():
                return {}
            counted = _loop_data.Predictions()
            counted.add(outputs, classes)
            if facts := counted.facts():
                found[key] = facts
        return found


def _columns_of(inputs: Any) -> Any:
    """An array; of several, those with numbers that are not whole, beside each other. None: there are none, or they are large."""
    if _is_array(inputs):
        return inputs
    parts = [a for a in keras.tree.flatten(inputs) if numpy.asarray(a[:1]).dtype.kind == "f" and math.prod(a.shape) < _CHUNK]
    return numpy.concatenate([numpy.asarray(a).reshape(len(a), -1) for a in parts], 1) if parts else None


def _arguments_of_fit(model: Any) -> tuple[int, tuple[Any, Any] | None] | None:
    """Batches of an epoch (0: not known) and arrays of the validation, of the ``fit`` of this model that is running."""
    frame = sys._getframe(1)
    while frame is not None and not (frame.f_code.co_name == "fit" and frame.f_locals.get("self") is model):
        frame = frame.f_back
    if frame is None:
        return None
    x, y = frame.f_locals.get("val_x"), frame.f_locals.get("val_y")
    batches = getattr(frame.f_locals.get("epoch_iterator"), "num_batches", None)
    return int(batches or 0), (x, y) if _is_array(x) and _is_array(y) else None


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
                for array in filter(_is_array, keras.tree.flatten(part)):
                    if (row := _first_nonfinite(array)) is not None:
                        return {"what": what, "row": row}
    return {}


def _norm(values: numpy.ndarray) -> float:
    return math.sqrt(numpy.square(values).sum())  # numpy.linalg.norm wakes the threads of its BLAS


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "__getitem__") and len(value.shape) > 0


def _array(values: Any, rows: int) -> numpy.ndarray:
    return numpy.asarray(values[:rows])


def _chunks(values: Any) -> Iterable[tuple[int, numpy.ndarray]]:
    rows = max(1, _CHUNK // max(1, math.prod(values.shape[1:])))
    for start in range(0, values.shape[0], rows):
        yield start, numpy.asarray(values[start : start + rows])


def _first_nonfinite(values: Any) -> int | None:
    for start, chunk in _chunks(values):
        if chunk.dtype.kind == "f" and not numpy.isfinite(chunk.sum(dtype=numpy.float64)):
            bad = ~numpy.isfinite(chunk).reshape(len(chunk), -1).all(1)
            if bad.any():
                return start + int(bad.argmax())
    return None


def _scale_of_validation(scale: dict[str, Any], training: numpy.ndarray, validation: numpy.ndarray) -> dict[str, Any]:
    """Mean and deviation of both, where both are numbers that are not whole."""
    if training.dtype.kind != "f" or validation.dtype.kind not in "fiu" or min(len(training), len(validation)) < 16 \
            or not numpy.isfinite(training.sum(dtype=numpy.float64)) or not numpy.isfinite(validation.sum(dtype=numpy.float64)):
        return {}
    scale |= {"mean": float(training.mean(dtype=numpy.float64))}
    return {"validation_input": {"batches": 1, "mean": float(validation.mean(dtype=numpy.float64)),
                                 "deviation": float(validation.std(dtype=numpy.float64))}}


def _range(values: Any) -> dict[str, Any] | None:
    """Of the first part of an array, without what is not finite."""
    chunk = next((chunk for _, chunk in _chunks(values)), None)
    if chunk is None or chunk.dtype.kind not in "iuf" or chunk.size == 0:
        return None
    chunk = chunk.astype(numpy.float64, copy=False)
    chunk = chunk[numpy.isfinite(chunk)]
    if chunk.size == 0:
        return None
    return {"minimum": float(chunk.min()), "maximum": float(chunk.max()), "size": float(numpy.sqrt(numpy.mean(chunk * chunk))),
            "batches": 1}
