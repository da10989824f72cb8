"""A file that a command writes at its end, and proves writable at its start."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from pagedkv.errors import InvalidArgumentError
from pagedkv.whole_file import whole_file


class OutputFile:
    """Opened before the run, so a path that cannot be written costs no run; what a file holds stays until `write`.

    target: its path; what: how messages name it; advice: what they say to do. Errors: InvalidArgumentError for a path
    that cannot be opened or written.
    """

    def __init__(self, target: str, what: str, advice: str) -> None:
        self._target, self._what, self._advice = target, what, advice
        self._created = False
        self._check()

    def write(self, content: bytes) -> None:
        """Replace what the file holds, by all of it or by nothing."""
        path = Path(self._target)
        try:
            # Devices and pipes have no place beside them, and a folder may allow no other file.
            if path.is_file() and os.access(path.resolve().parent, os.W_OK):
                with whole_file(path) as stream:
                    stream.write(content)
            else:
                path.write_bytes(content)
            self._created = False  # no empty file any more: it stays
        except OSError as error:
            raise self._error(error.strerror) from error

    def discard(self) -> None:
        """Remove the empty file that opening made, or what was written of it, if there is no whole result."""
        if self._created:
            Path(self._target).unlink(missing_ok=True)

    def _check(self) -> None:
        path = Path(self._target)
        if not self._target or "\0" in self._target:
            raise self._error("no file name")
        try:
            self._created = not path.exists()
            with path.open("ab", buffering=0) as file:
                _probe(file)
        except OSError as error:
            self.discard()
            self._created = False
            raise self._error(error.strerror) from error

    def _error(self, reason: str | None) -> InvalidArgumentError:
        return InvalidArgumentError(f"{self._what} {self._target!r} cannot be written ({reason}); {self._advice}")


def _probe(file: BinaryIO) -> None:
    """Opening proves little: a full disk or device refuses the first byte. Write one, and take it back."""
    mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISREG(mode):
        end = file.seek(0, os.SEEK_END)
        file.write(b"\n")
        file.truncate(end)
    elif stat.S_ISCHR(mode):
        file.write(b"\n")  # white space before JSON or HTML means nothing
