"""What the callbacks of PyTorch trainers have in common: steps that are the trainer's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ._options import WatchOptions
from ._torch import watch

if TYPE_CHECKING:
    from typing import Unpack  # of Python 3.11


class TrainerSteps:
    """Watches a model for a trainer. A step is closed when the next one begins: what is logged of it, and whether it was
    its epoch's last, is known after its end. Numbers are the trainer's; in a run that is resumed they go on."""

    def __init__(self, folder: str | os.PathLike[str] = "runs/run", **options: Unpack[WatchOptions]) -> None:
        self._folder, self._options = folder, options
        self._own = options.get("deck") is None
        self.deck: Any = None
        self._gave_up = False
        self._parts: list[Any] = []  # of the deck, that watch the model
        self._trained: tuple[int, int] | None = None  # epoch and step that are not closed yet
        self._ends_epoch = False

    def _start(self, model: Any, optimizer: Any, epoch: int, steps: int) -> None:
        """Begins after `steps` steps, in this epoch (from 1)."""
        if self.deck is not None:
            self._give_up("interrupted")  # by an exception in an earlier training
        self._gave_up, self._trained, self._ends_epoch = False, None, False
        before = [] if self._own else list(self._options["deck"]._parts)
        deck = self.deck = watch(model, self._folder, optimizer=optimizer, **self._options)
        self._parts = [part for part in deck._parts if part not in before]
        self._step_offset = max(0, deck.steps - steps)
        self._epoch_offset = max(0, deck.epoch - epoch)
        if deck.steps < steps:  # the trainer resumed, in a new run
            deck.steps = steps
        deck.epoch = epoch + self._epoch_offset
        deck._is_driven = True
        for part in self._parts:
            if hasattr(part, "inferring"):
                part.inferring = False  # the trainer says when a step ends
            part.after_step()  # is the step that is open now due?

    def _close(self) -> None:
        if self._trained:
            epoch, step = self._trained
            self._trained = None
            self.deck.step(epoch=epoch + self._epoch_offset, step=step + self._step_offset, last=self._ends_epoch)
            self._ends_epoch = False

    def _end(self, state: str | None = None) -> None:
        self._close()
        self._give_up(state)

    def _give_up(self, state: str | None = None) -> None:
        """A deck that was given is the user's to finish; it no longer watches the model."""
        self.deck._is_driven = False
        if self._own:
            self.deck.finish(state)
        else:
            for part in self._parts:
                if part in self.deck._parts and hasattr(part, "leave"):
                    part.leave()
            self._parts = []
