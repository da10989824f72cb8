"""Mooncake's traces (Apache-2.0, FAST 2025): one JSON object a line with the identities of the prompt's blocks.

{"timestamp": 27482, "input_length": 6758, "output_length": 500, "hash_ids": [46, 47, ...]}: milliseconds, tokens, and
one id for every 512 tokens of the prompt. An id stands for those tokens and all before them, the last one for the rest
that may be shorter. Equal ids mean equal tokens, in the whole file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from pagedkv.arguments import INT32_MAX
from pagedkv.simulate.traces.rows import Trace, TraceRows, shown

NAME = "mooncake-jsonl"
COLUMNS = ("timestamp", "input_length", "output_length", "hash_ids")
TICKS_PER_MS = 10_000  # ticks of 100 ns
TOKENS_PER_ID = 512
LATEST = 2**52  # ms; in ticks it is still within 64 bits


def recognizes(first_line: str) -> bool:
    """Whether this is, or was meant to be, a row of such a trace: an object with any of the names but the time's."""
    return first_line.lstrip().startswith("{") and any(f'"{name}"' in first_line for name in COLUMNS[1:])


def read(lines: Iterable[str], rows: TraceRows) -> Trace:
    """Read all lines; there is no header, so row r is line r.

    Errors: TraceError with `rows.strict` for the first bad row, or if no row is left.
    """
    rows.time_column = COLUMNS[0]
    decode = json.JSONDecoder(parse_float=Decimal).decode
    for row, line in enumerate(lines, start=1):
        if line.isspace():
            continue
        try:
            fields = decode(line)
        except (ValueError, ArithmeticError, RecursionError):  # no JSON, or numbers and depths that Python refuses
            rows.reject(row, COLUMNS[0], f"is missing: the line is no JSON object, {shown(line.strip())}")
            continue
        _read_row(rows, row, fields)
    return rows.finish(NAME, tokens_per_id=TOKENS_PER_ID)


def _read_row(rows: TraceRows, row: int, fields: Any) -> None:
    if not isinstance(fields, dict):
        rows.reject(row, COLUMNS[0], f"is missing: the line is no JSON object, {_said(fields)}")
        return
    for name in COLUMNS:
        if name not in fields:
            rows.reject(row, name, "is missing")
            return
    time, prompt, output, ids = (fields[name] for name in COLUMNS)
    ticks = _ticks(time)
    if ticks is None:
        rows.reject(row, COLUMNS[0], f"is {_said(time)}, not a time in milliseconds")
        return
    for name, count in ((COLUMNS[1], prompt), (COLUMNS[2], output)):
        if type(count) is not int or abs(count) > INT32_MAX:
            rows.reject(row, name, f"is {_said(count)}, not a number of tokens up to {INT32_MAX}")
            return
        if count <= 0:
            rows.drop(row, name, f"is {count}: nothing to replay")
            return
    reason = _wrong_ids(ids, prompt)
    if reason:
        rows.reject(row, COLUMNS[3], reason)
        return
    rows.accept(row, ticks, prompt, output, ids)


def _ticks(time: Any) -> int | None:
    """Return ticks of 100 ns, rounded down, or None. bool is an int to isinstance, and is no time."""
    if type(time) is not int and not isinstance(time, Decimal):
        return None
    return int(time * TICKS_PER_MS // 1) if -LATEST < time < LATEST else None


def _wrong_ids(ids: Any, prompt: int) -> str:
    """Return what is wrong with the ids of a prompt, or ""."""
    if type(ids) is not list or not set(map(type, ids)) <= {int} or (ids and min(ids) < 0):
        return f"is {_said(ids)}, not a list of ids from 0"
    wanted = -(-prompt // TOKENS_PER_ID)
    if len(ids) != wanted:
        return f"has {len(ids)} ids; {prompt} tokens have {wanted}, one for {TOKENS_PER_ID} each"
    return ""


def _said(value: Any) -> str:
    """Return a value as a message may repeat it, without composing all of a large one."""
    if type(value) is int and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, (list, dict)):
        return f"a {'list' if isinstance(value, list) else 'object'} of {len(value)}"
    return shown(value if isinstance(value, str) else str(value))
