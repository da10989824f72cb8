"""Writing a workload as a trace of pagedkv's own format, so that reading it back gives the same requests."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO

from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate.traces.json_rows import TICKS_PER_MS
from pagedkv.simulate.traces.own import ARRIVAL, HEADER, OUTPUT, PROMPT, VERSION
from pagedkv.simulate.workload import Workload
from pagedkv.whole_file import whole_file

ROWS_A_WRITE = 4096


def write_trace(workload: Workload, file: str | Path) -> None:
    """Write the requests, packed with gzip if the name ends in .gz. The file is there whole, or as it was before.

    Errors: InvalidArgumentError for a file that cannot be written, and for no requests.
    """
    if not len(workload):
        raise InvalidArgumentError("there are no requests to save; a trace has at least one")
    if not str(file) or "\0" in str(file):
        raise _error(file, "no file name")
    try:
        target = Path(file).resolve()  # of a link, what it names
        if target.exists() and not target.is_file():
            raise _error(file, "no regular file")
        with whole_file(target) as stream:
            _write(workload, stream, packed=target.suffix == ".gz")
    except OSError as error:
        raise _error(file, error.strerror) from error


def _write(workload: Workload, stream: IO[bytes], *, packed: bool) -> None:
    if packed:
        with gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0) as target:
            _write_lines(workload, target)
    else:
        _write_lines(workload, stream)


def _write_lines(workload: Workload, stream: IO[bytes] | gzip.GzipFile) -> None:
    rows = _rows(workload)
    stream.write((json.dumps(_header(workload)) + "\n").encode("ascii"))
    while some := "".join(islice(rows, ROWS_A_WRITE)):
        stream.write(some.encode("ascii"))


def _header(workload: Workload) -> dict[str, int]:
    header = {HEADER: VERSION}
    return header if workload.identities is None else header | {"tokens_per_id": workload.identities.tokens_per_id}


def _rows(workload: Workload) -> Iterator[str]:
    times = None if workload.arrival_ticks is None else workload.arrival_ticks.tolist()
    said = _said(workload)
    lengths = zip(workload.prompt_tokens.tolist(), workload.output_tokens.tolist(), strict=True)
    for request, (prompt, output) in enumerate(lengths):
        time = "" if times is None else f'"{ARRIVAL}": {_milliseconds(times[request])}, '
        yield f'{{{time}"{PROMPT}": {prompt}, "{OUTPUT}": {output}{next(said, "")}}}\n'


def _milliseconds(ticks: int) -> str:
    whole, rest = divmod(ticks, TICKS_PER_MS)
    return f"{whole}.{rest:04d}".rstrip("0").rstrip(".")


def _said(workload: Workload) -> Iterator[str]:
    """Yield what each row says of its prompt's contents; nothing at all if nothing is known."""
    if workload.identities is not None:
        for request in range(len(workload)):
            yield f', "hash_ids": {workload.identities.of(request).tolist()}'
    known = workload.conversations
    if known is None:
        return
    following, first = known.next_turns().tolist(), list(range(len(known)))
    rows = zip(known.parent.tolist(), known.prefix.tolist(), known.prefix_tokens.tolist(), strict=True)
    for request, (parent, prefix, tokens) in enumerate(rows):
        if parent >= 0:
            first[request] = first[parent]
        session = f', "session": {first[request]}' if parent >= 0 or following[request] >= 0 else ""
        yield session + (f', "prefix": {prefix}, "prefix_tokens": {tokens}' if prefix >= 0 and tokens else "")


def _error(file: str | Path, reason: str | None) -> InvalidArgumentError:
    return InvalidArgumentError(f"trace {str(file)!r} cannot be written ({reason}); give a writable file")
