"""What `tapedeck.log` takes beside numbers, and what is kept of each value until its step is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


class Image:
    """A picture for `log`: see `Deck.image`. PIL images and matplotlib figures are taken as they are."""

    def __init__(self, data: Any, *, caption: str | None = None, layout: str | None = None) -> None:
        self.data, self.caption, self.layout = data, caption, layout


class Audio:
    """A sound for `log`: see `Deck.audio`."""

    def __init__(self, data: Any, *, sample_rate: int, caption: str | None = None) -> None:
        self.data, self.sample_rate, self.caption = data, sample_rate, caption


class Table:
    """A table for `log`: see `Deck.table`."""

    def __init__(self, data: Any = None, columns: Sequence[str] | None = None, *, dataframe: Any = None) -> None:
        self.data, self.columns = (data if dataframe is None else dataframe), columns

    def add_data(self, *row: Any) -> None:
        """Adds a row."""
        self.data = [*(self.data or []), list(row)]


class Histogram:
    """An array of which `log` records the histogram and the statistics. An array of several numbers is one already."""

    def __init__(self, data: Any) -> None:
        self.data = data


def flatten(values: Mapping[Any, Any], before: str = "") -> dict[str, Any]:
    """Dicts within dicts by names with points between: ``{"val": {"loss": 1}}`` is ``val.loss``."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{before}{name}."))
        else:
            flat[f"{before}{name}"] = value
    return flat


def records(name: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    """(kind, name, data) of what a value is recorded as: ``number``, ``array``, ``text``, ``picture`` (PNG) or ``sound``
    (WAV). The data stays as it is when the value is changed afterwards. Raises TypeError and ValueError."""
    if value is None:
        return
    if isinstance(value, str):
        yield "text", name, value
    elif isinstance(value, Image) or _is_picture(value):
        from ._media import picture

        image = value if isinstance(value, Image) else Image(value)
        yield "picture", name, picture(_pixels(image.data), image.layout)
    elif isinstance(value, Audio):
        from ._media import sound

        yield "sound", name, sound(value.data, value.sample_rate)
    elif isinstance(value, Table):
        from ._media import table

        yield "text", name, table(value.data if value.data is not None else [], value.columns)
    elif isinstance(value, Histogram):
        yield "array", name, _copied(value.data)
    elif isinstance(value, (list, tuple)) and value and isinstance(value[0], (Image, Audio)):
        for index, item in enumerate(value):
            yield from records(f"{name}.{index}", item)
    elif _size(value) == 1:
        yield "number", name, _copied(value) if _is_array(value) else float(_copied(value).item())
    elif isinstance(value, (list, tuple)) or _size(value) is not None:
        yield "array", name, _copied(value)
    else:
        yield "number", name, float(value)
    if isinstance(value, (Image, Audio)) and value.caption is not None:
        yield "text", f"{name}.caption", value.caption


def _size(value: Any) -> int | None:
    """How many numbers an array has; None of what is none."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return None
    size = 1
    for length in shape:
        size *= int(length)
    return size


def _is_array(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in ("torch", "jax", "jaxlib")


def _copied(value: Any) -> Any:
    """The array in memory of its own. Those of JAX never change; neither they nor those of PyTorch are waited for."""
    if hasattr(value, "detach"):
        return value.detach().clone()
    if _is_array(value):
        return value
    import numpy

    array = numpy.array(value) if hasattr(value, "shape") else numpy.array(value, dtype=numpy.float64)
    if array.dtype.kind in "OSUVMm":
        raise TypeError(f"arrays of {array.dtype} are not recorded")
    return array


def _is_picture(value: Any) -> bool:
    return hasattr(value, "savefig") or type(value).__module__.startswith("PIL.")


def _pixels(value: Any) -> Any:
    """What `Deck.image` takes, of a figure of matplotlib or an image of PIL."""
    if hasattr(value, "savefig"):
        import numpy

        value.canvas.draw()
        return numpy.asarray(value.canvas.buffer_rgba())
    if type(value).__module__.startswith("PIL."):
        import numpy

        return numpy.asarray(value if value.mode in ("L", "RGB", "RGBA") else value.convert("RGB"))
    return value
