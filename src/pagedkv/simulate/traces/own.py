"""pagedkv's own traces: one JSON object a line; what `--save-trace` writes.

{"pagedkv_trace": 1, "tokens_per_id": 512}           the header, which may be left out without hash_ids
{"arrival_ms": 12.5, "prompt_tokens": 700, "output_tokens": 20, "hash_ids": [3, 4]}
{"arrival_ms": 12.5, "prompt_tokens": 700, "output_tokens": 20, "session": 1, "prefix": "system", "prefix_tokens": 512}

arrival_ms: milliseconds from 0, exact to 100 ns; in all rows or in none. hash_ids: what the prompt holds, as in
Mooncake's traces. session: the prompt starts with the prompt and the answer of the session's row before. prefix: in a
session's first row, or without a session, the prompt starts with prefix_tokens of the shared text of that name.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from pagedkv.simulate.traces.json_rows import (
    TICKS_PER_MS,
    has_columns,
    has_tokens,
    read_json,
    read_object,
    said,
    ticks_of,
)
from pagedkv.simulate.traces.own_columns import read_columns
from pagedkv.simulate.traces.own_contents import OwnContents
from pagedkv.simulate.traces.rows import Trace, TraceRows
from pagedkv.simulate.traces.source import TraceSource, lines_of

VERSION = 1
HEADER = "pagedkv_trace"
ARRIVAL, PROMPT, OUTPUT = "arrival_ms", "prompt_tokens", "output_tokens"

# Rows as `--save-trace` writes them where nothing is known of the prompts: read without a JSON reader, as they are.
_TIME = rb"(?:0|[1-9]\d{0,13}+)(?:\.\d{1,4}+)?+"
_TOKENS = rb"[1-9]\d{0,8}+"
_COUNTS = rb'"prompt_tokens": ' + _TOKENS + rb', "output_tokens": ' + _TOKENS + rb"\}\n"
_TIMED = re.compile(rb'(?:\{"arrival_ms": ' + _TIME + rb", " + _COUNTS + rb")*+")
_UNTIMED = re.compile(rb"(?:\{" + _COUNTS + rb")*+")
_NAMES = (b'"arrival_ms": ', b'"prompt_tokens": ', b'"output_tokens": ')


class Own:
    """The reader. A header is row 1 as any other line, so row r is line r."""

    name = "pagedkv-jsonl"
    columns = (ARRIVAL, PROMPT, OUTPUT)

    def recognizes(self, first_line: str) -> bool:
        """Whether this is, or was meant to be, a header or a row of such a trace."""
        names = (HEADER, *self.columns)
        return first_line.lstrip().startswith("{") and any(f'"{name}"' in first_line for name in names)

    def read(self, source: TraceSource, rows: TraceRows) -> Trace:
        """Read all lines. Errors: TraceError for a header of another version, with `rows.strict` for the first bad row,
        or if no row is left."""
        reader = _Reader(rows, _tokens_per_id(source.first_line, rows))
        first = 1
        for chunk in source.chunks():
            reader.read(chunk, first)
            first += chunk.count(b"\n")
        return rows.finish(self.name, reader.contents if reader.contents.tells else None)


class _Reader:
    """The rows behind the header. Fills `rows` and `contents`."""

    def __init__(self, rows: TraceRows, tokens_per_id: int | None) -> None:
        self.contents = OwnContents(rows, tokens_per_id)
        self._rows = rows
        self._timed: bool | None = None  # the first row decides
        rows.columns = (ARRIVAL, PROMPT, OUTPUT)
        rows.one_clock = True

    def read(self, chunk: bytes, first_row: int) -> None:
        """Read whole lines."""
        if not self.contents.tells and self._read_plain(chunk, first_row):
            return
        if self._read_columns(chunk, first_row):
            return
        for row, line in enumerate(lines_of(chunk), start=first_row):
            if line and not line.isspace() and not (row == 1 and f'"{HEADER}"' in line):
                fields = read_object(line, row, PROMPT, self._rows)
                if fields is not None:
                    self._read_row(row, fields)

    def _read_plain(self, chunk: bytes, first_row: int) -> bool:
        chunk = chunk.replace(b"\r\n", b"\n")
        timed = chunk.startswith(b'{"arrival_ms"') if self._timed is None else self._timed
        if (_TIMED if timed else _UNTIMED).fullmatch(chunk) is None:
            return False
        for name in _NAMES:
            chunk = chunk.replace(name, b"")
        width = 3 if timed else 2
        fields = chunk[1:-2].replace(b"}\n{", b", ").split(b", ")
        prompts, outputs = (
            np.array(list(map(int, fields[place::width])), np.int64) for place in (width - 2, width - 1)
        )
        ticks = np.array(list(map(_plain_ticks, fields[::3])), np.int64) if timed else np.zeros_like(prompts)
        if self._timed is None:
            self._decide(timed)
        if not self._rows.extend(first_row, ticks, prompts, outputs):
            return False
        self.contents.skip(len(ticks))
        return True

    def _read_columns(self, chunk: bytes, first_row: int) -> bool:
        if self._timed is None:
            return False  # the careful reader decides
        columns = read_columns(chunk, (ARRIVAL, PROMPT, OUTPUT), timed=self._timed)
        if columns is None:
            return False
        taken = columns.ticks, columns.prompts, columns.outputs
        return self.contents.extend(columns, lambda: self._rows.extend(first_row, *taken))

    def _read_row(self, row: int, fields: dict[str, Any]) -> None:
        rows = self._rows
        if not has_columns(rows, row, fields, (PROMPT, OUTPUT)):
            return
        ticks = self._ticks(row, fields)
        if ticks is None:
            return
        if not has_tokens(rows, row, fields, (PROMPT, OUTPUT)):
            return
        prompt, output = fields[PROMPT], fields[OUTPUT]
        entry = self.contents.entry(row, fields, ticks, prompt)
        if entry is not None:
            rows.accept(row, ticks, prompt, output)
            self.contents.add(entry, ticks, prompt + output)

    def _decide(self, timed: bool) -> None:
        self._timed = timed
        self._rows.columns = (ARRIVAL if timed else None, PROMPT, OUTPUT)

    def _ticks(self, row: int, fields: dict[str, Any]) -> int | None:
        """Return the arrival, 0 in a trace without, or None: it is bad, and `rows` knows."""
        given = ARRIVAL in fields
        if self._timed is None:
            self._decide(given)
        if given != self._timed:
            reason = "is missing" if self._timed else "is given, and the first row has none: give it in all rows"
            self._rows.reject(row, ARRIVAL, reason)
            return None
        if not given:
            return 0
        ticks = ticks_of(fields[ARRIVAL], TICKS_PER_MS)
        if ticks is None or ticks < 0:
            self._rows.reject(row, ARRIVAL, f"is {said(fields[ARRIVAL])}, not a time in milliseconds from 0")
            return None
        return ticks


def _plain_ticks(cell: bytes) -> int:
    whole, _, fraction = cell.partition(b".")
    return int(whole) * TICKS_PER_MS + int(fraction.ljust(4, b"0"))


def _tokens_per_id(first_line: str, rows: TraceRows) -> int | None:
    """Return what the header says an id stands for; None: there is no header, or it has no ids."""
    header, _ = read_json(first_line)
    if not isinstance(header, dict) or HEADER not in header:
        return None
    if header[HEADER] is True or header[HEADER] != VERSION:
        raise rows.error(1, HEADER, f"is {said(header[HEADER])}; this version reads {VERSION}")
    size = header.get("tokens_per_id")
    if size is not None and (type(size) is not int or not 1 <= size <= 1 << 20):
        raise rows.error(1, "tokens_per_id", f"is {said(size)}, not a number of tokens up to {1 << 20}")
    return size


OWN = Own()
