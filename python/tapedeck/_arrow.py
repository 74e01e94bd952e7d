"""What a run recorded as tables of Arrow, without pyarrow: pyarrow, polars, pandas and DuckDB take the objects as they are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    from .run import Run

FORMS = ("scalar", "tensor", "rows", "stats", "histogram", "text")


class ArrowTable:
    """A table that is read when another package asks for it, through Arrow's interface for C.

    >>> pyarrow.table(run.to_arrow())            # doctest: +SKIP
    >>> polars.DataFrame(run.to_arrow("stats"))  # doctest: +SKIP
    """

    def __init__(self, run: "Run", what: str | None, form: str, signal: str | None = None) -> None:
        if form not in FORMS:
            raise ValueError(f"{form!r} is no form of a table: {', '.join(FORMS)}")
        self._run, self._what, self._form, self._signal = run, what, form, signal

    def __repr__(self) -> str:
        return f"<tapedeck.ArrowTable of {self._run.folder}: {self._form} of {self._signal or self._what or '*'}>"

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows, as a capsule. They have the types that they were recorded in: a requested schema is not looked at."""
        values = self._run[self._signal]._mapped() if self._signal and self._form == "tensor" else None
        return self._run._native.arrow(self._what, _native.FORMS[self._form], values)

    def to_parquet(self, path: str | os.PathLike[str]) -> str:
        """Writes the table as a Parquet file, which needs pyarrow; the file's path."""
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as error:
            raise ImportError("Parquet files are written by pyarrow, which is not installed: pip install pyarrow") from error
        table = pyarrow.table(self)
        target = os.fspath(path)
        hidden = f"{target}.part"
        try:
            parquet.write_table(table, hidden)
            os.replace(hidden, target)
        finally:
            if os.path.exists(hidden):
                os.unlink(hidden)
        return target
