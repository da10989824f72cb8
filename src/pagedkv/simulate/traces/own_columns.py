"""Many rows of pagedkv's own traces at once: whole lines as one JSON array, and its columns.

Only rows that need no word of their own are taken; for all others the chunk is read line by line.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagedkv.simulate.traces.json_rows import LATEST, TICKS_PER_MS

Numbers = NDArray[np.int64]
Row = dict[str, Any]

# A number with a point stays the bytes that it is: a type that no other value has, made faster than a Decimal.
_decode = json.JSONDecoder(parse_float=str.encode).decode
_TIMES = re.compile(rb"(?:(?:0|[1-9]\d{0,10}+)\.\d{1,4}+ )*+")
_NAMES = {int, str, type(None)}


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows with usable times and counts. ticks: int64, of 100 ns (0 without times); prompts, outputs: int64."""

    rows: list[Row]
    ticks: Numbers
    prompts: Numbers
    outputs: Numbers

    def names(self, name: str) -> list[Any] | None:
        """Return the texts, whole numbers and None of a column that may be missing; None: there are other values."""
        values = [row.get(name) for row in self.rows]
        return values if set(map(type, values)) <= _NAMES else None

    def ids(self, name: str) -> tuple[Numbers, Numbers] | None:
        """Return (the ids of all rows, how many each has); None: one has none, or ids that int64 does not hold."""
        try:
            lists = list(map(itemgetter(name), self.rows))
        except KeyError:
            return None
        if set(map(type, lists)) != {list}:
            return None
        ids = whole_numbers(list(chain.from_iterable(lists)))
        if ids is None or (len(ids) and int(ids.min()) < 0):
            return None
        return ids, np.fromiter(map(len, lists), np.int64, len(lists))


def read_columns(chunk: bytes, names: tuple[str, str, str], *, timed: bool) -> Columns | None:
    """Return the rows of whole lines; names: of time, prompt and output. None: read them line by line. Pure."""
    rows = _objects(chunk)
    if rows is None or (not timed and any(names[0] in row for row in rows)):
        return None
    try:
        columns = list(zip(*map(itemgetter(*names[0 if timed else 1 :]), rows), strict=True))
    except KeyError:
        return None
    prompts, outputs = whole_numbers(columns[-2]), whole_numbers(columns[-1])
    if prompts is None or outputs is None or int(prompts.min()) <= 0 or int(outputs.min()) <= 0:
        return None
    ticks = _ticks(columns[0]) if timed else np.zeros(len(rows), np.int64)
    return None if ticks is None else Columns(rows, ticks, prompts, outputs)


def whole_numbers(values: list[Any] | tuple[Any, ...]) -> Numbers | None:
    """Return them, or None: one is no int, or too large for int64. Pure."""
    if not set(map(type, values)) <= {int}:
        return None
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return None


def _objects(chunk: bytes) -> list[Row] | None:
    """Return the object of each line, None if a line is anything else.

    With as many opening and closing braces as lines, one at each line's start and one at its end, no object that
    the array has can begin or end anywhere else: its objects are those that the lines have.
    """
    chunk = chunk.replace(b"\r\n", b"\n")
    lines = chunk.count(b"\n")
    if not (chunk.startswith(b"{") and chunk.endswith(b"}\n") and chunk.count(b"}\n{") == lines - 1):
        return None
    if not chunk.count(b"{") == chunk.count(b"}") == lines:
        return None
    try:
        rows = _decode(f"[{chunk.decode('utf-8', 'surrogateescape')[:-1].replace(chr(10), ',')}]")
    except (ValueError, RecursionError):
        return None
    return rows if len(rows) == lines and set(map(type, rows)) == {dict} else None


def _ticks(times: tuple[Any, ...]) -> Numbers | None:
    kinds = set(map(type, times))
    if kinds == {int}:
        whole = whole_numbers(times)
        usable = whole is not None and int(whole.min()) >= 0 and int(whole.max()) < LATEST
        return whole * TICKS_PER_MS if whole is not None and usable else None
    if not kinds <= {int, bytes}:
        return None
    written = b"".join([time + b" " for time in times if type(time) is bytes])
    if _TIMES.fullmatch(written) is None or any(not 0 <= time < 10**11 for time in times if type(time) is int):
        return None
    # Below 10**15 and with a tick's digits at most, the product is less than half a tick from a whole number.
    ticks: Numbers = np.rint(np.fromiter(map(float, times), np.float64, len(times)) * TICKS_PER_MS).astype(np.int64)
    return ticks
