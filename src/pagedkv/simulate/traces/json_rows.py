"""Rows that are JSON objects: how one is read, and what a count, a time or a list of ids may be.

Numbers with a point come as Decimal: a float would round times, and "1e999999999" must not become a number at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from pagedkv.arguments import INT32_MAX
from pagedkv.simulate.traces.rows import TICKS_PER_SECOND, TraceRows, no_tokens, shown

TICKS_PER_MS = TICKS_PER_SECOND // 1000
LATEST = 2**49  # ms; in ticks it is still within 64 bits

_decode = json.JSONDecoder(parse_float=Decimal).decode


def read_json(text: str) -> tuple[Any, bool]:
    """Return (the value, True), or (None, False) for no JSON, or numbers and depths that Python refuses."""
    try:
        return _decode(text), True
    except (ValueError, ArithmeticError, RecursionError):
        return None, False


def read_object(line: str, row: int, column: str, rows: TraceRows) -> dict[str, Any] | None:
    """Return the object of a line; None: there is none, and `rows` knows."""
    fields, is_json = read_json(line)
    if isinstance(fields, dict):
        return fields
    found = said(fields) if is_json else shown(line.strip())
    rows.reject(row, column, f"is missing: the line is no JSON object, {found}")
    return None


def ticks_of(time: Any, ticks_per_unit: int) -> int | None:
    """Return ticks of 100 ns, rounded down, or None. bool is an int to isinstance, and is no time."""
    if type(time) is not int and not isinstance(time, Decimal):
        return None
    latest = LATEST * TICKS_PER_MS // ticks_per_unit
    return int(time * ticks_per_unit // 1) if -latest < time < latest else None


def is_count(value: Any) -> bool:
    """Whether this is a number of tokens, perhaps none."""
    return type(value) is int and abs(value) <= INT32_MAX


def has_columns(rows: TraceRows, row: int, fields: dict[str, Any], names: Iterable[str]) -> bool:
    """Whether a row has these columns; of one that lacks some `rows` knows the first."""
    for name in names:
        if name not in fields:
            rows.reject(row, name, "is missing")
            return False
    return True


def has_tokens(rows: TraceRows, row: int, fields: dict[str, Any], names: Iterable[str]) -> bool:
    """Whether these columns hold numbers of tokens above 0; of a row where one does not `rows` knows."""
    for name in names:
        count = fields[name]
        if not is_count(count):
            rows.reject(row, name, f"is {said(count)}, not a number of tokens up to {INT32_MAX}")
            return False
        if count <= 0:
            rows.drop(row, name, no_tokens(count))
            return False
    return True


def wrong_ids(ids: Any, prompt: int, wanted: int, tokens_per_id: int) -> str:
    """Return what is wrong with the ids of a prompt that needs so many, or ""."""
    if type(ids) is not list or not set(map(type, ids)) <= {int} or (ids and min(ids) < 0):
        return f"is {said(ids)}, not a list of ids from 0"
    if len(ids) != wanted:
        return f"has {len(ids)} ids; {prompt} tokens have {wanted}, one for {tokens_per_id} each"
    return ""


def is_name(value: Any) -> bool:
    """Whether this can name a session or a prefix: a text or a whole number."""
    return type(value) in (str, int)


def said(value: Any) -> str:
    """Return a value as a message may repeat it, without composing all of a large one."""
    if type(value) is int and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, (list, dict)):
        return f"a {'list' if isinstance(value, list) else 'object'} of {len(value)}"
    return shown(value if isinstance(value, str) else str(value))
