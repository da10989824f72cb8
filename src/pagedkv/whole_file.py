"""A file that is there whole, or as it was before: written beside it, and put into its place at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(target: Path) -> Iterator[BinaryIO]:
    """Give a stream whose content is `target` when the block ends; what raises in it leaves the old one, or none.

    Of a link, what it names. A file that is there keeps its mode. Two processes may write one file: the last one wins.
    Errors: OSError; ValueError for a name that cannot be one.
    """
    path = target.resolve()
    made = path.with_name(f".pagedkv-{os.getpid()}-{path.name[:40]}")
    try:
        with made.open("xb") as stream:
            yield stream
        if path.exists():
            made.chmod(path.stat().st_mode & 0o777)
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)
