"""What the arrays of a Keras training are like, and those of its validation: numbers for facts that `tapedeck diagnose` judges."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy

from . import _keras_apart, _loop_data

_CHUNK = 1 << 22  # numbers of an array that are looked at together
_MOST_ROWS = 1 << 16  # of which copies are looked for
_PLACES = ("the token before", "their own token", "the token after")
_TOLD_BY_WORDS = 0.15  # of the labels, more than the most frequent class
_NUMBERS_OF_PLACES = 1 << 17  # of targets for each place that are compared
_COMPARED = 64  # rows in which targets are looked for among the inputs
_TOKENS = 4096  # of sequences with a label for each place
_ROWS_AT_END = 512  # that are predicted when training is over


class FitData:
    """The arrays that ``fit`` was called with."""

    def __init__(self, x: Any, y: Any, weight: Any, validation: tuple[Any, Any] | None, *, shuffles: bool, batch: int) -> None:
        self.arrays = [(what, array) for what, part in (("input", x), ("label", y)) for array in keras.tree.flatten(part) if array is not None]
        self.is_nested = not is_array(x) or not (y is None or is_array(y))
        self.labels = y
        self.x, self.y, self.weight = _columns_of(x), y if is_array(y) else None, weight if is_array(weight) else None
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
        if not all(map(is_array, keras.tree.flatten(inputs[:2]))):
            return None
        x, y = frame.f_locals.get("val_x"), frame.f_locals.get("val_y")
        x_y_weight = [*inputs[:3], None, None][:3]
        return cls(*x_y_weight, (x, y) if is_array(x) and is_array(y) else None,
                   shuffles=bool(adapter._shuffle), batch=int(adapter._batch_size))

    def facts(self, reads_indices: bool, scaled: Callable[[Any], Any], own: bool = True) -> dict[str, Any]:
        """`scaled`: what layers at the front of the model that only scale make of inputs. Whole numbers that name words or the like have no size, and no neighbours. `own`: ``fit`` was given arrays; else they are of the
        first batches, among which an example may come again."""
        found: dict[str, Any] = {}
        for what, array in self.arrays:
            if self.nonfinite is None and (row := first_nonfinite(array)) is not None:
                self.nonfinite = what, row
        if self.x is None:
            return found
        self.reads_indices = reads_indices and not self.is_nested  # of several inputs, numbers that name something are left out
        if not self.reads_indices and (scale := _range(self.x if self.is_nested else scaled(self.x))) is not None:
            found["input"] = scale
            if self.validation is not None and self.validation[0].shape[1:] == self.x.shape[1:] and not self.is_nested:
                found |= _scale_of_validation(*(scaled(_array(x, _MOST_ROWS // 8)) for x in (self.x, self.validation[0])))
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
        return self.targets(y, None) if is_array(y) and self.x is not None else {}

    def targets(self, y: Any, weight: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        counted = y
        if weight is not None and weight.shape == y.shape and y.size <= _CHUNK:  # labels that a weight of 0 leaves out do not count
            counted = numpy.asarray(y)[numpy.asarray(weight) != 0]
        if (scale := _range(counted)) is not None:
            found["target"] = scale | {"all": counted.size <= _CHUNK, "whole": numpy.asarray(y[:1]).dtype.kind in "iu"}
            if self.places is not None:  # in the first batches, equal labels may be chance, unless weights leave out the others
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
        found = _loop_data.place_dependence(inputs.transpose(0, 2, 1)[:128], targets[:128])
        return {} if found is None else {"place_dependence": found}

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
            if examples is None or not is_array(targets) or len(targets) != len(examples):
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
    if is_array(inputs):
        return inputs
    parts = [a for a in keras.tree.flatten(inputs) if numpy.asarray(a[:1]).dtype.kind == "f" and math.prod(a.shape) < _CHUNK]
    return numpy.concatenate([numpy.asarray(a).reshape(len(a), -1) for a in parts], 1) if parts else None


def is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "__getitem__") and len(value.shape) > 0


def _array(values: Any, rows: int) -> numpy.ndarray:
    return numpy.asarray(values[:rows])


def _chunks(values: Any) -> Iterable[tuple[int, numpy.ndarray]]:
    rows = max(1, _CHUNK // max(1, math.prod(values.shape[1:])))
    for start in range(0, values.shape[0], rows):
        yield start, numpy.asarray(values[start : start + rows])


def first_nonfinite(values: Any) -> int | None:
    for start, chunk in _chunks(values):
        if chunk.dtype.kind == "f" and not numpy.isfinite(chunk.sum(dtype=numpy.float64)):
            bad = ~numpy.isfinite(chunk).reshape(len(chunk), -1).all(1)
            if bad.any():
                return start + int(bad.argmax())
    return None


def _scale_of_validation(training: numpy.ndarray, validation: numpy.ndarray) -> dict[str, Any]:
    """Mean and deviation, where training has numbers that are not whole."""
    if training.dtype.kind != "f" or validation.dtype.kind not in "fiu" or min(len(training), len(validation)) < 16 \
            or not numpy.isfinite(validation.sum(dtype=numpy.float64)):
        return {}
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
            "mean": float(chunk.mean()), "batches": 1}
