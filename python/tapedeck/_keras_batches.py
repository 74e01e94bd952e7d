"""What the first batches of a Keras training are like that was given no arrays: a tf.data pipeline, a generator, a PyDataset. They are
looked at as they pass by; nothing is taken from the user's iterator."""

from __future__ import annotations

import zlib
from typing import Any

import keras
import numpy

from ._keras_data import FitData

UPDATES = 16  # whose batches are looked at
_NUMBERS = 1 << 19  # of a batch that are kept, for each of inputs and labels
_HASHED = 1 << 16  # bytes of an array


class Batches:
    def __init__(self, per_epoch: int, validation: tuple[Any, Any] | None) -> None:
        self.per_epoch, self.validation = per_epoch, validation
        self.updates = 0
        self.parts: list[tuple[Any, Any, Any]] = []  # inputs, labels and weights, as arrays
        self.rows = 0  # of a batch
        self.last: int | None = None  # a fingerprint
        self.repeated, self.since = 0, 0
        self.bad: dict[str, Any] | None = None  # the first row with a number that is not finite
        self.bad_since = 0

    def see(self, data: Any, step: int) -> bool:
        """Whether that was the last one that is looked at."""
        self.updates += 1
        parts = [_arrays(part) for part in keras.utils.unpack_x_y_sample_weight(data)]
        flat = [(what, array) for what, part in zip(("input", "label", "weight"), parts) for array in keras.tree.flatten(part)
                if array is not None]
        mark = 0
        for what, array in flat:
            mark = zlib.crc32(numpy.ascontiguousarray(array.reshape(-1)[:: 1 + array.nbytes // _HASHED]).tobytes(), mark)
            if self.bad is None and what != "weight" and array.dtype.kind == "f" and not numpy.isfinite(array.sum(dtype=numpy.float64)):
                rows = ~numpy.isfinite(array).reshape(len(array), -1).all(1)
                self.bad, self.bad_since = ({"what": what, "row": int(rows.argmax())} if rows.any() else None), step
        if self.updates > 1 and mark == self.last:
            self.since = self.since or step
            self.repeated += 1
        self.last = mark
        self.rows = max(self.rows, len(flat[0][1]) if flat else 0)
        kept = [_first_rows(part) for part in parts]
        if flat and (not self.parts or _form(kept) == _form(self.parts[0])):
            self.parts.append(tuple(kept))
        return self.updates >= UPDATES

    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {"batches": {"updates": self.updates, "passes": self.updates, "ones": 0, "repeated": self.repeated,
                                             "copies": self.repeated, "passing": True}}
        if self.since:
            found["batches"]["since"] = self.since
        if self.per_epoch:
            found["loader"] = {"batches": self.per_epoch}
        return found

    def data(self) -> Any:
        """The examples that were seen, each once, as if they had been given as arrays."""
        if len(self.parts) < 2:
            return None
        x, y, weight = (keras.tree.map_structure(lambda *arrays: numpy.concatenate(arrays) if arrays[0] is not None else None, *parts)
                        if parts[0] is not None else None for parts in zip(*self.parts))
        return FitData(x, y, weight, self.validation, shuffles=False, batch=self.rows)


def _arrays(part: Any) -> Any:
    def array(value: Any) -> Any:
        found = keras.ops.convert_to_numpy(value) if hasattr(value, "shape") and hasattr(value, "dtype") else numpy.asarray(value)
        return found if found.dtype.kind in "iufb" and found.ndim > 0 else None

    return None if part is None else keras.tree.map_structure(array, part)


def _first_rows(part: Any) -> Any:
    def rows(array: Any) -> Any:
        return None if array is None else numpy.array(array[: max(1, _NUMBERS // max(1, array[:1].size))])

    return None if part is None else keras.tree.map_structure(rows, part)


def _form(parts: Any) -> Any:
    """Parts of one form can be put together."""
    return [(None if array is None else (array.shape[1:], array.dtype)) for array in keras.tree.flatten(list(parts))]
