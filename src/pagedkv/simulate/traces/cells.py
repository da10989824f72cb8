"""Fields of delimited text: how a line is cut, and what a count, a decimal time or a name may look like."""

from __future__ import annotations

import csv
import re

from pagedkv.arguments import INT32_MAX
from pagedkv.simulate.traces.rows import TICKS_PER_SECOND, shown

_COUNT = re.compile(r"-?\d{1,18}", re.ASCII)
_SECONDS = re.compile(r"(\d{1,11})(?:\.(\d{1,18}))?", re.ASCII)


def cells(line: str, delimiter: str = ",") -> list[str]:
    """Return the fields of a line, without spaces and quotation marks around them; quoted ones may hold delimiters."""
    if '"' not in line:
        return [cell.strip() for cell in line.split(delimiter)]
    try:
        fields = next(csv.reader([line.strip("\r\n")], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:  # a line break or a NUL inside quotation marks: no field of it can be told
        return []
    return [cell.strip().strip('"') for cell in fields]


def tokens(text: str) -> tuple[int | None, str]:
    """Return (a count of tokens, "") or (None, reason)."""
    if _COUNT.fullmatch(text) is None:
        return None, f"is {shown(text)}, not a whole number of tokens"
    count = int(text)
    if count > INT32_MAX:
        return None, f"is {count}, more than {INT32_MAX} tokens"
    return count, ""


def seconds(text: str) -> tuple[int | None, str]:
    """Return (ticks of 100 ns, "") or (None, reason) for seconds such as 5, 118.0 or 0.52; finer than 100 ns is cut."""
    match = _SECONDS.fullmatch(text)
    if match is None:
        return None, f"is {shown(text)}, not a time in seconds from 0"
    whole, fraction = match.groups()
    return int(whole) * TICKS_PER_SECOND + int((fraction or "").ljust(7, "0")[:7]), ""


def seconds_of(column: list[bytes]) -> list[int] | None:
    """Return what `seconds` returns for all of them, or None if one of them needs a closer look."""
    text = b"".join(column)
    if text.isdigit() and all(column):
        return [int(cell) * TICKS_PER_SECOND for cell in column] if max(map(len, column)) <= 11 else None
    ticks = []
    for cell in column:
        whole, point, fraction = cell.partition(b".")
        if not whole.isdigit() or len(whole) > 11 or (point and not fraction.isdigit()) or len(fraction) > 18:
            return None
        ticks.append(int(whole) * TICKS_PER_SECOND + int(fraction.ljust(7, b"0")[:7]))
    return ticks
