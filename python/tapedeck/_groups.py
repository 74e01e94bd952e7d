"""What a model's recorder records by default: groups of signals, and sinks that suit a form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import _native

GROUPS = ("outputs", "errors", "gradients", "weights", "updates")
LOCAL = "local_gradients"  # of each rank, before they are reduced; only by name


def words_of(text: str | Iterable[str]) -> list[str]:
    """A list, or words that commas separate."""
    words = text.split(",") if isinstance(text, str) else text
    return [word.strip() for word in words if word.strip()]


def sinks_of(form: str | Iterable[str]) -> str:
    """The library's choice for each form; a word that is no form is reported by the track."""
    forms = _native.FORMS
    return ",".join(sorted({_native.sink_for(forms[word]) for word in words_of(form) if word in forms} or {"csv"}))


def default_tracks(weights: Iterable[str], *, every: int | str = 100, form: str | Iterable[str] = "histogram",
                   to: str | Iterable[str] | None = None, log: str | Iterable[str] = "all",
                   prefix: str = "") -> list[dict[str, Any]]:
    """The arguments of the default track, in a list; none when `log` is empty. `weights` are parameters' names, names
    of all signals begin with `prefix`."""
    groups = words_of(log)
    unknown = [group for group in groups if group not in (*GROUPS, LOCAL, "all")]
    if unknown:
        raise ValueError(f"log has no {unknown[0]!r} (there are: {', '.join((*GROUPS, LOCAL))})")
    before = _escaped(prefix)
    what = [f"{before}*.{group[:-1]}" for group in groups if group != "weights"]
    what += [_escaped(name) for name in weights] if "weights" in groups else []
    if "all" in groups:
        what = [f"{before}*.*"]
    return [dict(what=what, every=every, form=form, to=to or sinks_of(form))] if what else []


def _escaped(name: str) -> str:
    return "".join("\\" + c if c in "*?[]\\,!" else c for c in name)
