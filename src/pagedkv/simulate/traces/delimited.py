"""Formats of delimited text (CSV, TSV) with a header: columns found by name, in any order and among others.

Well-formed rows are read a chunk at a time; a chunk with anything else in it is read again line by line, which gives
every row its own verdict. Both ways accept the same rows: the fast one only refuses more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pagedkv.simulate.traces.cells import cells, tokens
from pagedkv.simulate.traces.rows import Column, Trace, TraceRows, shown
from pagedkv.simulate.traces.source import TraceSource, lines_of

_NUMBER = b"0123456789-"


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """A column of arrival times. read: one text to (ticks of 100 ns, "") or (None, reason); read_all: many, or None.

    optional: a file without the column is a list of lengths. one_clock: numbers, not dates.
    """

    name: str
    read: Callable[[str], tuple[int | None, str]]
    read_all: Callable[[list[bytes]], list[int] | None]
    optional: bool = False
    one_clock: bool = True


@dataclass(frozen=True, slots=True)
class DelimitedFormat:
    """One format: the names of its columns. A header with a tab in it is cut at tabs, any other at commas.

    known_by: a header with any of these names is, or was meant to be, of this format.
    """

    name: str
    prompt: str
    output: str
    time: TimeColumn | None = None
    known_by: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names that it reads."""
        return (self.prompt, self.output) if self.time is None else (self.time.name, self.prompt, self.output)

    def recognizes(self, first_line: str) -> bool:
        """Whether a file that starts so is, or was meant to be, of this format."""
        names = cells(first_line, _delimiter(first_line))
        return not set(self.known_by or (self.prompt, self.output)).isdisjoint(names)

    def read(self, source: TraceSource, rows: TraceRows) -> Trace:
        """Read all lines. Errors: TraceError for a missing or repeated column, for a bad row with `rows.strict`, or if
        no row is left."""
        chunks = source.chunks()
        header, _, rest = next(chunks, b"").partition(b"\n")
        table = _Table(self, header.decode("utf-8", "surrogateescape"), rows)
        if rest:
            table.read(rest)
        for chunk in chunks:
            table.read(chunk)
        return rows.finish(self.name)


class _Table:
    """The rows below one header. Fills `rows`."""

    def __init__(self, form: DelimitedFormat, header: str, rows: TraceRows) -> None:
        self._rows = rows
        self._delimiter = _delimiter(header)
        self._cut = self._delimiter.encode()
        names = cells(header, self._delimiter)
        time = form.time
        self._time = None if time is None or (time.optional and time.name not in names) else time
        wanted = form.columns if self._time is not None else (form.prompt, form.output)
        self._width = len(names)
        self._fields = [(name, _place(name, names, wanted, rows)) for name in wanted]
        rows.columns = (None if self._time is None else self._time.name, form.prompt, form.output)
        rows.one_clock = self._time is not None and self._time.one_clock
        self._next_row = 1

    def read(self, chunk: bytes) -> None:
        """Read whole lines."""
        chunk = chunk.replace(b"\r\n", b"\n")
        first = self._next_row
        self._next_row += chunk.count(b"\n")
        columns = self._columns(chunk)
        if columns is not None and self._rows.extend(first, *columns):
            return
        for row, line in enumerate(lines_of(chunk), start=first):
            if line and not line.isspace():
                self._read_row(row, cells(line, self._delimiter))

    def _columns(self, chunk: bytes) -> tuple[Column, Column, Column] | None:
        """Return times, prompts and outputs of a chunk in which every row is well formed, else None."""
        if b'"' in chunk:
            return None
        marks = np.frombuffer(chunk, dtype=np.uint8)
        marks = marks[(marks == ord("\n")) | (marks == self._cut[0])]
        if len(marks) % self._width:
            return None
        grid = marks.reshape(-1, self._width) == ord("\n")
        if not bool(grid[:, -1].all()) or bool(grid[:, :-1].any()):
            return None
        fields = chunk[:-1].replace(b"\n", self._cut).split(self._cut)
        prompts, outputs = (_counts(fields[place :: self._width]) for _, place in self._fields[-2:])
        if prompts is None or outputs is None:
            return None
        if self._time is None:
            return np.zeros(len(prompts), dtype=np.int64), prompts, outputs
        ticks = self._time.read_all(fields[self._fields[0][1] :: self._width])
        return None if ticks is None else (np.array(ticks, dtype=np.int64), prompts, outputs)

    def _read_row(self, row: int, fields: Sequence[str]) -> None:
        values = []
        for name, place in self._fields:
            text = fields[place] if place < len(fields) else ""
            is_time = self._time is not None and name == self._time.name
            read = self._time.read if is_time and self._time is not None else tokens
            value, reason = read(text) if text else (None, "is missing")
            if value is None:
                self._rows.reject(row, name, reason)
                return
            values.append(value)
        ticks = 0 if self._time is None else values[0]
        self._rows.accept_or_drop(row, ticks, values[-2], values[-1])


def _delimiter(header: str) -> str:
    return "\t" if "\t" in header else ","


def _place(name: str, names: list[str], wanted: Sequence[str], rows: TraceRows) -> int:
    if names.count(name) != 1:
        found = ", ".join(map(shown, names))
        fault = "is missing" if name not in names else "is there more than once"
        raise rows.error(0, name, f"{fault}; the header has {found}; name the columns {', '.join(wanted)}")
    return names.index(name)


def _counts(column: list[bytes]) -> Column | None:
    """Return whole numbers written in digits alone, or None."""
    if b"".join(column).translate(None, _NUMBER):
        return None
    try:
        return np.array(list(map(int, column)), dtype=np.int64)
    except (ValueError, OverflowError):
        return None
