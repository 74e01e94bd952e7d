"""Options of the package as the texts and numbers that the library takes."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from . import _native
from ._options import Names


def form_bits(form: Names | None) -> int:
    words = form.split(",") if isinstance(form, str) else (form or ())
    bits = 0
    for word in words:
        word = word.strip()
        if word not in _native.FORMS:
            raise ValueError(f"there is no form {word!r} (there are: {', '.join(_native.FORMS)})")
        bits |= _native.FORMS[word]
    return bits


def listed(names: Names | None) -> str | None:
    return names if names is None or isinstance(names, str) else ",".join(names)


def file_name(name: str) -> str:
    text = quote(name, safe=" ")
    return "%2E" + text[1:] if text.startswith(".") else text


def note_text(value: Any) -> str:
    """A setting as a text that `Run.config` reads back: JSON, but for strings that are not JSON themselves."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    try:
        return json.dumps(value, default=lambda other: other.item() if hasattr(other, "item") else str(other))
    except (TypeError, ValueError):
        return str(value)


def schedule(every: str, epochs: int) -> tuple[int, int]:
    count, _, unit = every.strip().partition(" ")
    if not count.isdigit() or unit not in ("step", "steps", "epoch", "epochs"):
        raise ValueError(f"every is a number of steps, \"N steps\" or \"N epochs\", not {every!r}")
    return (0, int(count)) if unit.startswith("epoch") else (int(count), epochs)
