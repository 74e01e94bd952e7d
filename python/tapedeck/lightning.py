"""PyTorch Lightning: ``Trainer(callbacks=[tapedeck.lightning.Recorder("runs/a")])``."""

from __future__ import annotations

import os
from typing import Any, Unpack

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from ._options import WatchOptions
from ._torch import watch


class Recorder(Callback):
    """Watches the module that is trained; arguments as of `tapedeck.watch`. What the module logs is recorded too."""

    def __init__(self, folder: str | os.PathLike[str] = "runs/run", **options: Unpack[WatchOptions]) -> None:
        self._folder, self._options = folder, options
        self.deck: Any = None

    def on_train_start(self, trainer: Any, module: Any) -> None:
        self.deck = watch(module, self._folder, optimizer=trainer.optimizers[0] if trainer.optimizers else None,
                          **self._options)

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.deck.epoch = trainer.current_epoch + 1
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:
            self.deck.log(loss=loss.detach() if hasattr(loss, "detach") else loss)
        self.deck.log({name: value for name, value in trainer.logged_metrics.items() if name != "loss"})
        self.deck.step(last=bool(trainer.is_last_batch))
        self.deck.epoch = trainer.current_epoch + 1

    def on_train_end(self, trainer: Any, module: Any) -> None:
        self.deck.finish()

    def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
        if self.deck is not None:
            self.deck.finish("interrupted" if isinstance(exception, KeyboardInterrupt) else "failed")
