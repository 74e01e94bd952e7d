"""PyTorch Lightning's ``Trainer(logger=tapedeck.lightning.Logger("runs/a"))``: what the module logs, as a run."""

from __future__ import annotations

import os
from typing import Any

try:
    from lightning.fabric.loggers.logger import rank_zero_experiment
    from lightning.fabric.utilities.logger import _convert_params, _flatten_dict
    from lightning.fabric.utilities.rank_zero import rank_zero_only
    from lightning.pytorch.loggers.logger import Logger as LightningLogger
except ImportError:
    from lightning_fabric.loggers.logger import rank_zero_experiment
    from lightning_fabric.utilities.logger import _convert_params, _flatten_dict
    from lightning_fabric.utilities.rank_zero import rank_zero_only
    from pytorch_lightning.loggers.logger import Logger as LightningLogger

from ._session import Session
from .deck import Deck


class Logger(LightningLogger):  # type: ignore[misc]
    """Records what a Lightning module logs, and its hyperparameters as the run's config.

    It replaces ``CSVLogger`` and ``TensorBoardLogger``: the run holds both kinds of files. What happens inside the module
    (errors, outputs, gradients, weights, of all optimizers) is recorded by `tapedeck.lightning.Recorder`, to which
    ``deck=logger.experiment.deck`` gives the same run.

    Lightning counts steps from 0 and Tapedeck from 1: what Lightning logs for step N is recorded in step N + 1, which is
    the one that `Recorder` records the batch in. Lightning's ``epoch`` counts from 0 as well, and is recorded as it is.

    Args:
        folder: where the run is written; ``FOLDER-2``, … when that exists.
        name, group, tags, …: as of `tapedeck.Deck`.
    """

    def __init__(self, folder: str | os.PathLike[str] = "runs/run", **options: Any) -> None:
        super().__init__()
        self._folder, self._options = os.fspath(folder), options
        self._session: Session | None = None

    @property
    @rank_zero_experiment
    def experiment(self) -> Session:
        """The run, on rank 0: ``experiment.log({"sample": tapedeck.Image(…)}, step=…)``."""
        if self._session is None:
            self._session = Session(Deck(self._folder, **self._options), first_step=0)
        return self._session

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        epoch = metrics.get("epoch")
        self.experiment.log(metrics, step=step, epoch=None if epoch is None else int(epoch) + 1)

    @rank_zero_only
    def log_hyperparams(self, params: Any, *_: Any, **__: Any) -> None:
        self.experiment.config.update(_flatten_dict(_convert_params(params)))

    @rank_zero_only
    def log_image(self, key: str, images: list[Any], step: int | None = None, **_: Any) -> None:
        from ._session import Image

        self.experiment.log({f"{key}.{index}": Image(image) for index, image in enumerate(images)}, step=step)

    @rank_zero_only
    def log_text(self, key: str, text: str, step: int | None = None) -> None:
        self.experiment.log({key: text}, step=step)

    @rank_zero_only
    def save(self) -> None:
        """Everything of closed steps is safe on disk."""
        if self._session is not None and not self._session._finished:
            self._session.deck.flush()

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Lightning calls it after each of fit, test and predict: the run stays open for the next, unless it failed."""
        if self._session is not None and not self._session._finished:
            if status == "failed":
                self._session.finish(1)
            else:
                self._session._waiting.close()
                self._session.deck.flush()

    @property
    def name(self) -> str:
        return os.path.basename(self._folder)

    @property
    def version(self) -> str:
        return os.path.basename(self.log_dir or self._folder)

    @property
    def save_dir(self) -> str:
        return os.path.dirname(self._folder) or "."

    @property
    def log_dir(self) -> str | None:
        return self._session.dir if self._session is not None else None
