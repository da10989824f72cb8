"""Azure's LLM inference traces (CC-BY 4.0, Splitwise, ISCA 2024): CSV with TIMESTAMP, ContextTokens, GeneratedTokens.

TIMESTAMP is local wall-clock time `YYYY-MM-DD HH:MM:SS.fffffff` without a zone; up to seven fraction digits, i.e.
ticks of 100 ns. It is read as integers: datetime's %f stops at six digits, and float seconds since 1970 resolve about
240 ns only.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache

from pagedkv.simulate.traces.delimited import DelimitedFormat, TimeColumn
from pagedkv.simulate.traces.rows import TICKS_PER_SECOND, shown

_TIME = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,7}))?", re.ASCII)
_LENGTH = len("YYYY-MM-DD HH:MM:SS.fffffff")
_SECOND = len("YYYY-MM-DD HH:MM:SS")


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


def _all_ticks(column: list[bytes]) -> list[int] | None:
    """Return the ticks of times with all seven digits, or None. Times stand together: each second is read once."""
    second, whole, ticks = b"", 0, []
    for text in column:
        fraction = text[_SECOND + 1 :]
        if len(text) != _LENGTH or text[_SECOND] != ord(".") or not fraction.isdigit():
            return None
        if not text.startswith(second) or not second:
            second = text[: _SECOND + 1]
            known, _ = _ticks(second[:_SECOND].decode("ascii", "replace"))
            if known is None:
                return None
            whole = known
        ticks.append(whole + int(fraction))
    return ticks


_TIMES = TimeColumn("TIMESTAMP", _ticks, _all_ticks, one_clock=False)
AZURE = DelimitedFormat(
    "azure-csv",
    "ContextTokens",
    "GeneratedTokens",
    _TIMES,
    known_by=("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
)
