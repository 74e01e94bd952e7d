"""What a run was made with, as far as Python knows it, and what the program prints."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .deck import Deck

_MOST_TEXT = 1 << 16  # characters that are kept of one step


def _packages() -> str:
    """``name version`` of each installed package, a line each, by the names of their folders: importlib.metadata would
    open every one of them."""
    found: dict[str, str] = {}
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith(".dist-info"):
                package, _, version = name[: -len(".dist-info")].partition("-")
                found.setdefault(package, version)
    return "\n".join(f"{package} {version}" for package, version in sorted(found.items()))


def facts() -> Iterator[tuple[str, str]]:
    """Notes, without the ``environment.`` before their keys. Frameworks are not imported for it."""
    if os.environ.get("TAPEDECK_ENVIRONMENT") == "off":
        return
    yield "python", f"{platform.python_implementation()} {platform.python_version()}"
    yield "packages", _packages()
    for name in ("torch", "tensorflow", "jax", "keras"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            yield name, str(version)
    torch = sys.modules.get("torch")
    cuda = getattr(getattr(torch, "version", None), "cuda", None)
    if cuda is not None:
        yield "cuda", str(cuda)


class _Copy:
    """A stream that is written to as before; what is written is kept for the run."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._kept: list[str] = []
        self._length = 0

    def write(self, text: str) -> int:
        written = self._stream.write(text)
        if self._length < _MOST_TEXT:
            self._kept.append(text[: _MOST_TEXT - self._length])
        self._length += len(text)
        return written  # type: ignore[no-any-return]

    def take(self) -> str:
        """What was written since the last call."""
        text = "".join(self._kept)
        if self._length > _MOST_TEXT:
            text += f"\n(cut here: {self._length - _MOST_TEXT} more characters)\n"
        self._kept, self._length = [], 0
        return text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Console:
    """Part of a deck: records what ``sys.stdout`` and ``sys.stderr`` are given. Output of C libraries is not seen."""

    _STREAMS = (("stdout", "console.output"), ("stderr", "console.error"))

    def __init__(self, deck: Deck) -> None:
        self._deck = deck
        self._copies = {stream: _Copy(getattr(sys, stream)) for stream, _ in self._STREAMS}
        for stream, copy in self._copies.items():
            setattr(sys, stream, copy)

    def _record(self) -> None:
        for stream, name in self._STREAMS:
            text = self._copies[stream].take()
            if text:
                self._deck.text(name, text)

    def before_step(self) -> bool:
        self._record()
        return True

    def after_step(self) -> None:
        pass

    def finish(self) -> None:
        self._record()
        for stream, copy in self._copies.items():
            if getattr(sys, stream) is copy:  # another may stand before it by now
                setattr(sys, stream, copy._stream)
