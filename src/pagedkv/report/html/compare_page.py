"""The page of two results side by side."""

from __future__ import annotations

from pagedkv.report.comparison_report import comparison_report, differing, same, settings
from pagedkv.report.document import Document
from pagedkv.report.html.charts_compare import compare_charts
from pagedkv.report.html.page import Group, Page


def compare_page(comparison: Document, documents: tuple[Document, Document]) -> Page:
    """Return the page of a comparison; documents: the two it is of. Pure."""
    charts = compare_charts(documents, (comparison["a"]["name"], comparison["b"]["name"]))
    note = "" if charts else "What happened over time was not recorded in both results."
    return Page(
        report=comparison_report(comparison),
        tiles=(),
        lead=settings(comparison["config"]),
        groups=(Group("time-lines", "Over time, one run over the other", charts, note),),
        sections=(),
        tables=(*differing(comparison["figures"]), *same(comparison["figures"])),
        command=comparison.get("command_line"),
        versions=tuple(comparison["versions"].items()),
    )
