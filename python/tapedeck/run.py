"""Reading runs back: while they are written, after they ended, after they crashed."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _native
from ._arrow import FORMS, ArrowTable
from ._options import Names
from ._time import run_json
from ._words import listed

if TYPE_CHECKING:
    import numpy
    import pandas

    from ._notebook import Page

_FORMS = _native.FORMS
_VALUE = [("epoch", "<i8"), ("step", "<i8"), ("wall_time", "<f8"), ("value", "<f8")]
_STATS = _VALUE[:3] + [
    ("count", "<i8"), ("mean", "<f8"), ("std", "<f8"), ("min", "<f8"), ("max", "<f8"), ("norm", "<f8"),
    ("zeros", "<i8"), ("nan", "<i8"), ("inf", "<i8"),
]


_SPREAD = [("step", "<i8"), ("ranks", "<i8"), ("min", "<f8"), ("mean", "<f8"), ("max", "<f8"),
           ("min_rank", "<i8"), ("max_rank", "<i8"), ("nonfinite_rank", "<i8")]


def _pandas(what: str) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"{what} is a table of pandas, which is not installed: pip install pandas") from error
    return pandas


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a run: a cause, where and since when, and what to do."""

    cause: str
    confidence: str  #: ``sure``, ``likely`` or ``maybe``
    layer: str | None = None
    unit: int | None = None
    since_step: int = 0
    remedy: str | None = None
    symptoms: list[str] = field(default_factory=list)
    evidence: list[dict[str, Any]] = field(default_factory=list)  #: of text, signal, step, value
    origin: dict[str, Any] | None = None  #: where the first number that is not finite came from

    def __str__(self) -> str:
        where = f", layer {self.layer}" if self.layer else ""
        since = f", since step {self.since_step}" if self.since_step > 1 else ""
        lines = [f"{self.cause}{where}{since}, {self.confidence}"] + [f"    {e['text']}" for e in self.evidence]
        return "\n".join(lines + ([f"    → {self.remedy}"] if self.remedy else []))


@dataclass(frozen=True)
class Diagnosis:
    """What `Run.diagnose` found."""

    findings: list[Finding]  #: most important first
    rules: int  #: checks that ran
    skipped: int  #: checks that could not, for want of what they read
    notes: list[str]  #: what could not be done, and what to record

    def __str__(self) -> str:
        lines = [str(finding) for finding in self.findings]
        lines.append(f"{self.rules} of {self.rules + self.skipped} checks ran")
        return "\n".join(lines + [f"  {note}" for note in self.notes])


def _finding(row: dict[str, Any]) -> Finding:
    def parsed(value: Any, none: Any) -> Any:
        return (json.loads(value) if value else none) if isinstance(value, str) else (none if value is None else value)

    unit = row.get("unit")
    return Finding(
        cause=row["cause"], confidence=row["confidence"], layer=row.get("layer") or None,
        unit=unit if unit is not None and unit >= 0 else None, since_step=row.get("since_step") or 0,
        remedy=row.get("remedy") or None, symptoms=parsed(row.get("symptoms"), []),
        evidence=parsed(row.get("evidence"), []), origin=parsed(row.get("origin"), None) or None,
    )


