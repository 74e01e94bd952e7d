"""skorch: ``NeuralNetClassifier(…, callbacks=[tapedeck.skorch.Recorder("runs/a")])``."""

from __future__ import annotations

import os
from typing import Any

from skorch.callbacks import Callback

from ._guard import guarded
from ._trainer import TrainerSteps


class Recorder(TrainerSteps, Callback):  # type: ignore[misc]
    """Watches the module that is trained; arguments as of `tapedeck.watch`. A step is a batch of training, ``loss`` its loss.
    The numbers of the net's history are recorded in the last step of their epoch, under their names there.

    Each call of ``fit`` or ``partial_fit`` is a run of its own; with ``resume=True`` the next one goes on with the run.
    A net with this callback may be cloned and pickled: the copy records nothing until it is trained.
    """

    def __init__(self, folder: str | os.PathLike[str] = "runs/run", **options: Any) -> None:
        super().__init__(folder, **options)

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **_: Any) -> None:
        optimizers = [getattr(net, f"{name}_") for name in net._optimizers]
        self._start(net.module_, optimizers, 1, 0)
        self._count, self._epoch = 0, 1

    @guarded
    def on_batch_begin(self, net: Any, batch: Any = None, training: bool | None = None, **_: Any) -> None:
        if training:
            self._close()

    @guarded
    def on_batch_end(self, net: Any, batch: Any = None, training: bool | None = None, loss: Any = None, **_: Any) -> None:
        if training:
            self._count += 1
            self.deck.log(loss=loss.detach())
            self._trained = (self._epoch, self._count)

    @guarded
    def on_epoch_end(self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **_: Any) -> None:
        row = net.history[-1]
        self.deck.log({name: value for name, value in row.items() if isinstance(value, (int, float)) and name != "epoch"})
        self._ends_epoch = self._trained is not None
        self._epoch += 1

    @guarded
    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **_: Any) -> None:
        self._end()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"folder": self._folder, **self._options}

    def set_params(self, **params: Any) -> "Recorder":
        self._folder = params.pop("folder", self._folder)
        self._options.update(params)  # type: ignore[typeddict-item]
        return self

    def __getstate__(self) -> dict[str, Any]:
        return self.get_params()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
