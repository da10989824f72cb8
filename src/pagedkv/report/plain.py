"""A report as plain lines: for files, pipes and logs. No color, no width, one figure a line, except in tables."""

from __future__ import annotations

from collections.abc import Iterator

from pagedkv.report.model import Report, Table


def plain_lines(report: Report) -> Iterator[str]:
    """Yield the lines of a report without line ends."""
    yield report.title
    yield from report.banner
    for section in report.sections:
        yield ""
        yield section.title
        for line in section.lines:
            note = f"  ({line.note})" if line.note else ""
            yield f"  {line.label + ':':<24} {line.value}{note}"
    for table in report.tables:
        yield ""
        yield from _table_lines(table)
    if report.notes:
        yield ""
        yield from (f"note: {note}" for note in report.notes)
    yield ""
    yield closing_line(report)


def closing_line(report: Report) -> str:
    """Return the last line alone."""
    return f"{report.outcome}: {report.closing}"


def _table_lines(table: Table) -> Iterator[str]:
    """Names to the left, figures to the right, every column as wide as its widest cell."""
    rows = (table.header, *table.rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield table.title
    for name, *figures in rows:
        cells = (cell.rjust(width) for cell, width in zip(figures, widths[1:], strict=True))
        yield "  ".join((f"  {name:<{widths[0]}}", *cells))
