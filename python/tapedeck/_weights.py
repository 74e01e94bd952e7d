"""A model's parameters as a table, and back."""

from __future__ import annotations

import csv
import os
from typing import Any


def weights(model: Any) -> "Weights":
    """The parameters of a PyTorch or Keras model, by name.

    >>> tapedeck.weights(model).to_csv("weights.csv")        # layer,parameter,index,value
    >>> tapedeck.weights(other).load_csv("weights.csv")      # the same values, bit for bit
    """
    return Weights(model)


class Weights(dict):
    """NumPy arrays by name: ``dense.kernel``, ``0.weight``. Copies: changing them changes no model."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._model = model
        self._places: dict[str, tuple[str, str, Any]] = {}
        from ._grad import _is_keras, _numpy

        if _is_keras(model):
            from ._keras import _leaves

            for layer, found in _leaves(model).items():
                for variable in found.weights:
                    if not variable.dtype.startswith(("float", "bfloat")):
                        continue  # the state of a random generator
                    self._add(layer, variable.name, variable, _numpy(variable.numpy() if hasattr(variable, "numpy") else variable))
        else:
            from ._layers import bare, clean_name

            for name, tensor in bare(model).state_dict(keep_vars=True).items():
                layer, _, parameter = clean_name(name).rpartition(".")
                if tensor.is_floating_point():
                    self._add(layer, parameter, tensor, _numpy(tensor).copy())

    def _add(self, layer: str, parameter: str, place: Any, value: Any) -> None:
        name = f"{layer}.{parameter}" if layer else parameter
        self._places[name] = (layer, parameter, place)
        self[name] = value

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Writes ``layer,parameter,index,value``: index ``"i,j"``, values that read back to the same bits."""
        import numpy

        with open(path, "w", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["layer", "parameter", "index", "value"])
            for name, value in self.items():
                layer, parameter, _ = self._places[name]
                for index, element in numpy.ndenumerate(value):
                    table.writerow([layer, parameter, ",".join(map(str, index)), numpy.format_float_positional(element)
                                    if 1e-4 <= abs(element) < 1e16 or element == 0 else str(element)])

    def load_csv(self, path: str | os.PathLike[str]) -> None:
        """Sets the model's parameters to the values of a table. Names, shapes and completeness are checked first:
        a table that does not fit changes nothing."""
        import numpy

        read: dict[str, dict[tuple[int, ...], float]] = {}
        with open(path, newline="") as file:
            table = csv.DictReader(file)
            if set(table.fieldnames or ()) != {"layer", "parameter", "index", "value"}:
                raise ValueError(f"{path}: the columns are layer,parameter,index,value, not {table.fieldnames}")
            for line, row in enumerate(table, 2):
                name = f"{row['layer']}.{row['parameter']}" if row["layer"] else row["parameter"]
                try:
                    index = tuple(int(i) for i in row["index"].split(",") if i)
                    read.setdefault(name, {})[index] = float(row["value"])
                except (TypeError, ValueError):
                    raise ValueError(f"{path}:{line}: index {row['index']!r} or value {row['value']!r} is no number") from None
        unknown, missing = sorted(set(read) - set(self)), sorted(set(self) - set(read))
        if unknown or missing:
            raise ValueError(f"{path}: " + "; ".join(
                ([f"the model has no {', '.join(unknown)}"] if unknown else [])
                + ([f"there is nothing for {', '.join(missing)}"] if missing else [])))
        values = {}
        for name, cells in read.items():
            value = numpy.empty_like(self[name])
            if len(cells) != value.size:
                raise ValueError(f"{path}: {name} has {value.size} elements, the table {len(cells)}")
            for index, cell in cells.items():
                if len(index) != value.ndim or any(i < 0 or i >= n for i, n in zip(index, value.shape)):
                    raise ValueError(f"{path}: {name} of shape {value.shape} has no element {index}")
                value[index] = cell
            values[name] = value
        for name, value in values.items():
            self[name] = value
            _assign(self._places[name][2], value)


def _assign(place: Any, value: Any) -> None:
    if hasattr(place, "assign"):
        place.assign(value)
    else:
        import torch

        with torch.no_grad():
            place.copy_(torch.from_numpy(value))
