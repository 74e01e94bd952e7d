"""``tapedeck.init``, ``log`` and ``finish``: the calls that users of wandb and trackio know, on a `Deck`."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from typing import Any

from ._logged import Audio as Audio, Histogram as Histogram, Image as Image, Table as Table, flatten, records
from .deck import Deck, Names, RecordingWarning, _state_of

_MOST_TRACKS = 100  # for arrays by name; of the 256 that a deck may have


class Config(dict[str, Any]):
    """A run's settings. They may be read and set as items or attributes; each change is recorded."""

    def __init__(self, deck: Deck, values: Any = None) -> None:
        super().__init__()
        self.__dict__["_deck"] = deck
        self.update(values or {})

    def update(self, *values: Any, **more: Any) -> None:  # type: ignore[override]
        for value in values:
            more = {**(value if isinstance(value, Mapping) else vars(value)), **more}
        for key, value in more.items():
            self[key] = value

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        deck: Deck = self.__dict__["_deck"]
        deck._about(None, None, None, {key: value})

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            raise AttributeError(f"the run's config has no {key!r}") from None

    def __setattr__(self, key: str, value: Any) -> None:
        self[key] = value


class Waiting:
    """Part of a deck: what was logged for steps that are not closed yet."""

    def __init__(self, deck: Deck) -> None:
        self._deck = deck
        self._values: dict[int, dict[str, list[tuple[str, str, Any]]]] = {}  # by step; 0 is the open one, whatever its number
        self._tracked: set[str] = set()  # names of arrays
        self._tracks = 0
        self.late = 0
        deck._tracked = True  # or every array would be kept whole
        deck._parts.append(self)

    @property
    def last(self) -> int:
        """The last step that was named and is not closed; 0 for none."""
        return max(self._values, default=0)

    def is_over(self, step: int, names: Mapping[str, Any], is_trained: bool) -> bool:
        """Whether names that are logged for a step (0: the open one) begin another than the one that waits."""
        if step and (self.last or not is_trained):
            return self.last != step
        return not self._values.get(self.last, {}).keys().isdisjoint(names)  # a value is never replaced silently

    def add(self, step: int, values: dict[str, list[tuple[str, str, Any]]]) -> None:
        self._values.setdefault(step, {}).update(values)

    def close(self) -> None:
        """Closes the step that waits, if there is one."""
        if not self._values:
            return
        clock = self._deck._clock()
        if clock is None:
            self._deck.step(step=self.last or None)
            return
        clock.closing = True  # or it would no longer see where steps of training end
        try:
            self._deck.step(step=self.last or None)
        finally:
            clock.closing = False

    def before_step(self) -> bool:
        deck = self._deck
        named = sorted(step for step in self._values if step)
        if named and not deck._step_is_named:
            deck._closing = named[0]
        number = deck._closing
        found = [record for step in [0, *named] if step <= number for value in self._values.pop(step, {}).values() for record in value]
        if not found:
            return True
        added = self._track({name for kind, name, _ in found if kind == "array"} - self._tracked)
        if added or number != deck.steps + 1:
            deck._native.begin(deck.epoch, number, deck._ends_epoch)
        for record in found:
            try:
                self._put(*record)
            except (TypeError, ValueError, BufferError) as error:
                warnings.warn(f"tapedeck: {deck.folder}: {record[1]} is not recorded: {error}", RecordingWarning, stacklevel=6)
        return True

    def _track(self, names: set[str]) -> bool:
        """Arrays are tracked by name: a track of all would also have those of a model that is watched."""
        if not names or self._tracks > _MOST_TRACKS:
            return False
        self._tracked |= names
        self._tracks += 1
        exact = ["".join("\\" + letter if letter in "*?[]\\,!" else letter for letter in name) for name in sorted(names)]
        self._deck.track(exact if self._tracks <= _MOST_TRACKS else "*", form=["histogram", "stats"], to=["tensorboard", "sqlite"])
        return True

    def _put(self, kind: str, name: str, data: Any) -> None:
        deck = self._deck
        if kind == "number":
            deck.log({name: data})
        elif kind == "array":
            deck.record(name, data)
        elif kind == "text":
            deck.text(name, data)
        elif kind == "picture":
            deck._native.picture(name, data)
        else:
            deck._put_sound(name, data, deck._closing)

    def after_step(self) -> None:
        pass

    def finish(self) -> None:
        self.close()
        if self.late:
            self._deck.note("warnings.late", f"{self.late} calls logged for steps that were closed")


