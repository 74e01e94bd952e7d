"""The deck: records what happens inside a training loop, whatever it is written with."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from . import _environment, _native, _resume
from ._options import Names, Policy
from ._words import file_name, form_bits, listed, note_text, schedule

_FORMS = _native.FORMS
_MOST_WARNINGS = 100
_LOOK_SECONDS = 1.0  # between two looks for something to warn of
_open: "weakref.WeakSet[Deck]" = weakref.WeakSet()
_made = threading.local()  # .decks: those that a function marked with leaves_no_folder has made so far
_P = ParamSpec("_P")
_R = TypeVar("_R")


class RecordingWarning(UserWarning):
    """Something that a deck was asked for and that it cannot do, or that comes to nothing."""


def leaves_no_folder(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function that raises takes the decks it has made back, with their folders."""

    @functools.wraps(function)
    def call(*arguments: _P.args, **named: _P.kwargs) -> _R:
        outer = getattr(_made, "decks", None)
        _made.decks = []
        try:
            return function(*arguments, **named)
        except BaseException:
            for deck in _made.decks:
                deck._abandon()
            raise
        finally:
            _made.decks = outer

    return call


class Deck:
    """Records one run into a folder of its own.

    >>> deck = tapedeck.Deck("runs/c")
    >>> for x, y in batches:
    ...     deck.record("h.error", array)        # anything with DLPack or a buffer: NumPy, PyTorch, JAX, …
    ...     deck.log(loss=0.3)
    ...     deck.step()
    >>> deck.finish()

    The folder is ``folder``, or ``folder-2``, ``folder-3``, … when that exists: a run is never overwritten.
    Numbers go to metrics.csv, TensorBoard and run.db. Without a track every array is kept in every step, as NPY.
    A deck may be used as a context manager; one that is still open when the interpreter exits is finished then.
    In a process forked from this one (a worker of a data loader) its calls do nothing.

    What comes to nothing (a track that no signal matches, a condition on an unknown metric, a sink that fails) is a
    `RecordingWarning` when it is noticed, and again when the deck is finished.

    Args:
        folder: where the run is written.
        name: of the run, for people; ``Run.title``.
        group: of runs that belong together.
        tags: words to find the run by.
        config: settings of the training, a dict or an ``argparse.Namespace``: ``Run.config``, and in
            ``tapedeck runs --json`` and ``tapedeck compare``.
        policy: when the queue to the writer is full: ``block`` (nothing is lost), ``drop`` or ``degrade``
            (a tensor becomes a histogram, a histogram statistics).
        queue: bytes that may wait for the writer (256 MiB).
        history: bytes that tracks with ``when`` and ``history`` may keep back (64 MiB).
        overhead: the deck's share of the time of a step that it keeps to, 0.05 is 5 %.
        seed: of random samples.
        metrics: record every number that `log` is given, once in this many steps (0: only what tracks name).
        exact_folder: fail when the folder exists.
        resume: go on with the run in ``folder``: ``True`` (or ``"allow"``) after its last step, or begin one where
            there is none; ``"must"`` the same, and an error where there is none; a number: after that step.
        discard: with ``resume=STEP``: remove what was recorded after it. The run as it was is kept in
            ``FOLDER/before-resume-STEP``. Without it, steps that would be lost are an error.
        rank, world: of this process, and how many there are. With more than one, each process writes
            ``FOLDER/rank-00000``, …, without waiting for another; ``Run(FOLDER)`` reads them as one.
        mesh: coordinates of this process, ``"dp=0,tp=1"``.
        environment: record command line, folder, host, user, versions of Python and its packages, commit and branch.
        system: seconds between two samples of the machine's load (``system.cpu``, …); 0 for none.
        diff: bytes that are kept of ``git diff HEAD``; 0 for none.
        console: also record what Python prints to standard output and error, as the texts ``console.output`` and
            ``console.error`` of the step that is open.
        store: the URL of a team's database, ``postgresql://host/runs``, that the run is sent to while it is written;
            by default what the variable ``TAPEDECK_STORE`` has. The folder has everything all the same.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] = "runs/run",
        *,
        name: str | None = None,
        group: str | None = None,
        tags: Names | None = None,
        config: Mapping[str, Any] | Any = None,
        policy: Policy = "block",
        queue: int = 0,
        history: int = 0,
        overhead: float = 0.0,
        seed: int = 0,
        metrics: int = 1,
        exact_folder: bool = False,
        resume: bool | str | int = False,
        discard: bool = False,
        busy_cores: int = 0,
        rank: int = 0,
        world: int = 1,
        mesh: str = "",
        environment: bool = True,
        system: float = 5.0,
        diff: int = 256 << 10,
        console: bool = False,
        store: str | None = None,
    ) -> None:
        folder = os.fspath(folder)
        after, self.epoch = _resume.plan(folder, resume, discard)
        self._native = _native.Deck(
            folder, policy=policy, queue_bytes=queue, history_bytes=history, overhead=overhead,
            seed=seed, exact_folder=exact_folder, resume=after, busy_cores=busy_cores,
            environment=environment, system_seconds=system if system > 0 else -1.0, diff_bytes=diff if environment else 0,
            rank=rank, world=world, mesh=mesh, store=store or os.environ.get("TAPEDECK_STORE") or None,
        )
        self._pid = os.getpid()
        self._metrics = metrics
        self._tracked = False
        self._names_rows = False  # a track or a condition speaks of loss.rows
        self._rows_given = False  # by batch()
        self._begun = False
        self._finished = False
        self._ends_epoch = False
        self._closing = 0  # the number of the step that is being closed
        self._step_is_named = False  # by who closes it
        self._is_driven = False  # a trainer's callback closes the steps
        self._warnings: list[str] = []
        self._look_at = 0.0  # when to look for more of them
        self._laid_out: set[str] = set()  # names of arrays that were recorded
        self._by_epoch = False  # a track waits for the end of an epoch
        self._epochs_ended = 0
        self._curvature: Any = None  # made when it is first asked for
        self._parts: list[Any] = []  # that go with the deck: hooks, samplers
        self.rank = rank
        self.folder: str = self._native.folder
        self._resumed = bool(resume)
        self.steps = max(after, 0)  # closed so far
        self._before = _ended_by()  # not what ends this run
        _open.add(self)
        if getattr(_made, "decks", None) is not None:
            _made.decks.append(self)
        try:
            self._about(name, group, tags, config)
            if environment:
                for key, value in _environment.facts():
                    self._native.note(f"environment.{key}", value)
            if console:
                self._parts.append(_environment.Console(self))
        except BaseException:
            self._abandon()
            raise

    def _about(self, name: str | None, group: str | None, tags: Names | None, config: Any) -> None:
        if name is not None:
            self.note("title", name)
        if group is not None:
            self.note("group", group)
        if tags is not None:
            self.note("tags", ",".join(word.strip() for word in (listed(tags) or "").split(",")))
        if config is not None:
            for key, value in (config if isinstance(config, Mapping) else vars(config)).items():
                self._native.note(f"experiment.{key}", note_text(value))

    # ---- what is recorded -----------------------------------------------------------------------

    def track(
        self,
        what: Names = "*",
        *,
        every: int | str = 0,
        log_freq: int = 0,
        every_epochs: int = 0,
        at: Sequence[int] | None = None,
        start: int = 0,
        end: int = 0,
        sample: int = 0,
        when: str | None = None,
        history: int = 0,
        form: Names | None = None,
        to: Names | None = None,
    ) -> "Deck":
        """Adds a wish: which signals, when, in which form, where to. It counts from the next step on.

        >>> deck.track("*.error", every=50, form="histogram", to="tensorboard")
        >>> deck.track("*.error", when="nan(*) > 0", history=20, form="tensor", to="npy")

        Args:
            what: names and globs (``* ? [a-z]``), a list or separated by commas.
            every: steps; ``"2 epochs"`` is ``every_epochs=2``. Without a schedule: every step.
            log_freq: another word for ``every``.
            every_epochs: in the last step of every N-th epoch.
            at: in these steps.
            start, end: only from, only up to and including this step.
            sample: this many random rows of an array instead of all.
            when: only when this holds at the end of a step: ``loss > 1.0``, ``hidden.error.norm < 1e-6``,
                ``nan(*) > 0``; see docs/recording.md.
            history: with ``when``, also this many steps before it.
            form: ``tensor rows long units stats histogram image scalar hash``; each sink has its own default.
            to: ``csv npy tensorboard png print sqlite``; by default csv. run.db has an index of everything.
        """
        if isinstance(every, str):
            every, every_epochs = schedule(every, every_epochs)
        self._native.track(
            listed(what), every=every or log_freq, every_epochs=every_epochs, at=at, start=start, end=end,
            sample=sample, when=when, history=history, form=form_bits(form), to=listed(to),
        )
        self._names_rows = self._names_rows or "rows" in f"{listed(what)} {when}"
        self._tracked = True
        self._by_epoch = self._by_epoch or every_epochs > 0
        for part in self._parts:
            if hasattr(part, "after_track"):  # the open step may have become due
                part.after_track()
        return self

    def alert(self, when: str | None = None, *, run: Sequence[str] | None = None, webhook: str | None = None) -> "Deck":
        """Notifies somebody, once, when a condition holds for the first time; without a condition, of each cause that
        `raise_alert` is given. The writer thread does it, and nothing waits for it; what fails is reported by `flush` and
        `finish`.

        >>> deck.alert("nan(*) > 0 or loss > 10", run=["mail", "-s", "look at this run", "me@example.org"])
        >>> deck.alert(webhook="$ALERTS")     # doctest: +SKIP

        Args:
            when: as of `track`.
            run: a program and its arguments, started without a shell. Its standard input is a line of JSON: text, run,
                cause, message, epoch, step, time.
            webhook: an ``http`` or ``https`` address that the JSON is sent to, by the program ``curl``; or ``$NAME``, the
                environment variable that has it.
        """
        if run is not None and (isinstance(run, str) or not all(isinstance(word, str) for word in run)):
            raise TypeError("run is a list of words, [\"program\", \"argument\"]: it is started without a shell")
        self._native.alert(when, run, webhook)
        for part in self._parts:
            if hasattr(part, "after_track"):  # what the condition reads may be due
                part.after_track()
        return self

    def raise_alert(self, cause: str, text: str = "") -> None:
        """Notifies all alerts without a condition, once for each cause, and makes it an event of the run.

        >>> deck.raise_alert("diverged", "the loss is 12 at step 300")
        """
        self._native.raise_alert(cause, text)

    def _prepare(self) -> None:
        """Sets what a deck without tracks records, as late as possible."""
        self._begun = True
        if not self._tracked:
            self.track("*", form="tensor,stats", to="npy,sqlite")
        if self._metrics:
            self._native.track("*", every=self._metrics, metrics=True, to="csv,tensorboard")
        self._native.track("*", metrics=True, form=_FORMS["text"] | _FORMS["image"], to="csv,tensorboard,png")

    def record(self, name: str, value: Any, *, layout: str | None = None) -> None:
        """Records an array under this name, if a track wants it in this step. It is read, or
        copied, before the call returns.

        >>> deck.record("hidden.output", np.ones((4, 3), np.float32))

        Args:
            layout: how it is a picture: ``NCHW``, ``CHW`` (PyTorch's tensors), ``NHWC``, ``HWC`` (all others). The
                first record of a name counts.
        """
        if not self._begun:
            self._prepare()
        if name not in self._laid_out:
            self._laid_out.add(name)
            layout = layout or ("channels_first" if type(value).__module__.partition(".")[0] == "torch" else None)
            if layout:
                self._native.signal(name, layout=layout, rank=self.rank)
        try:
            self._native.record(name, value)
        except (TypeError, BufferError):
            from ._arrays import as_arrays

            arrays = as_arrays(name, value)
            if len(arrays) > 1 and self._native.wants(name) and not any(self._native.wants(part) for part, _, _ in arrays):
                raise TypeError(f"{name} is complex: it is recorded as {name}.real and {name}.imag, which no track has") from None
            for part, array, dtype in arrays:
                self._native.record(part, array, dtype=dtype)

    def log(self, metrics: Mapping[str, Any] | None = None, /, *, step: int | None = None, **more: Any) -> None:
        """Records numbers: Python's, or arrays of one element, which are not waited for.

        >>> deck.log(loss=loss, accuracy=0.9)
        >>> deck.log({"val/loss": 0.4})
        >>> deck.log(loss=0.3, step=120)             # and closes step 120

        Args:
            step: the number of the open step, which is closed with this call: it is the same as `step` right after
                it. Without it the step stays open.
        """
        if not self._begun:
            self._prepare()
        if step is not None:
            self._check_step(step)
            if step != self.steps + 1:
                self._native.begin(self.epoch, step, False)
        scalar = self._native.scalar
        for name, value in ({**metrics, **more} if metrics else more).items():
            try:
                scalar(name, value)
            except BufferError:
                scalar(name, float(value))
        if step is not None:
            self.step(step=step)

    def text(self, name: str, text: str) -> None:
        """Records a text in this step.

        >>> deck.text("sample", "once upon a time")
        """
        if not self._begun:
            self._prepare()
        self._native.text(name, text)

    def image(self, name: str, value: Any, *, layout: str | None = None) -> None:
        """Records a picture in this step: as PNG in images/NAME, and for TensorBoard. `Signal.at` gives the PNG back.

        >>> deck.image("digit", np.zeros((28, 28)))
        >>> deck.image("photo", tensor, layout="CHW")

        Args:
            value: an array of uint8, or of floats from 0 to 1; one channel is grey, three are RGB, four RGBA.
            layout: ``HW``, ``HWC`` or ``CHW``; by default the one in which there are 1, 3 or 4 channels (the last
                axis, where both could be).
        """
        from ._media import picture

        if not self._begun:
            self._prepare()
        self._native.picture(name, picture(value, layout))

    def audio(self, name: str, value: Any, *, rate: int, layout: str | None = None) -> str:
        """Records a sound in this step, as a WAV file in the run's folder; the text that is recorded under the
        name, and returned, is the file's place there. TensorBoard shows that text, and does not play it.

        >>> deck.audio("speech", np.sin(np.arange(16000) / 20), rate=16000)
        'audio/speech/step-000001.wav'

        Args:
            value: floats from -1 to 1, or int16.
            rate: samples a second.
            layout: ``T`` (mono), ``TC`` or ``CT``.
        """
        from ._media import sound

        return self._put_sound(name, sound(value, rate, layout), self.steps + 1)

    def _put_sound(self, name: str, data: bytes, step: int) -> str:
        place = f"audio/{file_name(name)}/step-{step:06}.wav"
        if os.getpid() == self._pid:
            path = os.path.join(self.folder, place)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path + ".part", "wb") as file:
                file.write(data)
            os.replace(path + ".part", path)
            self.text(name, place)
        return place

    def table(self, name: str, data: Any, columns: Sequence[str] | None = None) -> None:
        """Records a table in this step, as a text of CSV: `Signal.table` gives it back, ``tapedeck export`` writes it.

        >>> deck.table("confusion", {"class": ["cat", "dog"], "right": [9, 7]})
        >>> deck.table("confusion", [["cat", 9], ["dog", 7]], columns=["class", "right"])

        Args:
            data: a DataFrame, a dict of columns, a list of dicts, or rows.
            columns: of rows, their names.
        """
        from ._media import table

        self.text(name, table(data, columns))

    def note(self, key: str, value: Any) -> None:
        """Records a fact about the run as a whole: the last value for a key counts."""
        self._native.note(key, str(value))

    def wants(self, name: str) -> bool:
        """Whether a track wants this signal in the open step: ask when making it costs something."""
        if not self._begun:
            self._prepare()
        return self._native.wants(name)

    def due(self, step: int | None = None) -> bool:
        """Whether any array may be wanted in a step (the open one)."""
        if not self._begun:
            self._prepare()
        return self._native.due(self.steps + 1 if step is None else step)

    def batch(self, rows: Any, labels: Any = None) -> None:
        """Says which rows of the data set this step is about, and their labels."""
        import numpy

        rows = numpy.ascontiguousarray(rows, dtype=numpy.int64)
        self._rows_given = True
        if labels is None:
            self._native.batch(rows)
        else:
            self._native.batch(rows, labels)

    # ---- steps ----------------------------------------------------------------------------------

    def _check_step(self, step: int) -> None:
        if step <= self.steps:
            raise ValueError(f"step {step} comes after step {self.steps}, which is closed: steps count from 1 and go forward. What belongs "
                             "to one step is logged with one call of log(step=), or before step()")

    def begin(self, *, last: bool = False) -> None:
        """Says of the step that begins whether it is its epoch's last: what is wanted only then need not be
        kept in every other."""
        if not self._begun:
            self._prepare()
        self._native.begin(self.epoch, self.steps + 1, last)

    def step(self, *, epoch: int | None = None, step: int | None = None, last: bool = False) -> None:
        """Closes the step: what was recorded since the last one belongs to it.

        Args:
            epoch: of the step, from 1; by default as before.
            step: its number; by default one more than the last. Numbers only grow.
            last: it is its epoch's last; the next one begins another.
        """
        if not self._begun:
            self._prepare()
        if step is not None:
            self._check_step(step)
        if epoch is not None:
            self.epoch = epoch
        self._ends_epoch = last
        self._closing, self._step_is_named = self.steps + 1 if step is None else step, step is not None
        closes = True
        for part in self._parts:
            closes = part.before_step() and closes
        if not closes:
            return
        number = self._closing
        if self._by_epoch and not last:
            self._native.step_later(self.epoch, number)  # end_epoch() may follow
        else:
            self._native.step(self.epoch, number, last)
        self.steps = number
        if last:
            self._epochs_ended += 1
            self._begin_epoch()
        for part in self._parts:
            part.after_step()
        now = time.monotonic()
        if now >= self._look_at or self.steps & (self.steps - 1) == 0:
            self._look_at = now + _LOOK_SECONDS
            self._follow_tracks()
            for text in self._find_warnings()[0]:
                warnings.warn(f"tapedeck: {self.folder}: {text}", RecordingWarning, stacklevel=2)

    def _follow_tracks(self) -> None:
        """Takes note of tracks that another process has added."""
        for text in self._native.tracks():
            self._names_rows = self._names_rows or "rows" in text
            self._by_epoch = self._by_epoch or (" epochs" in text and " metrics" not in text)

    def end_epoch(self) -> None:
        """The step closed last was its epoch's last; another epoch begins.

        >>> for x, y in batches:
        ...     deck.step()
        >>> deck.end_epoch()

        Where tracks wait for the end of an epoch this comes right after the step: what is logged in between belongs to
        the next one. ``step(last=True)`` says the same at once.
        """
        if any(part.close_last_step() for part in self._parts if hasattr(part, "close_last_step")):
            return
        if self._by_epoch:
            if self._native.end_epoch():
                self._epochs_ended += 1
            else:
                warnings.warn("tapedeck: end_epoch() does not follow a step: tracks by epoch recorded nothing of this one. "
                              "Call it right after deck.step(), before anything is logged, or say deck.step(last=True)",
                              stacklevel=2)
        self._begin_epoch()

    def _clock(self) -> Any:
        """Of the models that are watched: what sees where steps of training end."""
        return next((part for part in self._parts if hasattr(part, "infer_step")), None)

    def _begin_epoch(self) -> None:
        self.epoch += 1
        self._native.note(_resume.ENDED, str(self.steps))

    def curvature(self, loss: Callable[[], Any], *, parameters: Any = None, iterations: int = 100, tolerance: float = 1e-3) -> dict[str, float]:
        """The curvature of a PyTorch model's loss, in the steps in which a track records it.

        >>> deck = tapedeck.watch(model, optimizer=opt)
        >>> deck.track("hessian.max_eigenvalue,hessian.update_curvature", every=100)
        >>> for x, y in loader:
        ...     opt.zero_grad(); F.cross_entropy(model(x), y).backward(); opt.step()
        ...     deck.curvature(lambda: F.cross_entropy(model(x), y))
        ...     deck.step()

        ``hessian.max_eigenvalue`` is the largest eigenvalue of the loss's Hessian on this batch, by power iteration;
        ``hessian.update_curvature`` the second derivative of the loss along the optimizer's last step, with the parameters
        after it. In other steps the call does nothing, and returns an empty dict. The first call also makes the optimizer's
        later steps known to the deck: there is no update before it.

        Costs a forward pass with a graph of gradients, and a backward pass through it for each of up to `iterations`
        products (twice as many where the eigenvalue of greatest magnitude is negative). `.grad`, random states and buffers
        are afterwards what they were, and layers called by `loss` are not recorded.

        Args:
            loss: called once; returns the loss, with its graph. Anything random in it is drawn once.
            parameters: with respect to which; by default all trainable ones of the watched models.
            iterations: at most this many products; if they do not suffice, the note ``hessian`` says how close it came.
            tolerance: the iteration ends when what is left is below this share of the eigenvalue, an upper bound of its error.

        Returns:
            What was recorded, by name.
        """
        if self._curvature is None:
            from ._curvature import Curvature

            self._curvature = Curvature(self)
        return self._curvature.take(loss, parameters, iterations, tolerance)

    def capsule(self, reason: str = "asked for") -> str:
        """Writes the last steps that ``watch(…, capsule=N)`` keeps, for `replay`; their folder.

        >>> deck.capsule()
        'runs/a/capsules/120'
        """
        keeper = next((part for part in self._parts if hasattr(part, "windows")), None)
        if keeper is None:
            raise ValueError("nothing is kept: watch(…, capsule=8) keeps the last 8 steps")
        return keeper.write(reason)

    def flush(self) -> None:
        """Returns when everything recorded in closed steps is safe on disk; raises the first error."""
        self._native.flush()

    @property
    def counters(self) -> dict[str, float]:
        """What has been recorded, dropped, degraded, and what recording has cost."""
        return self._native.counters()

    def _find_warnings(self, ending: bool = False) -> tuple[list[str], list[str]]:
        """What has not been warned of so far, and what has been and still holds."""
        found = self._native.warnings(ending)
        if ending and self._by_epoch and not self._epochs_ended:
            found = [text + "; no epoch ended: call deck.end_epoch() after the last step of each, or deck.step(last=True) for it"
                     if " epochs: nothing was recorded" in text else text for text in found]
        for part in self._parts:
            found += getattr(part, "warnings", list)()
        still = [text for text in self._warnings if text in found]
        new = [text for text in dict.fromkeys(found) if text not in self._warnings][: _MOST_WARNINGS - len(self._warnings)]
        self._warnings += new
        return new, still

    # ---- the end --------------------------------------------------------------------------------

    def finish(self, state: str | None = None, *, _level: int = 2) -> None:
        """Writes everything and closes the run. Raises `Error` when not everything could be
        recorded; calling it again does nothing.

        Args:
            state: how the run ended: ``finished`` (the default), ``interrupted`` or ``failed``.
        """
        if self._finished:
            return
        self._finished = True
        _open.discard(self)
        if os.getpid() != self._pid:
            return
        for part in self._parts:
            if state and hasattr(part, "fail"):
                part.fail(state)
            part.finish()
        if state:
            self._native.note("state", state)
        new, still = self._find_warnings(ending=True)
        if new or still:
            self._native.note("warnings", "\n".join(still + new))
        try:
            self._native.close()
        finally:
            for text in new:
                warnings.warn(f"tapedeck: {self.folder}: {text}", RecordingWarning, stacklevel=_level)
            if still:
                warnings.warn(f"tapedeck: {self.folder}: the run ended with these warnings: {'; '.join(still)}",
                              RecordingWarning, stacklevel=_level)

    def _abandon(self) -> None:
        """Takes the deck back: there is no run."""
        if self._finished:
            return
        self._finished = True
        _open.discard(self)
        for part in self._parts:
            part.finish()
        try:
            self._native.close()
        except _native.Error:
            pass
        if not self._resumed:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> "Deck":
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, traceback: Any) -> None:
        self._end(value, _level=3)

    def _end(self, error: BaseException | None, *, _level: int = 2) -> None:
        """The run has the text of the error that ended the program."""
        state = _state_of(error)
        if state == "failed" and not self._finished and os.getpid() == self._pid:
            self._native.note("failure", f"{type(error).__name__}: {error}"[:500])
        self.finish(state, _level=_level)

    def __repr__(self) -> str:
        state = "finished" if self._finished else f"step {self.steps}"
        return f"<tapedeck.Deck {self.folder}: {state}>"

    def _repr_html_(self) -> str:
        from .run import Run

        return Run(self.folder)._repr_html_()

    def sample(
        self, x: Any, y: Any = None, *, n: int = 10, every_epochs: int = 1, every: int = 0, predict: Any = None,
        to: Names = "csv,print,sqlite",
    ) -> None:
        """Records a random sample of a validation set as ``prediction``, true labels beside predictions.

        >>> deck = tapedeck.watch(model, "runs/a", optimizer=opt)
        >>> deck.sample(x_val, y_val, n=10, every_epochs=2)

        Args:
            x, y: the validation set.
            n: rows of it.
            every_epochs, every: when.
            predict: x -> predictions; by default the model that is watched, in evaluation mode.
            to: sinks.
        """
        from ._sample import Sampler

        self._parts.append(Sampler(self, x, y, n=n, every=every, every_epochs=every_epochs, predict=predict, to=to))


def _state_of(error: BaseException | None) -> str | None:
    if error is None:
        return None
    return "interrupted" if isinstance(error, (KeyboardInterrupt, SystemExit)) else "failed"


def _ended_by() -> BaseException | None:
    """The exception that ends the program. In a notebook or an interactive session none does: there it is the last
    one that was shown, however long ago."""
    return None if hasattr(sys, "ps1") or sys.flags.interactive else getattr(sys, "last_value", None)


@atexit.register
def _finish_all() -> None:
    error = _ended_by()
    for deck in list(_open):
        try:
            deck._end(None if error is deck._before else error)
        except Exception as failure:
            print(f"tapedeck: {deck.folder}: {failure}", file=sys.stderr)
