"""Content keys: what decides a result, and nothing else, goes into its key.

A key is SHA-256 of canonical JSON of all options (defaults included, files by their content and not by their name), the
versions of the program, and the store's schema. So a renamed trace finds its results, and a changed one does not.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from pagedkv.sweep.program import Configuration, Program, files_of, resolved

SCHEMA = 1
_CHUNK = 1 << 20


def content_key(program: Program, configuration: Configuration) -> str:
    """Return the key of a configuration's result. Reads its files. Errors: OSError, ValueError (a NUL in a name)."""
    options = resolved(program, configuration)
    files = files_of(program, options)
    whole = {name: options.get(name, option.default) for name, option in program.options.items()}
    told = whole | {
        name: {"sha256": digest_of(path), "around": str(options[name]).replace(path, "")}
        for name, path in files.items()
    }
    return digest_of_json({"schema": SCHEMA, "versions": dict(program.versions), "options": told})


def digest_of_json(value: Any) -> str:
    """SHA-256 of canonical JSON: sorted keys, no white space, no NaN. Pure."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of(path: str) -> str:
    """SHA-256 of a file's bytes; of a folder, of the sessions in it in the order of their names. Errors: OSError."""
    place = Path(path)
    if not place.is_dir():
        return _digest(*_state(place))
    sessions = sorted(file for file in place.iterdir() if file.name.endswith((".json", ".json.gz")))
    return digest_of_json([_digest(*_state(file)) for file in sessions])


def _state(file: Path) -> tuple[str, int, int]:
    state = file.stat()
    return str(file), state.st_mtime_ns, state.st_size


@lru_cache(maxsize=4096)  # a grid names one file a thousand times; what was written since has another time or size
def _digest(file: str, changed_ns: int, size: int) -> str:
    digest = hashlib.sha256()
    with Path(file).open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
