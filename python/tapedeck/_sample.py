"""Samples of a validation set: the true label beside what the model says."""

from __future__ import annotations

from typing import Any

import numpy

from ._grad import _numpy


class Sampler:
    """Goes with a deck; draws other rows each time, the same ones for the same seed."""

    def __init__(self, deck: Any, x: Any, y: Any, *, n: int, every: int, every_epochs: int, predict: Any, to: Any) -> None:
        self.deck = deck
        self.x, self.y = x, y
        self.n = min(n, len(x))
        self.every, self.every_epochs = every, 0 if every else every_epochs
        self.predict = predict or _model_of(deck)
        self.random = numpy.random.default_rng(0)
        self.ending = False
        deck.track("prediction", every=every, every_epochs=self.every_epochs, form="rows", to=to)

    def before_step(self) -> bool:
        step = self.deck._closing
        by_epoch = self.every_epochs and self.deck._ends_epoch and self.deck.epoch % self.every_epochs == 0
        if by_epoch or (self.every and step % self.every == 0):
            self.draw()
        return True

    def draw(self) -> None:
        rows = numpy.sort(self.random.choice(len(self.x), self.n, replace=False))
        prediction = _numpy(self.predict(self.x[rows]))
        labels = None if self.y is None else numpy.ascontiguousarray(_numpy(self.y)[rows])
        self.deck.batch(rows, labels)
        self.deck.record("prediction", numpy.ascontiguousarray(prediction))

    def after_step(self) -> None:
        pass

    def finish(self) -> None:
        pass


def _model_of(deck: Any) -> Any:
    """The model that is watched, in evaluation mode."""
    watched = [part.model for part in deck._parts if hasattr(part, "model")]
    if not watched:
        raise ValueError("this deck watches no model: give predict, a function from inputs to predictions")
    model = watched[0]

    def predict(x: Any) -> Any:
        import torch

        modes = [(module, module.training) for module in model.modules()]  # layers may be frozen in evaluation mode
        model.eval()
        try:
            with torch.no_grad():
                return model(torch.as_tensor(x))
        finally:
            for module, training in modes:
                module.training = training

    return predict
