"""Reading request traces: one file a format, found by its first line, compressed with gzip or not.

A new format is a module like `azure`, with what TraceFormat names, and one entry in FORMATS.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Protocol

from pagedkv.simulate.traces import azure, mooncake
from pagedkv.simulate.traces.rows import SkippedRow, Trace, TraceRows, cells, shown

__all__ = ["FORMATS", "SkippedRow", "Trace", "read_trace"]


class TraceFormat(Protocol):
    """What a format module has. `read` gets all lines, the first one included, and returns `rows.finish(NAME)`."""

    @property
    def NAME(self) -> str: ...  # noqa: N802
    @property
    def COLUMNS(self) -> tuple[str, ...]: ...  # noqa: N802
    def recognizes(self, first_line: str) -> bool: ...
    def read(self, lines: Iterable[str], rows: TraceRows) -> Trace: ...


FORMATS: tuple[TraceFormat, ...] = (azure, mooncake)
LONGEST_LINE = 1 << 16  # bytes; a binary file may have no line end at all, and must not be read whole
_GZIP = b"\x1f\x8b"


def read_trace(file: str | Path, *, strict: bool = False) -> Trace:
    """Read a trace of any known format.

    Lenient: rows that cannot be used are dropped, counted and listed. strict: the first of them, or a time earlier than
    the row before, is an error. Errors: TraceError (file, row, column) for a file that is missing, unreadable, empty,
    binary or of no known format. Reads the file once; no stream.
    """
    rows = TraceRows(Path(file), strict)
    if "\0" in str(file):
        raise rows.error(None, None, "is no file name (it holds a NUL); give a readable file")
    try:
        with rows.file.open("rb") as stream:
            packed = stream.peek(len(_GZIP)).startswith(_GZIP)
            return _read(io.BufferedReader(gzip.GzipFile(fileobj=stream)) if packed else stream, rows)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = f"cannot be unpacked after row {rows.rows} (cut or damaged: {error}); give the whole file"
        raise rows.error(None, None, reason) from error
    except OSError as error:
        raise rows.error(None, None, f"cannot be read ({error.strerror}); give a readable file") from error


def _read(stream: IO[bytes], rows: TraceRows) -> Trace:
    lines = _text_lines(stream)
    first = next(lines, "").removeprefix("\ufeff")
    if not first:
        raise rows.error(None, None, "is empty; give a trace with rows")
    # NUL and the stand-ins of undecodable bytes are not printable.
    if not first.replace("\t", " ").strip().isprintable():
        raise rows.error(0, None, "is no text file (binary?); give a trace as text, or that text packed with gzip")
    for trace_format in FORMATS:
        if trace_format.recognizes(first):
            return trace_format.read(chain((first,), lines), rows)
    raise rows.error(0, FORMATS[0].COLUMNS[0], _unknown(first))


def _unknown(first_line: str) -> str:
    known = "; ".join(f"{known.NAME} ({', '.join(known.COLUMNS)})" for known in FORMATS)
    found = ", ".join(shown(name) for name in cells(first_line)[:8])
    return f"is missing and the format unknown; the first line has {found}; this version reads {known}"


def _text_lines(stream: IO[bytes]) -> Iterator[str]:
    """Yield lines; undecodable bytes become lone surrogates, so one damaged row does not cost the whole file."""
    while line := stream.readline(LONGEST_LINE):
        yield line.decode("utf-8", "surrogateescape")
        while len(line) == LONGEST_LINE and not line.endswith(b"\n"):  # the rest of an over-long line is no row
            line = stream.readline(LONGEST_LINE)
