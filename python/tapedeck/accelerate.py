"""Hugging Face Accelerate: ``Accelerator(log_with=tapedeck.accelerate.Tracker("runs/a"))``."""

from __future__ import annotations

import os
from typing import Any

from accelerate.tracking import GeneralTracker, on_main_process

from ._session import Session
from .deck import Deck


class Tracker(GeneralTracker):  # type: ignore[misc]
    """Records what ``accelerator.log`` logs, and the config of ``accelerator.init_trackers`` as the run's, on the main
    process. Steps are those that are logged: see `tapedeck.Session.log`.

    Args:
        folder: where the run is written; ``FOLDER-2``, … when that exists.
        name, group, tags, …: as of `tapedeck.Deck`.
    """

    name = "tapedeck"
    requires_logging_directory = False
    main_process_only = True

    def __init__(self, folder: str | os.PathLike[str] = "runs/run", **options: Any) -> None:
        super().__init__()
        self._folder, self._options = os.fspath(folder), options
        self.session: Session | None = None
        self.start()

    @on_main_process
    def start(self) -> None:
        if self.session is None:
            self.session = Session(Deck(self._folder, **self._options))

    @property
    def tracker(self) -> Session | None:
        """The run, on the main process."""
        return self.session

    @on_main_process
    def store_init_configuration(self, values: dict[str, Any]) -> None:
        assert self.session is not None
        self.session.config.update(values)

    @on_main_process
    def log(self, values: dict[str, Any], step: int | None = None, **_: Any) -> None:
        assert self.session is not None
        self.session.log(values, step=step)

    @on_main_process
    def log_images(self, values: dict[str, Any], step: int | None = None, **_: Any) -> None:
        """Records pictures: for each name a list of them."""
        from ._session import Image

        assert self.session is not None
        self.session.log({name: [Image(image) for image in images] for name, images in values.items()}, step=step)

    @on_main_process
    def log_table(self, table_name: str, columns: list[str] | None = None, data: Any = None, dataframe: Any = None,
                  step: int | None = None, **_: Any) -> None:
        from ._session import Table

        assert self.session is not None
        self.session.log({table_name: Table(data, columns, dataframe=dataframe)}, step=step)

    @on_main_process
    def finish(self) -> None:
        assert self.session is not None
        self.session.finish()
