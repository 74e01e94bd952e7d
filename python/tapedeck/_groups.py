"""What a model's recorder records by default: groups of signals, and sinks that suit a form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

GROUPS = ("outputs", "errors", "gradients", "weights", "updates")
_SINKS = {"tensor": "npy", "rows": "csv", "long": "csv", "units": "csv", "stats": "sqlite", "histogram": "tensorboard",
          "image": "png", "scalar": "tensorboard", "hash": "csv"}


def words_of(text: str | Iterable[str]) -> list[str]:
    """A list, or words that commas separate."""
    words = text.split(",") if isinstance(text, str) else text
    return [word.strip() for word in words if word.strip()]


def sinks_of(form: str | Iterable[str]) -> str:
    return ",".join(sorted({_SINKS.get(word, "csv") for word in words_of(form)}))


def default_tracks(weights: Iterable[str], *, every: int | str = 100, form: str | Iterable[str] = "histogram",
                   to: str | Iterable[str] | None = None, log: str | Iterable[str] = "all",
                   prefix: str = "") -> list[dict[str, Any]]:
    """The arguments of the default track, in a list; none when `log` is empty. `weights` are parameters' names, names
    of all signals begin with `prefix`."""
    groups = words_of(log)
    unknown = [group for group in groups if group not in (*GROUPS, "all")]
    if unknown:
        raise ValueError(f"log has no {unknown[0]!r} (there are: {', '.join(GROUPS)})")
    before = _escaped(prefix)
    what = [f"{before}*.{group[:-1]}" for group in groups if group != "weights"]
    what += [_escaped(name) for name in weights] if "weights" in groups else []
    if "all" in groups:
        what = [f"{before}*.*"]
    return [dict(what=what, every=every, form=form, to=to or sinks_of(form))] if what else []


def _escaped(name: str) -> str:
    return "".join("\\" + c if c in "*?[]\\,!" else c for c in name)
