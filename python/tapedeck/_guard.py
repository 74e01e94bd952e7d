"""Recording never stops a training: the guard around what trainers call."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any


def guarded(method: Callable) -> Callable:
    """A callback of a trainer whose error ends the recording, not the training. The run and a warning say why;
    the recorder's `_give_up` takes it off the model."""

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        if self._gave_up:
            return None
        try:
            return method(self, *arguments, **options)
        except Exception as error:
            self._gave_up = True
            text = f"recording ended in {method.__name__}: {type(error).__name__}: {error}"[:500]
            warnings.warn(f"tapedeck: {text}", stacklevel=2)
            for attempt in (lambda: self.deck.note("recording_ended", text), self._give_up):
                try:
                    attempt()
                except Exception:
                    pass  # of the same cause, which was reported
        return None

    return call
