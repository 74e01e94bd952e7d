"""PyTorch-Ignite: ``tapedeck.ignite.Logger(trainer, "runs/a")``, attached as Ignite's own loggers are."""

from __future__ import annotations

import os
from typing import Any

from ignite.handlers.base_logger import BaseLogger, BaseOptimizerParamsHandler, BaseOutputHandler

from ._session import Session
from .deck import Deck, _state_of


class OutputHandler(BaseOutputHandler):  # type: ignore[misc]
    """Logs an engine's output and metrics as ``TAG/NAME``."""

    def __call__(self, engine: Any, logger: "Logger", event_name: Any) -> None:
        logger.log(self._setup_output_metrics_state_attrs(engine, log_text=True, key_tuple=False))


class OptimizerParamsHandler(BaseOptimizerParamsHandler):  # type: ignore[misc]
    """Logs an option of each of an optimizer's groups as ``[TAG/]NAME/group_N``."""

    def __call__(self, engine: Any, logger: "Logger", event_name: Any) -> None:
        before = f"{self.tag}/" if self.tag else ""
        logger.log({f"{before}{self.param_name}/group_{index}": float(group[self.param_name])
                    for index, group in enumerate(self.optimizer.param_groups)})


class Logger(BaseLogger):  # type: ignore[misc]
    """Records what engines put out and measure, and on request what happens inside a model, in one run.

    >>> logger = tapedeck.ignite.Logger(trainer, "runs/a")
    >>> logger.attach_output_handler(trainer, Events.ITERATION_COMPLETED, tag="train", output_transform=lambda loss: {"loss": loss})
    >>> logger.attach_output_handler(evaluator, Events.COMPLETED, tag="validation", metric_names="all")
    >>> logger.watch(model, optimizer, every=100)
    >>> trainer.run(loader, max_epochs=3)
    >>> logger.close()

    Every value is recorded in the step that is the trainer's iteration when it is logged, whichever engine and event it
    comes from: there is no ``global_step_transform``.

    Args:
        trainer: the engine that trains.
        folder: where the run is written; ``FOLDER-2``, … when that exists.
        name, group, tags, …: as of `tapedeck.Deck`.
    """

    def __init__(self, trainer: Any, folder: str | os.PathLike[str] = "runs/run", **options: Any) -> None:
        self._trainer = trainer
        self.session = Session(Deck(folder, **options))

    def log(self, values: dict[str, Any]) -> None:
        """Logs numbers, pictures, … as `tapedeck.log` does; before the first iteration they are part of it."""
        state = self._trainer.state
        self.session.log(values, step=max(1, state.iteration), epoch=max(1, state.epoch))

    def watch(self, model: Any, optimizer: Any = None, **options: Any) -> None:
        """Records what happens inside a model; arguments as of `tapedeck.watch`."""
        self.session.watch(model, optimizer, **options)

    def _create_output_handler(self, *arguments: Any, **options: Any) -> OutputHandler:
        if len(arguments) > 3 or options.get("global_step_transform") is not None:
            raise TypeError("there is no global_step_transform: steps are the trainer's iterations")
        return OutputHandler(*arguments, **options)

    def _create_opt_params_handler(self, *arguments: Any, **options: Any) -> OptimizerParamsHandler:
        return OptimizerParamsHandler(*arguments, **options)

    def close(self) -> None:
        self.session.finish()

    def __exit__(self, kind: type | None, value: BaseException | None, traceback: Any) -> None:
        self.session._finish(_state_of(value))
