"""What every figure's report is made of: ours beside the printed values, as bars and as a table.

It works from a document's `bars`: {"label", "group", "ours", "printed", "difference", "unit"} each, `printed` being a
number, [low, high], or None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from pagedkv.report.document import Document
from pagedkv.report.model import Line, Report, Section, Table
from pagedkv.report.quantities import percent
from pagedkv.report.run import skipped_rows

BAR = 60  # characters for the whole
Bar: TypeAlias = dict[str, Any]


def figure_report(
    document: Document, banner: tuple[str, ...], drawing: Section | None, tables: tuple[Table, ...], closing: str
) -> Report:
    """Return the report; closing: of a figure that passes. Pure."""
    if document["outcome"] == "FAIL":
        closing = "; ".join(document["failures"])
    return Report(
        title=f"pagedkv reproduce {document['figure']}, pagedkv {document['versions']['pagedkv']}",
        banner=banner,
        sections=() if drawing is None else (drawing,),
        notes=(*document["notes"], *skipped_rows(document["trace"])),
        outcome=document["outcome"],
        closing=closing,
        tables=tables,
    )


def bar_lines(bars: Sequence[Bar], whole: float, printed: str) -> tuple[Line, ...]:
    """Return a line a bar: ours as long as it is of `whole`, and marks at what is printed. Pure."""
    legend = f"# ours, {printed}; {BAR} characters are {whole:.0%}".replace("%", " %")
    lines = (Line(name, _drawn(bar, whole)) for name, bar in zip(bar_names(bars), bars, strict=True))
    return (*lines, Line("legend", legend))


def beside_table(bars: Sequence[Bar], what: str, *, decimals: int = 1) -> tuple[Table, ...]:
    """Return one table of the bars of which a value is printed, with so many decimals; none without such. Pure."""
    rows = tuple(
        (name, percent(bar["ours"]), _printed(bar["printed"], decimals), _points(bar["difference"]))
        for name, bar in zip(bar_names(bars), bars, strict=True)
        if bar["printed"] is not None
    )
    return (Table("Ours beside the paper's", (what, "ours", "printed", "points"), rows),) if rows else ()


def largest_difference(bars: Sequence[Bar]) -> float:
    """Return the largest difference in points; 0 if nothing is compared. Pure."""
    return 100 * max((abs(bar["difference"]) for bar in bars if bar["difference"] is not None), default=0.0)


def bar_names(bars: Sequence[Bar]) -> list[str]:
    """Return group and label of each; a group that all have is said elsewhere. Pure."""
    if len({bar["group"] for bar in bars}) == 1:
        return [bar["label"] for bar in bars]
    return [f"{bar['group']}: {bar['label']}" for bar in bars]


def _drawn(bar: Bar, whole: float) -> str:
    cells = ["#"] * round(min(bar["ours"] or 0.0, 1.0) / whole * BAR)
    printed = bar["printed"]
    for mark in printed if isinstance(printed, list) else [printed]:
        if mark is not None:
            place = min(round(mark / whole * BAR), BAR)
            cells += ["."] * (place + 1 - len(cells))
            cells[place] = "|"
    return "".join(cells)


def _printed(printed: float | list[float], decimals: int) -> str:
    if isinstance(printed, list):
        low, high = printed
        return f"{100 * low:.{decimals}f} - {100 * high:.{decimals}f} %"
    return f"{100 * printed:.{decimals}f} %"


def _points(difference: float | None) -> str:
    return "n/a" if difference is None else f"{100 * difference:+z.2f}"
