"""Keeps the last steps of a training in memory, and writes them as a capsule when something happens.

What a step is, and how the state at the beginning of a window of steps is copied, is the framework's: _keep_torch.py and
_keep_keras.py. Two windows are kept, so that there are always as many steps as were asked for.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections import deque
from typing import Any

from ._capsule import Writer

_MAX_CAPSULES = 8  # that a run writes by itself; those that are asked for are not counted
_SPIKE = 8.0  # times the median of the losses before it
_LOSSES = 32  # that the median is of; there is none of fewer than a quarter of them


class Window:
    """Steps, and the state before the first of them."""

    __slots__ = ("state", "steps")

    def __init__(self, state: Any) -> None:
        self.state = state
        self.steps: list[Any] = []


class Keeper:
    """Goes with a deck. A subclass sets `step`, which is falsy until something was done in it, and calls `open_window` before
    the first change of a step."""

    framework = ""

    def __init__(self, deck: Any, size: int) -> None:
        if size < 1:
            raise ValueError(f"capsule is a number of steps to keep, not {size}")
        self.deck, self.size = deck, size
        self.windows: deque[Window] = deque(maxlen=2)
        self.step: Any = self.new_step()
        self.losses: deque[float] = deque(maxlen=_LOSSES)
        self.was_finite = True  # the last loss
        self.triggers = 0
        self.written = 0
        self.next_at = 0  # the step from which another capsule may be written
        self.stopped = False

    # ---- of the framework -----------------------------------------------------------------------

    def new_step(self) -> Any:
        raise NotImplementedError

    def copy_state(self) -> Any:
        raise NotImplementedError

    def open_step(self) -> Any:
        """What was done since the last step was closed, or None."""
        return self.step or None

    def describe(self, writer: Writer, state: Any, steps: list[Any]) -> dict[str, Any]:
        raise NotImplementedError

    def release(self) -> None:
        """Takes hooks off."""

    # ---- steps ----------------------------------------------------------------------------------

    def open_window(self) -> None:
        if not self.windows or len(self.windows[-1].steps) >= self.size and not self.step:
            self.windows.append(Window(self.copy_state()))

    def before_step(self) -> bool:
        return True

    def after_step(self) -> None:
        step, self.step = self.step, self.new_step()
        if not step or self.stopped or not self.windows:
            return
        step.number = self.deck.steps
        self.windows[-1].steps.append(step)
        reason = self._reason(step.loss())
        if reason and step.number >= self.next_at and self.written < _MAX_CAPSULES:
            self.written += 1
            self._write_guarded(reason)

    def _reason(self, loss: float) -> str | None:
        """Why a capsule is written now, or None. That a loss stays infinite is not another event."""
        reason = None
        if not math.isfinite(loss):
            reason = f"the loss is {loss}" if self.was_finite else None
        elif len(self.losses) >= _LOSSES // 4 and loss > _SPIKE * statistics.median(self.losses) > 0:
            reason = f"the loss is {loss:.6g}, the median of those before it {statistics.median(self.losses):.6g}"
        self.was_finite = math.isfinite(loss)
        if self.was_finite:
            self.losses.append(loss)
        triggers = int(self.deck.counters["triggers"])
        if triggers > self.triggers:
            reason = reason or "a track's condition fired"
        self.triggers = triggers
        return reason

    # ---- writing --------------------------------------------------------------------------------

    def _write_guarded(self, reason: str) -> None:
        try:
            self.write(reason)
        except Exception as error:
            self.stop(f"the capsule of step {self.deck.steps} was not written: {error}")

    def write(self, reason: str) -> str:
        """Writes what is kept, the step that is open included; its folder."""
        steps = [step for window in self.windows for step in window.steps]
        unfinished = self.open_step()
        if unfinished is not None:
            unfinished.number = self.deck.steps + 1
            steps.append(unfinished)
        if not steps:
            raise ValueError("there is no step to write: the model has not been trained since it is watched"
                             + (", or capsules have stopped" if self.stopped else ""))
        last = steps[-1].number
        writer = Writer(self.deck.folder, last)
        try:
            about = {"framework": self.framework, "trigger": reason, "first_step": steps[0].number, "last_step": last,
                     "rank": self.deck.rank}
            path = writer.finish(about | self.describe(writer, self.windows[0].state, steps))
        except BaseException:
            writer.abandon()
            raise
        self.next_at = last + self.size
        self.deck.note(f"capsule.{last}", reason)
        return path

    def fail(self, state: str) -> None:
        """The run did not end by itself."""
        if state == "failed" and not self.stopped and self.windows:
            self._write_guarded("an exception ended the run")

    def stop(self, reason: str = "") -> None:
        if self.stopped:
            return
        self.stopped = True
        self.release()
        self.windows.clear()
        self.step = self.new_step()
        if reason:
            self.deck.note("capsules_stopped", reason)
            warnings.warn(f"tapedeck: there are no more capsules: {reason}", stacklevel=2)

    def finish(self) -> None:
        self.stop()
