"""Opening a trace file, packed with gzip or not, and the one kind of error that whatever goes wrong becomes."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pagedkv.simulate.traces.rows import TraceRows
from pagedkv.simulate.traces.source import TraceSource

_GZIP = b"\x1f\x8b"


@contextmanager
def open_source(file: Path, rows: TraceRows) -> Iterator[TraceSource]:
    """Open a file for reading from its start to its end.

    Errors: TraceError for a file that is missing, unreadable, empty, binary, damaged, or unpacks without end; also
    when that shows only later, inside the `with`.
    """
    if "\0" in str(file):
        raise rows.error(None, None, "is no file name (it holds a NUL); give a readable file")
    try:
        with file.open("rb") as stream:
            packed = stream.peek(len(_GZIP)).startswith(_GZIP)
            plain = io.BufferedReader(gzip.GzipFile(fileobj=stream)) if packed else stream
            source = TraceSource(plain, rows, file.stat().st_size if packed else None)
            _check(source.first_line, rows)
            yield source
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = f"cannot be unpacked after row {rows.rows} (cut or damaged: {error}); give the whole file"
        raise rows.error(None, None, reason) from error
    except OSError as error:
        raise rows.error(None, None, f"cannot be read ({error.strerror}); give a readable file") from error


def _check(first_line: str, rows: TraceRows) -> None:
    if not first_line:
        raise rows.error(None, None, "is empty; give a trace with rows")
    # NUL and the stand-ins of undecodable bytes are not printable.
    if not first_line.replace("\t", " ").strip().isprintable():
        raise rows.error(0, None, "is no text file (binary?); give a trace as text, or that text packed with gzip")
