"""``tapedeck.init``, ``log`` and ``finish``: the calls that users of wandb and trackio know, on a `Deck`."""

from __future__ import annotations

import atexit
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from .deck import Deck, Names, RecordingWarning


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


def _flatten(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{before}{name}."))
        else:
            flat[f"{before}{name}"] = value
    return flat


def _size(value: Any) -> int | None:
    """How many numbers an array has; None of what is none."""
    shape = getattr(value, "shape", None)
    if shape is None or isinstance(value, (str, bytes)):
        return None
    size = 1
    for length in shape:
        size *= int(length)
    return size


class Session:
    """A run that is logged to by steps. `tapedeck.init` makes one.

    What is logged for a step is written when a call names another step, or when `finish` is called: calls that repeat
    a step add to it, and the last value of a name counts. Steps that are closed stay as they are: what is logged for
    an earlier one is refused with a warning.

    Tapedeck counts steps from 1. Where the first step that is named is 0, each step is recorded as one more than it
    was named, and the run's note ``first_step`` says ``0``.
    """

    def __init__(self, deck: Deck, *, config: Any = None, first_step: int | None = None) -> None:
        self.deck = deck
        self._offset = None if first_step is None else 1 - first_step
        self._waiting: dict[str, Any] = {}
        self._step: int | None = None  # that is open, as the deck counts
        self._late = 0
        self._finished = False
        self.config = Config(deck, config)
        # Without a track every array would be kept whole; numbers are recorded without one.
        deck.track("*", form=["histogram", "stats"], to=["tensorboard", "sqlite"])
        atexit.register(self.finish)

    @property
    def dir(self) -> str:
        """The run's folder."""
        return self.deck.folder

    @property
    def name(self) -> str:
        return os.path.basename(self.deck.folder)

    def _number(self, step: int) -> int:
        if self._offset is None:
            self._offset = 1 if step == 0 else 0
            if self._offset:
                self.deck.note("first_step", 0)
        return int(step) + self._offset

    def log(self, data: Mapping[str, Any] | None = None, /, step: int | None = None, commit: bool | None = None,
            epoch: int | None = None, **more: Any) -> None:
        """Records numbers, texts, `Image`, `Audio`, `Table`, `Histogram` and arrays (as histograms), also nested in dicts.

        >>> run.log({"loss": 0.3, "val": {"accuracy": 0.9}})       # val.accuracy; a step of its own
        >>> run.log({"loss": 0.2}, step=120)

        Args:
            step: the step it belongs to. By default the one after the last; that is closed by the call.
            commit: close the step. By default with, and only with, no `step`.
            epoch: of the step, from 1; by default as before.
        """
        if self._finished:
            raise RuntimeError(f"the run {self.deck.folder} is finished: nothing more can be logged")
        if step is not None:
            number = self._number(step)
            if number <= self.deck.steps or (self._step is not None and number < self._step):
                self._late += 1
                if self._late == 1:
                    last = (self._step or self.deck.steps) - (self._offset or 0)
                    warnings.warn(f"tapedeck: {self.deck.folder}: step {step} was logged after step {last}; what is logged for earlier "
                                  "steps is not recorded", RecordingWarning, stacklevel=2)
                return
            if self._step != number:
                self._close()
                self._step = number
        if epoch is not None:
            self.deck.epoch = epoch
        values = _flatten({**(data or {}), **more})
        if step is None and not self._waiting.keys().isdisjoint(values):
            self._close()  # a value that waits is not replaced by a step of its own
        self._waiting.update(values)
        if commit if commit is not None else step is None:
            self._close()

    def _close(self) -> None:
        """Writes the open step, if there is one."""
        waiting, number = self._waiting, self._step
        self._waiting, self._step = {}, None
        if not waiting and number is None:
            return
        deck = self.deck
        if number is not None and number != deck.steps + 1:
            deck._prepare()
            deck._native.begin(deck.epoch, number, False)
            opened, deck.steps = deck.steps, number - 1  # which files of media are named after
        else:
            opened = deck.steps
        try:
            for name, value in waiting.items():
                self._put(name, value)
        finally:
            deck.steps = opened
            deck.step(step=number)

    def _put(self, name: str, value: Any) -> None:
        deck = self.deck
        if isinstance(value, str):
            deck.text(name, value)
        elif isinstance(value, Image):
            deck.image(name, _as_picture(value.data), layout=value.layout)
        elif isinstance(value, Audio):
            deck.audio(name, value.data, rate=value.sample_rate)
        elif isinstance(value, Table):
            deck.table(name, value.data, value.columns)
        elif isinstance(value, Histogram):
            deck.record(name, _as_array(value.data))
        elif hasattr(value, "savefig") or type(value).__module__.startswith("PIL."):
            deck.image(name, _as_picture(value))
        elif isinstance(value, (list, tuple)) and value and isinstance(value[0], (Image, Audio)):
            for index, item in enumerate(value):
                self._put(f"{name}.{index}", item)
        elif (_size(value) or 0) > 1 or isinstance(value, (list, tuple)):
            deck.record(name, _as_array(value))
        elif value is not None:
            try:
                deck.log({name: value})
            except (TypeError, ValueError) as error:
                warnings.warn(f"tapedeck: {deck.folder}: {name} is not recorded: {error}", RecordingWarning, stacklevel=5)
        if isinstance(value, (Image, Audio)) and value.caption is not None:
            deck.text(f"{name}.caption", value.caption)

    def watch(self, model: Any, optimizer: Any = None, **options: Any) -> None:
        """Records what happens inside a PyTorch model in the same run; arguments as of `tapedeck.watch`."""
        from ._torch import watch

        watch(model, deck=self.deck, optimizer=optimizer, **options)

    def finish(self, exit_code: int | None = None) -> None:
        """Writes the last step and closes the run; ``exit_code`` other than 0 says that it failed."""
        if self._finished:
            return
        self._finished = True
        atexit.unregister(self.finish)
        if not self.deck._finished:
            self._close()
            if self._late:
                self.deck.note("warnings.late", f"{self._late} calls logged for steps that were closed")
            self.deck.finish("failed" if exit_code else None)
        if _current and _current[-1] is self:
            _current.pop()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, traceback: Any) -> None:
        self.finish(1 if kind is not None else None)


def _as_array(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        import numpy

        return numpy.asarray(value, dtype=numpy.float64)
    return value


def _as_picture(value: Any) -> Any:
    """What `Deck.image` takes, of a figure of matplotlib or an image of PIL."""
    if hasattr(value, "savefig"):
        import numpy

        value.canvas.draw()
        return numpy.asarray(value.canvas.buffer_rgba())
    if type(value).__module__.startswith("PIL."):
        import numpy

        return numpy.asarray(value if value.mode in ("L", "RGB", "RGBA") else value.convert("RGB"))
    return value


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
