"""The step-time model: waiting times as points on one axis. Everything here is modeled, and says so."""

from __future__ import annotations

from typing import Any

from pagedkv.report.document import Document
from pagedkv.report.html.chart import Chart, Column, Key, Trace, axis
from pagedkv.report.modeled_time import seconds

_ROWS = (
    ("time_to_first_token_seconds", "first token"),
    ("time_per_output_token_seconds", "token after it"),
    ("request_seconds", "whole request"),
)
_STATISTICS = (
    ("p50", "half of them within (p50)", "blue", "circle"),
    ("p90", "nine of ten within (p90)", "orange", "square"),
    ("p99", "99 of 100 within (p99)", "red", "diamond"),
    ("mean", "mean", "green", "cross"),
)


def time_charts(document: Document) -> tuple[Chart, ...]:
    """Return the modeled waiting times, none without a model or without a completed request. Pure."""
    time = document.get("time")
    figures = (time["figures"] if time else None) or {}
    rows = [(name, figures[key]) for key, name in _ROWS if figures.get(key) is not None]
    if not rows:
        return ()
    names = [name for name, _ in rows]
    said = "; ".join(f"{name} {seconds(row['p50'])}, {seconds(row['p99'])}" for name, row in rows)
    return (
        Chart(
            name="times",
            title="Waiting times of requests, modeled",
            summary=f"Modeled, not measured; p50 and p99: {said}.",
            caption="The step-time model turned steps into seconds; no GPU was timed. The axis is logarithmic.",
            traces=tuple(_points(place, names, rows) for place in range(len(_STATISTICS))),
            layout={
                "xaxis": axis("seconds, modeled (logarithmic)", type="log", tickformat="~g", dtick="D2"),
                "yaxis": {"autorange": "reversed", "automargin": True, "type": "category", "ticks": ""},
                "hovermode": "closest",
            },
            keys=tuple(Key(text, color, (place,)) for place, (_, text, color, _) in enumerate(_STATISTICS)),
            columns=(
                Column("modeled time", names),
                *(Column(f"{key}, seconds", [row[key] for _, row in rows]) for key, _, _, _ in _STATISTICS),
            ),
            height=110 + 46 * len(rows),
        ),
    )


def _points(place: int, names: list[str], rows: list[tuple[str, dict[str, Any]]]) -> Trace:
    key, text, color, symbol = _STATISTICS[place]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": text,
        "x": [row[key] or None for _, row in rows],  # there is no zero on a logarithmic axis
        "y": names,
        "customdata": [seconds(row[key]) for _, row in rows],
        "marker": {"color": color, "size": 12, "symbol": symbol},
        "hovertemplate": f"%{{y}}, modeled<br>{text}: %{{customdata}}<extra></extra>",
    }
