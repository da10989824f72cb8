"""Mooncake's traces (Apache-2.0, FAST 2025): one JSON object a line with the identities of the prompt's blocks.

{"timestamp": 27482, "input_length": 6758, "output_length": 500, "hash_ids": [46, 47, ...]}: milliseconds, tokens, and
one id for every 512 tokens of the prompt. An id stands for those tokens and all before them, the last one for the rest
that may be shorter. Equal ids mean equal tokens, in the whole file.
"""

from __future__ import annotations

import re

import numpy as np

from pagedkv.simulate.identities import IdentityRows
from pagedkv.simulate.traces.json_rows import (
    TICKS_PER_MS,
    has_columns,
    has_tokens,
    read_object,
    said,
    ticks_of,
    wrong_ids,
)
from pagedkv.simulate.traces.rows import Trace, TraceRows
from pagedkv.simulate.traces.source import TraceSource, lines_of

TOKENS_PER_ID = 512

# Rows as the public files have them: read many at a time, without a JSON reader.
_NUMBER = rb"(?:0|[1-9]\d{0,13}+)"
_ROW = rb'\{"timestamp": N, "input_length": N, "output_length": N, "hash_ids": \[N(?:, N)*+\]\}\n'
_PLAIN = re.compile(rb"(?:" + _ROW.replace(b"N", _NUMBER) + rb")*+")
_OTHERS_BLANK = bytes(code if chr(code).isdigit() and code < 128 else ord(" ") for code in range(256))


class Mooncake:
    """The reader. There is no header, so row r is line r."""

    name = "mooncake-jsonl"
    columns = ("timestamp", "input_length", "output_length", "hash_ids")

    def recognizes(self, first_line: str) -> bool:
        """Whether this is, or was meant to be, a row of such a trace: an object with any name but the time's."""
        return first_line.lstrip().startswith("{") and any(f'"{name}"' in first_line for name in self.columns[1:])

    def read(self, source: TraceSource, rows: TraceRows) -> Trace:
        """Read all lines. Errors: TraceError with `rows.strict` for the first bad row, or if no row is left."""
        rows.columns = ("timestamp", "input_length", "output_length")
        rows.one_clock = True
        identities = IdentityRows(TOKENS_PER_ID)
        first = 1
        for chunk in source.chunks():
            if not self._read_plain(chunk, first, rows, identities):
                for row, line in enumerate(lines_of(chunk), start=first):
                    if line and not line.isspace():
                        self._read_row(row, line, rows, identities)
            first += chunk.count(b"\n")
        return rows.finish(self.name, identities)

    def _read_plain(self, chunk: bytes, first_row: int, rows: TraceRows, identities: IdentityRows) -> bool:
        """Read whole lines that are all well formed and to be replayed; False, and nothing read, if they are not."""
        if _PLAIN.fullmatch(chunk) is None:
            return False
        numbers = np.fromstring(chunk.translate(_OTHERS_BLANK).decode("ascii"), dtype=np.int64, sep=" ")
        marks = np.frombuffer(chunk, dtype=np.uint8)
        ends, commas = np.flatnonzero(marks == ord("\n")), np.flatnonzero(marks == ord(","))
        lengths = np.diff(np.searchsorted(commas, ends), prepend=0) + 1
        starts = np.cumsum(lengths) - lengths
        times, prompts, outputs = (numbers[starts + place] for place in range(3))
        ids = np.delete(numbers, np.concatenate([starts, starts + 1, starts + 2]))
        counts = lengths - 3
        if not bool(np.all((prompts > 0) & (outputs > 0) & (counts == -(-prompts // TOKENS_PER_ID)))):
            return False
        if not rows.extend(first_row, times * TICKS_PER_MS, prompts, outputs):
            return False
        identities.extend(ids, counts)
        return True

    def _read_row(self, row: int, line: str, rows: TraceRows, identities: IdentityRows) -> None:
        fields = read_object(line, row, self.columns[0], rows)
        if fields is None or not has_columns(rows, row, fields, self.columns):
            return
        time, prompt, output, ids = (fields[name] for name in self.columns)
        ticks = ticks_of(time, TICKS_PER_MS)
        if ticks is None:
            rows.reject(row, self.columns[0], f"is {said(time)}, not a time in milliseconds")
            return
        if not has_tokens(rows, row, fields, self.columns[1:3]):
            return
        reason = wrong_ids(ids, prompt, -(-prompt // TOKENS_PER_ID), TOKENS_PER_ID)
        if reason:
            rows.reject(row, self.columns[3], reason)
            return
        rows.accept(row, ticks, prompt, output)
        identities.add(ids)


MOONCAKE = Mooncake()
