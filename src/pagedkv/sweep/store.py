"""Results on disk: one JSON file a configuration, named by its content key.

A file is whole or not there: it is written beside its place and moved into it. One that is damaged all the same (by a
disk, by hand) is as good as missing. Several sweeps may use one folder at once: equal keys have equal contents.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from pagedkv.errors import InvalidArgumentError
from pagedkv.sweep.keys import SCHEMA, digest_of_json
from pagedkv.sweep.program import Document
from pagedkv.whole_file import whole_file


class ResultStore:
    """A folder of results, made with the first of them. Errors: InvalidArgumentError for one that cannot be written."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self._folder = Path(folder)

    @property
    def folder(self) -> Path:
        """Where the results are."""
        return self._folder

    def open(self) -> None:
        """Make the folder, and see that it can be written. What a run costs is not spent on a store that is none."""
        with self._told():
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._folder) as file:
                file.write(b"\n")

    def load(self, key: str) -> Document | None:
        """Return the result of a key; None if there is none that is whole. Changes nothing."""
        try:
            entry = json.loads(self._file(key).read_bytes())
        except (OSError, RecursionError, ValueError):
            return None
        if not isinstance(entry, dict) or (entry.get("schema"), entry.get("key")) != (SCHEMA, key):
            return None
        document = entry.get("document")
        try:
            whole = isinstance(document, dict) and entry.get("sha256") == digest_of_json(document)
        except ValueError:  # NaN
            return None
        return document if whole else None

    def save(self, key: str, document: Document) -> None:
        """Keep a result, whole or not at all."""
        entry = {"schema": SCHEMA, "key": key, "sha256": digest_of_json(document), "document": document}
        with self._told(), whole_file(self._file(key)) as stream:
            stream.write(f"{json.dumps(entry, indent=1, allow_nan=False)}\n".encode())

    def _file(self, key: str) -> Path:
        return self._folder / f"{key}.json"

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InvalidArgumentError(
                f"results cannot be stored in {str(self._folder)!r} ({reason}); give a folder that can be written"
            ) from error
