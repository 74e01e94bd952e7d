"""PyTorch Lightning: ``Trainer(callbacks=[tapedeck.lightning.Recorder("runs/a")])`` for what happens inside the module,
``Trainer(logger=tapedeck.lightning.Logger("runs/a"))`` for what it logs."""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from ._guard import guarded
from ._lightning_logger import Logger as Logger
from ._trainer import TrainerSteps


class Recorder(TrainerSteps, Callback):
    """Watches the module that is trained; arguments as of `tapedeck.watch`. All of its optimizers are watched.

    A step is a batch, or several that are accumulated, after which an optimizer stepped: with one optimizer it is
    Lightning's ``global_step``. ``loss`` is the mean over the step's batches of what ``training_step`` returned. What the
    module logs is recorded when it is logged: values of an epoch, such as ``val_loss``, in the epoch's last step.
    """

    @guarded
    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
        self._close_step(trainer)

    def on_train_start(self, trainer: Any, module: Any) -> None:
        done = getattr(trainer.fit_loop.epoch_loop, "_batches_that_stepped", trainer.global_step)
        self._start(module, list(trainer.optimizers) or None, trainer.current_epoch + 1, done)
        self._global_step, self._count = trainer.global_step, done
        self._losses: list[Any] = []  # of the step's batches
        self._seen: dict[str, Any] = dict(trainer.logged_metrics)  # values that were logged before

    @guarded
    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:
            self._losses.append(loss.detach() if hasattr(loss, "detach") else loss)
        if trainer.global_step == self._global_step and not any(getattr(part, "stepped", None) for part in self.deck._parts):
            return  # more batches follow
        self._global_step = trainer.global_step
        self._count += 1
        self._log_loss(trainer.accumulate_grad_batches if module.automatic_optimization else 1)
        self._log_new(trainer)
        self._trained = (trainer.current_epoch + 1, self._count)

    @guarded
    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        self._ends_epoch = self._trained is not None

    @guarded
    def on_train_end(self, trainer: Any, module: Any) -> None:
        self._close_step(trainer)
        self._end()

    @guarded
    def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
        if self.deck is not None:
            self._close_step(trainer)
            self._end("interrupted" if isinstance(exception, KeyboardInterrupt) else "failed")

    def _close_step(self, trainer: Any) -> None:
        if self._trained:
            self._log_new(trainer)
        self._close()

    def _log_loss(self, divided_by: int) -> None:
        """Lightning has divided losses of automatic optimisation by the batches that are accumulated."""
        losses, self._losses = self._losses, []
        if losses:
            total = sum(losses[1:], losses[0])
            self.deck.log(loss=total if len(losses) == divided_by else total * (divided_by / len(losses)))

    def _log_new(self, trainer: Any) -> None:
        """``logged_metrics`` keeps what was logged once: a value that is new has memory of its own."""
        for name, value in trainer.logged_metrics.items():
            before = self._seen.get(name)
            if before is None or value.data_ptr() != before.data_ptr():
                self._seen[name] = value
                if name != "loss":
                    self.deck.log({name: value})
