"""The JSON document of a run: its shape, its version, and where it is written.

{"schema": 1, "command", "outcome", "versions", "command_line", "device", "config", "figures", "rejections", "trace",
 "verification", "history", "failures", "notes"}. Names and units of `figures` never change within a schema. No NaN or
infinity anywhere.
"""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeAlias

from pagedkv.report.json_text import json_text
from pagedkv.report.output_file import OutputFile

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


def command_line(arguments: Sequence[str] | None = None) -> str:
    """Return the command as a shell would take it again: this process's by default, under the program's own name."""
    return shlex.join(["pagedkv", *(sys.argv[1:] if arguments is None else arguments)])


class JsonFile:
    """Where a document goes: a file, or standard output ("-").

    Opened before the run, so a path that cannot be written costs no run; what a file holds stays until `write`. Errors:
    InvalidArgumentError for a path that cannot be opened or written.
    """

    def __init__(self, target: str) -> None:
        self.is_stdout = target == "-"
        self._file = None if self.is_stdout else OutputFile(target, "JSON file", "give a writable path, or -")

    def write(self, document: Document) -> None:
        """Write the whole document, two spaces a level, a row of numbers on a line, with a final newline."""
        text = json_text(document) + "\n"
        if self._file is None:
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            self._file.write(text.encode("ascii"))

    def discard(self) -> None:
        """Remove the empty file that opening made, if the run ended without a document."""
        if self._file is not None:
            self._file.discard()
