"""Hugging Face's Trainer: ``Trainer(…, callbacks=[tapedeck.transformers.Recorder("runs/a")])``."""

from __future__ import annotations

import math
from typing import Any

from transformers import TrainerCallback

from ._guard import guarded
from ._trainer import TrainerSteps


class Recorder(TrainerSteps, TrainerCallback):
    """Watches the model that is trained; arguments as of `tapedeck.watch`. Steps are the trainer's ``global_step``.
    What the trainer logs is recorded too."""

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_: Any) -> None:
        self._start(model, optimizer, math.floor(state.epoch or 0) + 1, state.global_step)

    @guarded
    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._close()

    @guarded
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # state.epoch is the part of the epochs that is done: 1.0 after the first one's last step.
        self._trained = (max(1, math.ceil(round(state.epoch or 0, 9))), state.global_step)

    @guarded
    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._ends_epoch = self._trained is not None

    @guarded
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if self.deck is not None and not self.deck._finished:
            self.deck.log({name: value for name, value in (logs or {}).items() if isinstance(value, (int, float))})

    @guarded
    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._end()
