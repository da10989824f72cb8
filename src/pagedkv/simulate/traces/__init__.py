"""Reading request traces: one reader a format, found by the first line, compressed with gzip or not.

A new format is a module with a reader (what TraceFormat names; DelimitedFormat for columns with a header) and one entry
in FORMATS.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate.traces.azure import AZURE
from pagedkv.simulate.traces.burstgpt import BURSTGPT
from pagedkv.simulate.traces.cells import cells
from pagedkv.simulate.traces.lengths import INPUT_OUTPUT, PREFILL_DECODE, TOKS
from pagedkv.simulate.traces.mooncake import MOONCAKE
from pagedkv.simulate.traces.opening import open_source
from pagedkv.simulate.traces.own import OWN
from pagedkv.simulate.traces.rows import SkippedRow, Trace, TraceRows, shown
from pagedkv.simulate.traces.sessions import SESSIONS
from pagedkv.simulate.traces.source import TraceSource

__all__ = ["FORMATS", "SkippedRow", "Trace", "read_trace"]


class TraceFormat(Protocol):
    """What a reader has. `read` fills `rows` from all lines, the first included, and returns `rows.finish(name)`."""

    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    def recognizes(self, first_line: str) -> bool: ...
    def read(self, source: TraceSource, rows: TraceRows) -> Trace: ...


# The first that recognizes a file reads it: sessions before the formats whose names a whole session's line holds, too.
FORMATS: tuple[TraceFormat, ...] = (AZURE, BURSTGPT, PREFILL_DECODE, INPUT_OUTPUT, TOKS, SESSIONS, OWN, MOONCAKE)


def read_trace(file: str | Path, *, strict: bool = False, format: str | None = None) -> Trace:
    """Read a trace of any known format, or a folder of kv-cache-tester's sessions.

    Lenient: rows that cannot be used are dropped, counted and listed. strict: the first of them, or a time earlier than
    the row before, is an error. format: the name of one of FORMATS, instead of what the first line says. Errors:
    TraceError (file, row, column) for a file that is missing, unreadable, empty, binary or of no known format, for
    times of two clocks in one file, for a packed file that unpacks without end; InvalidArgumentError for a format that
    does not exist. Reads the file once; no stream.
    """
    forced = None if format is None else _named(format)
    rows = TraceRows(Path(file), strict)
    try:
        if "\0" not in str(file) and rows.file.is_dir():
            if forced not in (None, SESSIONS):
                raise rows.error(None, None, f"is a folder, and {format} is a file's format; give a file")
            return SESSIONS.read_folder(rows)
    except OSError as error:
        raise rows.error(None, None, f"cannot be read ({error.strerror}); give a readable folder") from error
    with open_source(rows.file, rows) as source:
        return (forced or _recognized(source.first_line, rows)).read(source, rows)


def _named(name: str) -> TraceFormat:
    for known in FORMATS:
        if known.name == name:
            return known
    raise InvalidArgumentError(f"format is {name[:40]!r}; give one of {', '.join(known.name for known in FORMATS)}")


def _recognized(first_line: str, rows: TraceRows) -> TraceFormat:
    for known in FORMATS:
        if known.recognizes(first_line):
            return known
    formats = "; ".join(f"{known.name} ({', '.join(known.columns)})" for known in FORMATS)
    found = ", ".join(shown(name) for name in cells(first_line, "\t" if "\t" in first_line else ",")[:8])
    reason = f"is missing and the format unknown; the first line has {found}; this version reads {formats}"
    raise rows.error(0, FORMATS[0].columns[0], reason)