def _setting(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _program() -> str:
    """The program tapedeck: the package's own, or what $TAPEDECK or the path has."""
    own = os.path.join(sysconfig.get_path("scripts"), "tapedeck")
    found = os.environ.get("TAPEDECK") or (own if os.path.exists(own) else shutil.which("tapedeck"))
    if not found:
        raise FileNotFoundError("the program tapedeck, which diagnoses runs, is not installed beside this Python nor in the path")
    return found


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
        pandas = _pandas("stats")
        return pandas.DataFrame(self._table("stats", _STATS)).set_index("step")

    def to_pandas(self) -> "pandas.Series | pandas.DataFrame":
        """A scalar's values by step; of anything else its statistics."""
        pandas = _pandas("to_pandas()")
        if "scalar" in self.forms:
            table = self.values
            return pandas.Series(table["value"], index=pandas.Index(table["step"], name="step"), name=self.name)
        return self.stats

    def spread(self, statistic: str | None = None) -> "numpy.ndarray":
        """Of a training of several processes, how far they are apart at each step: an array with the fields step, ranks
        (how many recorded it), min, mean, max, min_rank, max_rank, and nonfinite_rank (the first rank with NaN or
        infinities, or -1). Of a tensor give the statistic, ``"norm"`` for example.

        >>> run["loss"].spread()["max_rank"]              # doctest: +SKIP
        """
        import numpy

        if not self._run.ranks:
            raise ValueError(f"{self._run.name} has no ranks: one process wrote it")
        if statistic is None and "scalar" not in self.forms:
            statistic = "norm"
        return numpy.frombuffer(self._run._native.spread(self.name, statistic), dtype=_SPREAD)

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

    def array(self) -> "numpy.ndarray":
        """All records of all steps: ``[records, …shape]``. A scalar's are its values; tensors are mapped from their
        file where it holds them all, and copied where they are in several places. `steps` says of which steps.

        >>> run["loss"].array()
        >>> run["conv1.error"].array()[-1]
        """
        import numpy

        if "scalar" in self.forms and "tensor" not in self.forms:
            return self.values["value"]
        if "tensor" not in self.forms:
            raise KeyError(f"{self.name} was not recorded as a tensor: record it with form=\"tensor\" (it has: {', '.join(self.forms)})")
        mapped = self._mapped()
        return numpy.stack([self.at(int(step), "tensor") for step in self.steps]) if mapped is None else mapped

    def _mapped(self) -> "numpy.ndarray | None":
        """All tensors as they lie in their file; None where they are in several places, or NumPy is not installed."""
        places = self._run._native.places(self.name)
        file, first = places[0][1:] if places else ("", 0)
        if not file.endswith(".npy") or any(place[1:] != (file, first + i) for i, place in enumerate(places)):
            return None
        try:
            import numpy
        except ImportError:
            return None
        folder = self._run._files()
        if folder is None:
            return None
        array = numpy.load(os.path.join(folder, file), mmap_mode="r")[first:first + len(places)]
        return array if len(array) == len(places) and array.dtype.isnative else None

    @property
    def steps(self) -> "numpy.ndarray":
        """The steps of `array`'s records."""
        import numpy

        if "scalar" in self.forms and "tensor" not in self.forms:
            return self.values["step"]
        return numpy.array([place[0] for place in self._run._native.places(self.name)], numpy.int64)

    def to_arrow(self, form: str | None = None) -> ArrowTable:
        """This signal's records for pyarrow, polars, pandas and DuckDB: a row each, of a histogram a row for each bin.

        Tensors stay where they are, mapped from their file, when it holds them all. The form is by default the first
        that was recorded of scalar, tensor, rows, stats, histogram, text.
        """
        found: str = form if form else next((word for word in FORMS if word in self.forms), "scalar")
        if found not in self.forms and found in FORMS:
            raise KeyError(f"{self.name} was not recorded as {found} (it has: {', '.join(self.forms)})")
        what = "".join("\\" + letter if letter in "*?[]\\,!" else letter for letter in self.name)
        return ArrowTable(self._run, what, found, self.name)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def table(self, step: int | None = None) -> "pandas.DataFrame":
        """A table that `Deck.table` recorded at this step, or last before it (by default: last of all)."""
        pandas = _pandas("table()")
        return pandas.read_csv(io.StringIO(self.at(step, "text")))

    def _content(self, form: str, content: Any) -> Any:
        if form == "histogram":
            import numpy

            return numpy.array(content, dtype=[("left", "f8"), ("right", "f8"), ("count", "f8")])
        return self._array(content) if isinstance(content, tuple) else content

    def _array(self, content: tuple) -> "numpy.ndarray":
        import numpy

        dtype, shape, data, file, record, _ = content
        folder = self._run._files() if file.endswith(".npy") else None
        if folder is not None:
            return numpy.load(os.path.join(folder, file), mmap_mode="r")[record]
        if dtype == "bfloat16":
            return (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
        return numpy.frombuffer(data, dtype).reshape(shape)


class Run(Mapping[str, Signal]):
    """A run: a folder that a deck wrote, or a folder of TensorBoard event files written by anybody; or a run in a team's
    database, ``postgresql://host/runs#a``.

    >>> run = tapedeck.Run("runs/a")
    >>> list(run)
    ['loss', 'conv1.error', 'conv2.error', 'conv2.output']
    >>> run["loss"].to_pandas()
    >>> run["conv2.error"].stats
    >>> run["conv2.output"].at(1200)
    >>> run["conv2.output"].array().shape
    >>> run.config, run.events, run.diagnose().findings

    A training of several processes is one run, whose ranks are merged; `rank` reads what one of them recorded.
    """

    def __init__(self, path: str | os.PathLike[str], rank: int | None = None) -> None:
        if rank is not None:
            if not _native.Run(os.fspath(path)).ranks():
                raise ValueError(f"{path} has no ranks: one process wrote it")
            path = os.path.join(path, f"rank-{rank:05}")
        self._path = os.fspath(path)
        self._native = _native.Run(self._path)
        self._signals: dict[str, Signal] = {}
        self._load()

    def _load(self) -> None:
        self._about = self._native.about()
        self._signals = {row[0]: Signal(self, *row) for row in self._native.signals()}

    def _files(self) -> str | None:
        """The folder of the run's files; None where only a database has them, or nobody does."""
        try:
            return self._native.files()
        except _native.Error:
            return None

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
    def ranks(self) -> list[dict[str, Any]]:
        """The processes that wrote the run, by attempt and rank: rank, attempt, node, local_rank, last_step, state, mesh and
        folder of each. Empty when one process wrote it."""
        return self._native.ranks()

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

    @property
    def title(self) -> str | None:
        """The ``name`` that `Deck` or `watch` was given."""
        return self.notes.get("title")

    @property
    def group(self) -> str | None:
        return self.notes.get("group")

    @property
    def tags(self) -> list[str]:
        return [word for word in self.notes.get("tags", "").split(",") if word]

    @property
    def config(self) -> dict[str, Any]:
        """The settings that `Deck` or `watch` was given; of ``tapedeck train`` what it notes of its experiment."""
        return {key: _setting(text) for key, text in self._native.notes("experiment").items()}

    @property
    def events(self) -> list[dict[str, Any]]:
        """What the deck did: triggers, drops, errors of sinks; each with kind, epoch, step, wall_time, count, signal
        and text."""
        return self._native.events()

    @property
    def tracks(self) -> list[str]:
        """What the run records, each track as a text; of a run that is being written as of the last `refresh`."""
        return [text for text in self.notes.get("deck.tracks", "").split("\n") if text]

    def change_tracks(self, add: Sequence[str] = (), remove: Sequence[str] = (), *, wait: float = 60.0) -> int:
        """Adds and removes tracks of a run that another process is writing; the step after which they count.

        >>> Run("runs/a").change_tracks(["*.error every 10 form stats"], remove=["loss every 100"])     # doctest: +SKIP

        Args:
            add: tracks as texts: names and globs, then the words of `Deck.track` with their values.
            remove: texts of `tracks`.
            wait: seconds for a step to end.
        """
        if isinstance(add, str) or isinstance(remove, str):
            raise TypeError("add and remove are lists of texts")
        return _native.change_tracks(self.folder, add, remove, wait)

    @property
    def findings(self) -> list[Finding]:
        """What the last diagnosis found, which the run keeps; empty before there is one."""
        return [_finding(row) for row in self._native.findings()]

    def diagnose(
        self, *, only: Names | None = None, ignore: Names | None = None, trial: bool = True, seconds: float = 60,
        keep: bool = True,
    ) -> Diagnosis:
        """Says what is wrong with the run, as ``tapedeck diagnose`` does.

        >>> print(run.diagnose())
        >>> run.diagnose(only="dead_relu,plateau").findings

        Args:
            only, ignore: names and globs of rules.
            trial: try out what is suspected, where the run can be repeated.
            seconds: that trials may take.
            keep: write the findings into the run; `findings` then has them.
        """
        command = [_program(), "diagnose", self._path, "--json", "--seconds", str(seconds)]
        for option, value in (("--only", only), ("--ignore", ignore)):
            command += [option, listed(value) or ""] if value is not None else []
        command += ([] if trial else ["--no-trial"]) + ([] if keep else ["--no-keep"])
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace")
        if done.returncode not in (0, 1) or not done.stdout:
            raise _native.Error(done.stderr.strip() or f"tapedeck diagnose ended with status {done.returncode}")
        found = json.loads(done.stdout)
        return Diagnosis([_finding(row) for row in found["findings"]], found["rules"], found["skipped"], found["notes"])

    def replay(
        self, first: int, last: int | None = None, what: Names | None = None, *, form: str | None = None, to: str | None = None,
        out: str | os.PathLike[str] | None = None, when: str | None = None, until: str | None = None, history: int = 0,
    ) -> dict[str, Any]:
        """Executes steps of a run of ``tapedeck train`` again, compares them, and records what was not recorded.

        ::

            run.replay(1200, 1250, "conv2.*", form="tensor", to="npy")
            run.refresh()["conv2.output"].at(1213)

        Args:
            first, last: steps, both included.
            what: names and globs of signals; None: steps are only compared.
            form, to, when, until, history: as of tracks.
            out: a new folder for the records; by default they are added to the run.
        """
        arguments = [self.folder, "--steps", f"{first}..{last if last is not None else first}"]
        place = None if out is None else os.fspath(out)
        for option, value in (("record", listed(what)), ("form", form), ("to", to), ("out", place), ("when", when),
                              ("until", until), ("history", history or None)):
            arguments += [f"--{option}", str(value)] if value is not None else []
        return run_json(_program(), "replay", *arguments)

    def origin(self, what: str | None = None, when: str | None = None) -> dict[str, Any]:
        """Where the first NaN or infinity came from in a run of ``tapedeck train``, or a spike of the loss.

        ::

            run.origin()["text"]
            run.origin("spike", "loss > 3")["rows"]

        Args:
            what: ``nan``, ``inf`` or ``spike``; None: the first loss that is not finite.
            when: with ``spike``, the first step in which this holds.

        Returns:
            What ``tapedeck origin --json`` prints; ``step`` is 0 where there is none.
        """
        arguments = ["--what", what] if what is not None else []
        return run_json(_program(), "origin", *arguments, self.folder, *([when] if when is not None else []))

    def diff(self, other: "Run | str | os.PathLike[str]") -> dict[str, Any]:
        """The first step, operation and element at which this run and another one part, as ``tapedeck diff --json`` prints it.

        >>> run.diff(run)["step"]  # no step differs
        0
        """
        return run_json(_program(), "diff", self.folder, other.folder if isinstance(other, Run) else os.fspath(other))

    def to_pandas(self) -> "pandas.DataFrame":
        """All scalars: a row a step, a column a signal."""
        pandas = _pandas("to_pandas()")
        columns = {name: signal.to_pandas() for name, signal in self.items() if "scalar" in signal.forms}
        return pandas.DataFrame(columns)

    def to_arrow(self, form: str = "scalar", what: Names | None = None) -> ArrowTable:
        """All records of one form as one table for pyarrow, polars, pandas and DuckDB: a row each, by step.

        >>> pyarrow.table(run.to_arrow())                                  # doctest: +SKIP
        >>> polars.DataFrame(run.to_arrow("stats", "*.error"))             # doctest: +SKIP

        Args:
            form: ``scalar``, ``stats``, ``histogram`` (a row for each bin), ``rows`` (a row for each example),
                ``tensor`` (signals of one type) or ``text``.
            what: names and globs of signals; by default all.
        """
        return ArrowTable(self, listed(what) if what is not None else None, form)

    def to_parquet(self, path: str | os.PathLike[str], form: str = "scalar", what: Names | None = None) -> str:
        """Writes `to_arrow`'s table as a Parquet file, which needs pyarrow; the file's path."""
        return self.to_arrow(form, what).to_parquet(path)

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
        from ._notebook import to_html

        return to_html(self)

    def show(self, page: str = "layers", height: int = 700) -> "Page":
        """A page of ``tapedeck view`` with this run's data, inline in a notebook.

        >>> run.show("layers")     # doctest: +SKIP
        """
        from ._notebook import Page

        return Page(self, page, height)

    def plot(self, *names: str, statistic: str = "norm", ax: Any = None) -> Any:
        """Draws signals over the steps by matplotlib, by default the losses; returns the axes.

        >>> run.plot("loss", "val_loss")                   # doctest: +SKIP
        >>> run.plot("conv1.error", statistic="max")       # doctest: +SKIP
        """
        from ._notebook import plot

        return plot(self, *names, statistic=statistic, ax=ax)


def runs(folder: str | os.PathLike[str] = "runs") -> "pandas.DataFrame":
    """The runs below a folder as a table, a row each, in the order of their folders: name, folder, state, started,
    epoch, steps, title, group, tags; ``config.KEY`` for each setting, and each metric's last value.

    >>> table = tapedeck.runs("runs")
    >>> table.sort_values("loss")[["name", "config.lr", "loss"]]
    >>> best = tapedeck.Run(table.loc[table["loss"].idxmin(), "folder"])
    """
    pandas = _pandas("runs()")
    rows = []
    for path, names, files in os.walk(folder):
        names.sort()
        ranks = [name for name in names if name.startswith("rank-")]
        if "run.db" in files or any(os.path.exists(os.path.join(path, rank, "run.db")) for rank in ranks):
            names.clear()
            rows.append(_row(Run(path)))
    columns = ["name", "folder", "state", "started", "epoch", "steps", "title", "group", "tags"]
    table = pandas.DataFrame(rows, columns=None if rows else columns)
    table["started"] = pandas.to_datetime(table["started"], unit="s", utc=True)
    return table


def _row(run: Run) -> dict[str, Any]:
    about = run._about
    row = {"name": run.name, "folder": run.folder, "state": run.state, "started": about["started"],
           "epoch": about["last_epoch"], "steps": run.steps, "title": run.title, "group": run.group, "tags": run.tags}
    row |= {f"config.{key}": value for key, value in run.config.items() if key != "yaml"}
    return row | {name: signal.at(form="scalar") for name, signal in run.items() if "scalar" in signal.forms}
