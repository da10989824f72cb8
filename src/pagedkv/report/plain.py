"""A report as plain lines: for files, pipes and logs. No color, no width, one figure a line."""

from __future__ import annotations

from collections.abc import Iterator

from pagedkv.report.model import Report


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
    if report.notes:
        yield ""
        yield from (f"note: {note}" for note in report.notes)
    yield ""
    yield closing_line(report)


def closing_line(report: Report) -> str:
    """Return the last line alone."""
    return f"{report.outcome}: {report.closing}"
