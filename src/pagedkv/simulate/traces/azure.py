"""Azure's LLM inference traces (CC-BY 4.0, Splitwise, ISCA 2024): CSV with TIMESTAMP, ContextTokens, GeneratedTokens.

TIMESTAMP is local wall-clock time `YYYY-MM-DD HH:MM:SS.fffffff` without a zone; up to seven fraction digits, i.e.
ticks of 100 ns. It is read as integers: datetime's %f stops at six digits, and float seconds since 1970 resolve about
240 ns only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from functools import lru_cache

from pagedkv.arguments import INT32_MAX
from pagedkv.simulate.traces.rows import Trace, TraceRows, cells, shown

NAME = "azure-csv"
COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
TICKS_PER_SECOND = 10_000_000

_TIME = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,7}))?", re.ASCII)
_COUNT = re.compile(r"-?\d{1,18}", re.ASCII)


def recognizes(first_line: str) -> bool:
    """Whether this is, or was meant to be, Azure's header: any of the three names."""
    return not set(COLUMNS).isdisjoint(cells(first_line))


def read(lines: Iterable[str], rows: TraceRows) -> Trace:
    """Read all lines, the header first. Columns are found by name, in any order and among others.

    Errors: TraceError for a missing or repeated column, with `rows.strict` for the first bad row, or if no row is left.
    """
    rows.time_column = COLUMNS[0]
    places: list[int] = []
    for row, line in enumerate(lines):
        if row == 0:
            places = _places(cells(line), rows)
        elif line.strip():
            _read_row(rows, row, cells(line), places)
    return rows.finish(NAME)


def _places(header: list[str], rows: TraceRows) -> list[int]:
    for name in COLUMNS:
        if header.count(name) != 1:
            found = ", ".join(shown(column) for column in header)
            fault = "is missing" if name not in header else "is there more than once"
            raise rows.error(0, name, f"{fault}; the header has {found}; name the columns {', '.join(COLUMNS)}")
    return [header.index(name) for name in COLUMNS]


def _read_row(rows: TraceRows, row: int, fields: Sequence[str], places: Sequence[int]) -> None:
    values = []
    for name, place in zip(COLUMNS, places, strict=True):
        text = fields[place] if place < len(fields) else ""
        value, reason = (_ticks if name == COLUMNS[0] else _tokens)(text) if text else (None, "is missing")
        if value is None:
            rows.reject(row, name, reason)
            return
        values.append(value)
    ticks, prompt, output = values
    for name, count in ((COLUMNS[1], prompt), (COLUMNS[2], output)):
        if count <= 0:
            rows.drop(row, name, f"is {count}: nothing to replay")
            return
    rows.accept(row, ticks, prompt, output)


def _ticks(text: str) -> tuple[int | None, str]:
    """Return (100 ns ticks since 0001-01-01, "") or (None, reason)."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None, f"is {shown(text)}, not YYYY-MM-DD HH:MM:SS with up to seven fraction digits"
    day, hour, minute, second, fraction = match.groups()
    days = _day_number(day)
    if days is None:
        return None, f"is {shown(text)}: there is no such day"
    hours, minutes, seconds = int(hour), int(minute), int(second)
    if hours > 23 or minutes > 59 or seconds > 59:
        return None, f"is {shown(text)}: there is no such time"
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return whole * TICKS_PER_SECOND + int((fraction or "").ljust(7, "0")), ""


@lru_cache(maxsize=64)  # a trace has few days, and parsing a date costs as much as the rest of its row
def _day_number(day: str) -> int | None:
    try:
        return date.fromisoformat(day).toordinal()
    except ValueError:
        return None


def _tokens(text: str) -> tuple[int | None, str]:
    """Return (a count of tokens, "") or (None, reason)."""
    if _COUNT.fullmatch(text) is None:
        return None, f"is {shown(text)}, not a whole number of tokens"
    count = int(text)
    if count > INT32_MAX:
        return None, f"is {count}, more than {INT32_MAX} tokens"
    return count, ""
