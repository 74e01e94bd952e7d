"""Pictures, sounds and tables as the bytes and texts that runs keep."""

from __future__ import annotations

import csv
import io
import struct
import wave
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy

_CHANNELS = {1: 0, 3: 2, 4: 6}  # of a PNG, and its word for that: grey, RGB, RGBA


def as_numpy(value: Any) -> numpy.ndarray:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return numpy.asarray(value)


# ---- Pictures ---------------------------------------------------------------------------------------


def _layout(shape: tuple[int, ...], layout: str | None) -> str:
    if layout is None:
        if len(shape) == 2:
            return "HW"
        if len(shape) == 3 and shape[2] in _CHANNELS:
            return "HWC"
        if len(shape) == 3 and shape[0] in _CHANNELS:
            return "CHW"
        raise ValueError(f"no picture: an array of shape {shape} is neither HW, HWC nor CHW with 1, 3 or 4 channels")
    if layout not in ("HW", "HWC", "CHW"):
        raise ValueError(f"layout is HW, HWC or CHW, not {layout!r}")
    if len(layout) != len(shape):
        raise ValueError(f"an array of shape {shape} has no layout {layout}")
    return layout


def _to_bytes(array: numpy.ndarray) -> numpy.ndarray:
    if array.dtype == numpy.uint8:
        return array
    if array.dtype.kind == "b":
        return array.astype(numpy.uint8) * numpy.uint8(255)
    top, scale = (255, 1) if array.dtype.kind in "iu" else (1, 255)
    if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
        raise TypeError(f"a picture is made of uint8 or of floats from 0 to 1, not of {array.dtype}")
    array = array.astype(numpy.float64)
    if not ((array >= 0) & (array <= top)).all():
        raise ValueError(f"a picture's values lie between 0 and {top}; these lie between {array.min()} and {array.max()}")
    return numpy.rint(array * scale).astype(numpy.uint8)


def picture(value: Any, layout: str | None = None) -> bytes:
    """A PNG file of the array, a pixel for each place.

    >>> picture(numpy.zeros((2, 3)))[1:4]
    b'PNG'
    """
    array = as_numpy(value)
    layout = _layout(array.shape, layout)
    if layout == "CHW":
        array = numpy.moveaxis(array, 0, 2)
    if layout == "HW":
        array = array[:, :, None]
    height, width, channels = array.shape
    if channels not in _CHANNELS:
        raise ValueError(f"a picture has 1, 3 or 4 channels, not {channels}")
    if not height or not width:
        raise ValueError("an array without elements is no picture")
    rows = _to_bytes(array).reshape(height, width * channels)
    lines = numpy.zeros((height, 1 + width * channels), numpy.uint8)  # each begins with its filter: none
    lines[:, 1:] = rows

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, _CHANNELS[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 4)) + chunk(b"IEND", b"")


# ---- Sounds -----------------------------------------------------------------------------------------


def sound(value: Any, rate: int, layout: str | None = None) -> bytes:
    """A WAV file of 16-bit samples: floats from -1 to 1, or int16. Layout T, TC or CT."""
    array = as_numpy(value)
    layout = layout or ("T" if array.ndim == 1 else "TC")
    if layout not in ("T", "TC", "CT") or len(layout) != array.ndim:
        raise ValueError(f"layout is T, TC or CT, and an array of shape {array.shape} has no layout {layout!r}")
    if layout == "CT":
        array = array.T
    if array.dtype != numpy.int16:
        if array.dtype.kind != "f":
            raise TypeError(f"a sound is made of int16 or of floats from -1 to 1, not of {array.dtype}")
        if not (numpy.abs(array) <= 1).all():
            raise ValueError(f"a sound's values lie between -1 and 1; these lie between {array.min()} and {array.max()}")
        array = numpy.rint(array * 32767)
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1 if array.ndim == 1 else array.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(numpy.ascontiguousarray(array, "<i2").tobytes())
    return out.getvalue()


# ---- Tables -----------------------------------------------------------------------------------------


def _rows(data: Any, columns: Sequence[str] | None) -> tuple[list[str], Iterable[Sequence[Any]]]:
    if isinstance(data, Mapping):
        lengths = {len(column) for column in data.values()}
        if len(lengths) > 1:
            raise ValueError(f"the table's columns have different lengths: {', '.join(map(str, sorted(lengths)))}")
        return [str(name) for name in data], list(zip(*data.values()))
    rows = list(data)
    if rows and isinstance(rows[0], Mapping):
        names = list(columns or dict.fromkeys(name for row in rows for name in row))
        return [str(name) for name in names], [[row.get(name, "") for name in names] for row in rows]
    if columns is None:
        raise ValueError("a table of rows needs columns=[…], their names")
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"the table has {len(columns)} columns and a row of {len(row)}")
    return list(columns), rows


def table(data: Any, columns: Sequence[str] | None = None) -> str:
    """CSV with a header, of a DataFrame, a dict of columns, a list of dicts, or rows and the names of columns."""
    if hasattr(data, "to_csv"):
        return data.to_csv(index=False)
    names, rows = _rows(data, columns)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return out.getvalue()