class Session:
    """A run that is logged to by steps. `tapedeck.init` makes one.

    What is logged for a step is written when a call names another step, or when `finish` is called: calls that repeat
    a step add to it, and the last value of a name counts. Steps that are closed stay as they are: what is logged for
    an earlier one is refused with a warning. A value may be changed after it was logged: it is recorded as it was.

    Tapedeck counts steps from 1. Where the first step that is named is 0, each step is recorded as one more than it
    was named, and the run's note ``first_step`` says ``0``.

    While a model is watched with its optimizer (`watch`), or by a trainer's callback, the steps are those of training:
    what is logged belongs to the step that is open, which is closed when the next one begins.
    """

    def __init__(self, deck: Deck, *, config: Any = None, first_step: int | None = None) -> None:
        self.deck = deck
        self._offset = None if first_step is None else 1 - first_step
        self._waiting = Waiting(deck)
        self.config = Config(deck, config)

    @property
    def dir(self) -> str:
        """The run's folder."""
        return self.deck.folder

    @property
    def name(self) -> str:
        return os.path.basename(self.deck.folder)

    @property
    def _finished(self) -> bool:
        return self.deck._finished

    def _number(self, step: int, is_trained: bool) -> int:
        if self._offset is None:  # in a loop that counts from 0 the open step is one more than its number
            self._offset = 1 if step == 0 or (is_trained and step == self.deck.steps) else 0
            if self._offset:
                self.deck.note("first_step", 0)
        return int(step) + self._offset

    def log(self, data: Mapping[str, Any] | None = None, /, step: int | None = None, commit: bool | None = None,
            epoch: int | None = None, **more: Any) -> None:
        """Records numbers, texts, `Image`, `Audio`, `Table`, `Histogram` and arrays (as histograms), also nested in dicts.

        >>> run.log({"loss": 0.3, "val": {"accuracy": 0.9}})       # val.accuracy; a step of its own
        >>> run.log({"loss": 0.2}, step=120)

        Args:
            step: the step it belongs to. By default the one after the last, which is closed by the call; while a model
                is watched the one that is open.
            commit: close the step. By default with, and only with, no `step`.
            epoch: of the step, from 1; by default as before.
        """
        deck, waiting = self.deck, self._waiting
        if deck._finished:
            raise RuntimeError(f"the run {deck.folder} is finished: nothing more can be logged")
        clock = deck._clock()
        is_trained = deck._is_driven or (clock is not None and clock.count > 0)  # others say where steps end
        number = 0 if step is None else self._number(step, is_trained)
        if step is not None and (number <= deck.steps or number < waiting.last):
            waiting.late += 1
            if waiting.late == 1:
                last = max(waiting.last, deck.steps) - (self._offset or 0)
                warnings.warn(f"tapedeck: {deck.folder}: step {step} was logged after step {last}; what is logged for earlier "
                              "steps is not recorded", RecordingWarning, stacklevel=2)
            return
        values = {name: self._records(name, value) for name, value in flatten({**(data or {}), **more}).items()}
        if not deck._is_driven and waiting.is_over(number, values, is_trained):
            waiting.close()
        if epoch is not None:
            deck.epoch = epoch
        waiting.add(number or waiting.last, values)
        if commit if commit is not None else step is None and not is_trained:
            waiting.close()

    def _records(self, name: str, value: Any) -> list[tuple[str, str, Any]]:
        try:
            return list(records(name, value))
        except (TypeError, ValueError, OverflowError) as error:
            warnings.warn(f"tapedeck: {self.deck.folder}: {name} is not recorded: {error}", RecordingWarning, stacklevel=4)
            return []

    def watch(self, model: Any, optimizer: Any = None, **options: Any) -> None:
        """Records what happens inside a PyTorch model in the same run; arguments as of `tapedeck.watch`."""
        from ._torch import watch

        watch(model, deck=self.deck, optimizer=optimizer, **options)

    def finish(self, exit_code: int | None = None) -> None:
        """Writes the last step and closes the run; ``exit_code`` other than 0 says that it failed."""
        self._finish("failed" if exit_code else None)

    def _finish(self, state: str | None) -> None:
        if _current and _current[-1] is self:
            _current.pop()
        self.deck.finish(state)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, traceback: Any) -> None:
        self._finish(_state_of(value))


_current: list[Session] = []
def init(
    project: str | None = None,
    *,
    name: str | None = None,
    config: Mapping[str, Any] | Any = None,
    notes: str | None = None,
    tags: Names | None = None,
    group: str | None = None,
    dir: str | os.PathLike[str] = "runs",
    **options: Any,
) -> Session:
    """Begins a run in ``DIR/NAME`` (``NAME-2``, … when that exists), to which `tapedeck.log` then logs.

    >>> tapedeck.init(project="digits", config={"lr": 0.01})
    >>> for x, y in batches:
    ...     tapedeck.log({"loss": loss})
    >>> tapedeck.finish()

    Args:
        project: what the run is part of.
        name: of the run; by default the project's.
        config: settings, a dict or an ``argparse.Namespace``: shown, compared and filtered by.
        notes: a text about the run.
        tags, group: as of `Deck`, which takes the other options too (``resume``, ``overhead``, …).
    """
    if _current:
        _current[-1].finish()  # as wandb does: one run at a time
    title = name or project or "run"
    deck = Deck(os.path.join(os.fspath(dir), re.sub(r"[^\w.=+-]+", "-", title).strip("-.") or "run"), name=name, group=group, tags=tags,
                **options)
    if project is not None:
        deck.note("project", project)
    if notes is not None:
        deck.note("notes", notes)
    session = Session(deck, config=config)
    _current.append(session)
    return session


def _session(call: str) -> Session:
    if not _current:
        raise RuntimeError(f"there is no run to {call}: call tapedeck.init() first")
    return _current[-1]


def log(data: Mapping[str, Any] | None = None, /, step: int | None = None, commit: bool | None = None, **more: Any) -> None:
    """Logs to the run of `tapedeck.init`: see `Session.log`."""
    _session("log to").log(data, step=step, commit=commit, **more)


def finish(exit_code: int | None = None) -> None:
    """Finishes the run of `tapedeck.init`."""
    _session("finish").finish(exit_code)
