"""The files of a command are kept apart: what it writes is not what it reads."""

from __future__ import annotations

from pathlib import Path

from pagedkv.errors import InvalidArgumentError


def keep_apart(read: dict[str, str | None], written: dict[str, str | None]) -> None:
    """Refuse to write a file over one that is read, or over another that is written. Keys: options; None: not given,
    "-": no file.

    Errors: InvalidArgumentError.
    """
    taken = {option: file for option, file in read.items() if file is not None}
    for option, file in written.items():
        if file is None or file == "-":
            continue
        for other, name in taken.items():
            if _same(name, file):
                what = "the trace itself" if other == "--trace" else f"{other}'s file"
                raise InvalidArgumentError(f"{option} {file} is {what}; give another file")
        taken[option] = file


def exists(path: str) -> bool:
    """Whether there is such a file or folder; False for what cannot be one (a name that is too long, say)."""
    try:
        return path != "" and Path(path).exists()
    except (OSError, ValueError):
        return False


def _same(one: str, other: str) -> bool:
    try:
        return Path(one).resolve() == Path(other).resolve() or Path(one).samefile(other)
    except (OSError, ValueError):  # one of them is not there, or no file name at all: others say so
        return False
