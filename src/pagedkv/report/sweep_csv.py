"""All figures of a sweep as CSV: one row a configuration, one column an option or a figure.

Columns: number, option.NAME, outcome, error, key, then the figures by name; what is nested has its path, with dots
(saturated.steps, time.NAME, systems.max.first_fit.steps). Shares are from 0 to 1, as in JSON; nothing is an empty cell.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from pagedkv.report.document import Document


def csv_text(document: Document) -> str:
    """Return the table of a sweep's document. Pure."""
    rows = [dict(_cells(row)) for row in document["configurations"]]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    # Options that only some rows have, and figures behind an error's row, keep to their own kind.
    columns.sort(key=_place)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _place(column: str) -> int:
    if column == "number":
        return 0
    return 1 if column.startswith("option.") else 2


def _cells(row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "number", row["number"]
    yield from _flat("option", row["options"])
    yield "outcome", row["outcome"]
    yield "error", "" if row["error"] is None else f"{row['error']['error']}: {row['error']['message']}"
    yield "key", row["key"]
    yield from _flat("", row["figures"] or {})
    yield from _flat("time", (row["time"] or {}).get("figures") or {})
    for system in row["systems"] or ():
        name = "paged" if system["reservation"] is None else f"{system['reservation']}.{system['placement']}"
        yield from _flat(f"systems.{name}", system["figures"])


def _flat(path: str, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        whole = f"{path}.{name}" if path else name
        if isinstance(value, dict):
            yield from _flat(whole, value)
        else:
            yield whole, "" if value is None else value
