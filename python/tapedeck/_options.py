"""Types of the options that `Deck`, `watch` and the callbacks share: type checkers refuse a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

Names = str | Iterable[str]  # "a,b" or ["a", "b"]
Policy = Literal["block", "drop", "degrade"]


class DeckOptions(TypedDict, total=False):
    """What `Deck` takes, for functions that make one."""

    name: str
    group: str
    tags: Names
    config: Mapping[str, Any] | Any
    policy: Policy
    queue: int
    history: int
    overhead: float
    seed: int
    metrics: int
    exact_folder: bool
    resume: bool | int | str
    discard: bool
    busy_cores: int
    store: str | None


class WatchOptions(DeckOptions, total=False):
    """What `watch` takes, for callbacks that call it."""

    every: int | str
    log_freq: int
    log: Names
    form: Names
    to: Names | None
    scaler: Any
    prefix: str
    capsule: int
    verify_every: int
    loop_checks: bool
    functions: bool


class TrackOptions(TypedDict, total=False):
    """What `Deck.track` takes, as a dict."""

    what: Names
    every: int | str
    log_freq: int
    every_epochs: int
    at: Sequence[int] | None
    start: int
    end: int
    sample: int
    when: str | None
    history: int
    form: Names | None
    to: Names | None
