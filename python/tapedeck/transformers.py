"""Hugging Face's Trainer and TRL: ``Trainer(…, callbacks=[tapedeck.transformers.Recorder("runs/a")])``, or
``tapedeck.transformers.register("runs/a")`` and then ``TrainingArguments(report_to="tapedeck")``."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback

from ._guard import guarded
from ._trainer import TrainerSteps
from .deck import Deck


class Recorder(TrainerSteps, TrainerCallback):
    """Watches the model that is trained; arguments as of `tapedeck.watch`. Steps are the trainer's ``global_step``.
    What the trainer logs is recorded too: an evaluation before training in the first step, one after it in a step of its
    own. The training arguments and the model's config are the run's config."""

    _early: dict[str, float] = {}  # what was logged before training

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_: Any) -> None:
        self._start(model, optimizer, math.floor(state.epoch or 0) + 1, state.global_step)
        self._begin(args, model)

    @guarded
    def _begin(self, args: Any, model: Any) -> None:
        given = self._options.get("config") or {}
        config = getattr(model, "config", None)
        settings = args.to_sanitized_dict() if hasattr(args, "to_sanitized_dict") else {}
        if hasattr(config, "to_dict"):
            settings["model"] = config.to_dict()
        known = given if isinstance(given, Mapping) else vars(given)
        self.deck._about(None, None, None, {key: value for key, value in settings.items() if key not in known})
        self.deck.log(self._early)
        self._early = {}

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
        values = {name: value for name, value in (logs or {}).items() if isinstance(value, (int, float))}
        if self.deck is None:
            self._early = {**self._early, **values}
        elif not self.deck._finished:
            self.deck.log(values)
        elif state.is_world_process_zero:
            with Deck(self.deck.folder, resume=True, environment=False, system=0) as deck:
                deck.log(values, step=deck.steps + 1)

    @guarded
    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._end()


def register(folder: str | os.PathLike[str] = "runs/run", **options: Any) -> None:
    """Makes ``report_to="tapedeck"`` of ``TrainingArguments`` (and of TRL's configs) add a `Recorder` with these
    arguments to every trainer that is made afterwards.

    >>> tapedeck.transformers.register("runs/a", every=100)
    >>> args = TrainingArguments(report_to="tapedeck")
    """
    from transformers.integrations import integration_utils

    class Registered(Recorder):
        def __init__(self) -> None:
            super().__init__(folder, **options)

    integration_utils.INTEGRATION_TO_CALLBACK["tapedeck"] = Registered
