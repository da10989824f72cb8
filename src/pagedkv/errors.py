"""Every error that pagedkv raises. Whoever raises one has changed nothing.

The message says what was asked, what there is and what to do; the numbers are attributes.
"""

from __future__ import annotations

from pagedkv._core import (
    InvalidArgumentError,
    NeverFitsError,
    OutOfBlocksError,
    PagedKVError,
    SequenceStateError,
)

__all__ = [
    "BackendError",
    "InvalidArgumentError",
    "NeverFitsError",
    "OutOfBlocksError",
    "PagedKVError",
    "SequenceStateError",
    "TraceError",
]


class BackendError(PagedKVError):
    """A device, driver or memory operation failed.

    Attributes: name (the driver's error name, or our own), text (what it means), call (what failed).
    """

    def __init__(self, name: str, text: str, call: str) -> None:
        super().__init__(name, text, call)
        self.name, self.text, self.call = name, text, call

    def __str__(self) -> str:
        return f"{self.call} failed with {self.name}: {self.text}"


class TraceError(PagedKVError):
    """A request trace could not be read.

    Attributes: file (path), row (of data, from 1; blank lines count, the header does not; or None), column (its name,
    or None).
    """

    def __init__(self, text: str, file: str, row: int | None = None, column: str | None = None) -> None:
        super().__init__(text, file, row, column)
        self.text, self.file, self.row, self.column = text, file, row, column

    def __str__(self) -> str:
        where = self.file if self.row is None else f"{self.file}, row {self.row}"
        if self.column is not None:
            where += f", column {self.column}"
        return f"{where}: {self.text}"
