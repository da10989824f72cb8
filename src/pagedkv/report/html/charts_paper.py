"""A reproduction: ours beside the printed values."""

from __future__ import annotations

from typing import Any

from pagedkv.report.document import Document
from pagedkv.report.html.chart import Chart, Column, Key, Trace, axis, label
from pagedkv.report.html.charts_systems import bars_layout
from pagedkv.report.reproductions.beside import bar_names, largest_difference


def paper_charts(document: Document) -> tuple[Chart, ...]:
    """Return the chart of a document's `bars`, none where nothing is printed. Pure."""
    bars = [bar for bar in document.get("bars") or () if bar["printed"] is not None]
    if not bars:
        return ()
    names = bar_names(bars)
    labels = [label(name) for name in names]
    ours = [_percent(bar["ours"]) for bar in bars]
    apart = [_percent(bar["difference"]) for bar in bars]
    ends = [bar["printed"] if isinstance(bar["printed"], list) else [bar["printed"]] * 2 for bar in bars]
    low, high = ([_percent(end[side]) for end in ends] for side in (0, 1))
    tolerance = 100 * document["config"]["tolerance"]
    return (
        Chart(
            name="paper",
            title="Ours against the paper's printed values",
            summary=f"{document['paper']}: {document['title']}. {len(bars)} values; the largest difference is "
            f"{largest_difference(bars):.2f} points.",
            caption="Bars are ours; diamonds are what the paper prints, two of them where it prints a range. "
            f"Difference that is allowed, in percentage points: {tolerance:g}.",
            traces=(_ours(ours, labels, apart), _printed(low, high, labels)),
            layout=bars_layout(axis("share, %", rangemode="tozero", ticksuffix=" %")),
            keys=(Key("ours", "blue", (0,)), Key("printed in the paper", "orange", (1,))),
            columns=(
                Column("value", names),
                Column("ours, %", ours),
                Column("printed, %", low),
                *((Column("printed up to, %", high),) if low != high else ()),
                Column("difference, points", apart),
            ),
            height=100 + 26 * len(bars),
        ),
    )


def _ours(ours: list[float | None], labels: list[str], apart: list[float | None]) -> Trace:
    words = ["" if points is None else f" ({points:+.2f} points)" for points in apart]
    return {
        "type": "bar",
        "orientation": "h",
        "name": "ours",
        "x": ours,
        "y": labels,
        "customdata": words,
        "marker": {"color": "blue"},
        "hovertemplate": "%{y}<br>ours: %{x:.2f} %%{customdata}<extra></extra>",
    }


def _printed(low: list[float | None], high: list[float | None], labels: list[str]) -> Trace:
    """Return marks at the ends of what is printed, joined where they are two."""
    points: list[tuple[Any, Any]] = []
    for first, last, name in zip(low, high, labels, strict=True):
        points += [(first, name), (last, name), (None, name)] if first != last else [(first, name), (None, name)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "printed",
        "x": [point[0] for point in points],
        "y": [point[1] for point in points],
        "line": {"color": "orange", "width": 3},
        "marker": {"color": "orange", "size": 11, "symbol": "diamond"},
        "hovertemplate": "%{y}<br>printed: %{x:.2f} %<extra></extra>",
    }


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 3)
