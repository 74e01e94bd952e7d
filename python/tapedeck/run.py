"""Reading runs back: while they are written, after they ended, after they crashed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    import numpy
    import pandas

_FORMS = _native.FORMS
_VALUE = [("epoch", "<i8"), ("step", "<i8"), ("wall_time", "<f8"), ("value", "<f8")]
_STATS = _VALUE[:3] + [
    ("count", "<i8"), ("mean", "<f8"), ("std", "<f8"), ("min", "<f8"), ("max", "<f8"), ("norm", "<f8"),
    ("zeros", "<i8"), ("nan", "<i8"), ("inf", "<i8"),
]


class Signal:
    """One signal of a run."""

    def __init__(self, run: "Run", name: str, forms: int, first_step: int, last_step: int) -> None:
        self._run = run
        self.name = name
        self.forms = [word for word, bit in _FORMS.items() if forms & bit]
        self.first_step = first_step
        self.last_step = last_step

    def __repr__(self) -> str:
        return f"<tapedeck.Signal {self.name}: {', '.join(self.forms)}; steps {self.first_step} to {self.last_step}>"

    def _table(self, form: str, columns: list[tuple[str, str]]) -> "numpy.ndarray":
        import numpy

        return numpy.frombuffer(self._run._native.table(self.name, _FORMS[form]), dtype=columns)

    @property
    def values(self) -> "numpy.ndarray":
        """The scalars: an array with the fields epoch, step, wall_time, value."""
        return self._table("scalar", _VALUE)

    @property
    def stats(self) -> "pandas.DataFrame":
        """The statistics, one row a step: count, mean, std, min, max, norm, zeros, nan, inf."""
        import pandas

        return pandas.DataFrame(self._table("stats", _STATS)).set_index("step")

    def to_pandas(self) -> "pandas.Series | pandas.DataFrame":
        """A scalar's values by step; of anything else its statistics."""
        import pandas

        if "scalar" in self.forms:
            table = self.values
            return pandas.Series(table["value"], index=pandas.Index(table["step"], name="step"), name=self.name)
        return self.stats

    def at(self, step: int | None = None, form: str | None = None) -> Any:
        """What was recorded at this step, or last before it (by default: last of all).

        An array is NumPy's, mapped from its file and not copied. Other forms: a histogram is
        an array with the fields left, right, count; statistics a dict; an image the bytes of a PNG; a text,
        a number, a fingerprint themselves.
        """
        if form is None:
            order = ("tensor", "rows", "long", "scalar", "histogram", "stats", "image", "text", "hash")
            form = next((word for word in order if word in self.forms), "stats")
        found = self._run._native.at(self.name, _FORMS[form], self.last_step if step is None else step)
        if found is None:
            raise KeyError(f"{self.name}: no {form} at or before step {step}")
        return self._content(form, found[2])

    def _content(self, form: str, content: Any) -> Any:
        if form == "histogram":
            import numpy

            return numpy.array(content, dtype=[("left", "f8"), ("right", "f8"), ("count", "f8")])
        return self._array(content) if isinstance(content, tuple) else content

    def _array(self, content: tuple) -> "numpy.ndarray":
        import numpy

        dtype, shape, data, file, record, _ = content
        path = os.path.join(self._run.folder, file)
        if file.endswith(".npy"):
            return numpy.load(path, mmap_mode="r")[record]
        if dtype == "bfloat16":
            return (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
        return numpy.frombuffer(data, dtype).reshape(shape)


class Run(Mapping):
    """A run: a folder that a deck wrote, or a folder of TensorBoard event files written by anybody.

    >>> run = tapedeck.Run("runs/a")
    >>> list(run)
    ['loss', 'conv2.error', 'conv2.output']
    >>> run["loss"].to_pandas()
    >>> run["conv2.error"].stats
    >>> run["conv2.output"].at(1200)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._native = _native.Run(os.fspath(path))
        self._signals: dict[str, Signal] = {}
        self._load()

    def _load(self) -> None:
        self._about = self._native.about()
        self._signals = {row[0]: Signal(self, *row) for row in self._native.signals()}

    def refresh(self) -> "Run":
        """Looks again: what has been recorded since."""
        self._native.refresh()
        self._load()
        return self

    def __getitem__(self, name: str) -> Signal:
        if name not in self._signals:
            from difflib import get_close_matches

            near = get_close_matches(name, self._signals, 1)
            raise KeyError(f"{self.name} has no signal {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return self._signals[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._signals)

    def __len__(self) -> int:
        return len(self._signals)

    @property
    def name(self) -> str:
        return self._about["name"]

    @property
    def folder(self) -> str:
        return self._about["folder"]

    @property
    def state(self) -> str:
        """``running``, ``finished``, ``interrupted``, ``failed``, ``crashed`` or ``unknown``."""
        return self._about["state"]

    @property
    def steps(self) -> int:
        """The last step."""
        return self._about["last_step"]

    @property
    def problems(self) -> list[str]:
        """What could not be read, one sentence each."""
        return self._native.problems()

    @property
    def notes(self) -> dict[str, str]:
        """Facts about the run."""
        return self._native.notes("run")

    def to_pandas(self) -> "pandas.DataFrame":
        """All scalars: a row a step, a column a signal."""
        import pandas

        columns = {name: signal.to_pandas() for name, signal in self.items() if "scalar" in signal.forms}
        return pandas.DataFrame(columns)

    def report(self, path: str | os.PathLike[str] = "report.html") -> str:
        """The pages of ``tapedeck view`` with this run's data as one file, which needs no network; its path.

        >>> tapedeck.Run("runs/a").report("a.html")     # doctest: +SKIP
        'a.html'
        """
        _native.report(self.folder, path)
        return os.fspath(path)

    def __repr__(self) -> str:
        return f"<tapedeck.Run {self.folder}: {self.state}, {self.steps} steps, {len(self)} signals>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td style='text-align:left'>{escape(name)}</td><td>{', '.join(signal.forms)}</td>"
            f"<td>{signal.first_step}&ndash;{signal.last_step}</td><td>{_latest(signal)}</td></tr>"
            for name, signal in self.items()
        )
        return (
            f"<b>{escape(self.name)}</b> {self.state}, {self.steps} steps"
            f"<table><tr><th>signal</th><th>forms</th><th>steps</th><th>last</th></tr>{rows}</table>"
        )


def _latest(signal: Signal) -> str:
    try:
        if "scalar" in signal.forms:
            return f"{signal.at(form='scalar'):.6g}"
        if "stats" in signal.forms:
            stats = signal.at(form="stats")
            return f"mean {stats['mean']:.3g}, norm {stats['norm']:.3g}"
    except (KeyError, _native.Error):
        pass
    return ""


def runs(folder: str | os.PathLike[str] = "runs") -> list[Run]:
    """Every run below a folder, in the order of their names."""
    found = []
    for path, names, files in os.walk(folder):
        names.sort()
        if "run.db" in files:
            names.clear()
            found.append(Run(path))
    return found
