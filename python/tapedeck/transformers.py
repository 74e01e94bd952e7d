"""Hugging Face's Trainer: ``Trainer(…, callbacks=[tapedeck.transformers.Recorder("runs/a")])``."""

from __future__ import annotations

import os
from typing import Any, Unpack

from transformers import TrainerCallback

from ._options import WatchOptions
from ._torch import watch


class Recorder(TrainerCallback):
    """Watches the model that is trained; arguments as of `tapedeck.watch`. What the trainer logs is recorded too."""

    def __init__(self, folder: str | os.PathLike[str] = "runs/run", **options: Unpack[WatchOptions]) -> None:
        self._folder, self._options = folder, options
        self.deck: Any = None
        self._trained: tuple[int, int] | None = None  # epoch and step that are not closed yet

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_: Any) -> None:
        self.deck = watch(model, self._folder, optimizer=getattr(optimizer, "optimizer", optimizer), **self._options)

    # A step is closed when the next one begins: what is logged of it comes after its end.

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._close()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._trained = (int(state.epoch or 0) + 1, state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if self.deck is not None and not self.deck._finished:
            self.deck.log({name: value for name, value in (logs or {}).items() if isinstance(value, (int, float))})

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._close()
        self.deck.finish()

    def _close(self) -> None:
        if self._trained:
            self.deck.step(epoch=self._trained[0], step=self._trained[1])
            self._trained = None
