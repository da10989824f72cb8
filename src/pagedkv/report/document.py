"""The JSON document of a run: its shape, its version, and where it is written.

{"schema": 1, "command", "outcome", "versions", "device", "config", "figures", "rejections", "trace", "verification",
 "history", "failures", "notes"}. Names and units of `figures` never change within a schema.
No NaN or infinity anywhere.
"""

from __future__ import annotations

import os
import platform
import stat
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from pagedkv.errors import InvalidArgumentError
from pagedkv.report.json_text import json_text

SCHEMA = 1
Document: TypeAlias = dict[str, Any]


def versions() -> dict[str, str]:
    """Return the versions that decide what a run does."""
    return {
        "pagedkv": package_version("pagedkv") or "not installed",
        "python": platform.python_version(),
        "numpy": package_version("numpy") or "not installed",
        "platform": platform.platform(),
    }


def package_version(name: str) -> str | None:
    """Return the installed version of a distribution, or None. Imports nothing of it."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _probe(file: BinaryIO) -> None:
    """Opening proves little: a full disk or device refuses the first byte. Write one, and take it back."""
    mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISREG(mode):
        end = file.seek(0, os.SEEK_END)
        file.write(b"\n")
        file.truncate(end)
    elif stat.S_ISCHR(mode):
        file.write(b"\n")  # white space before JSON means nothing


class JsonFile:
    """Where a document goes: a file, or standard output ("-").

    Opened before the run, so a path that cannot be written costs no run; what a file holds stays until `write`. Errors:
    InvalidArgumentError for a path that cannot be opened or written.
    """

    def __init__(self, target: str) -> None:
        self.is_stdout = target == "-"
        self._target = target
        self._created = False
        if not self.is_stdout:
            self._check()

    def write(self, document: Document) -> None:
        """Write the whole document, two spaces a level, a row of numbers on a line, with a final newline."""
        text = json_text(document) + "\n"
        if self.is_stdout:
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        try:
            Path(self._target).write_text(text, encoding="utf-8")
        except OSError as error:
            raise self._error(error.strerror) from error

    def discard(self) -> None:
        """Remove the empty file that opening made, if the run ended without a document."""
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
        return InvalidArgumentError(
            f"JSON file {self._target!r} cannot be written ({reason}); give a writable path, or -"
        )
