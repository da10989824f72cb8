"""The step-time model: its percentiles as bars. Everything here is modeled, and says so."""

from __future__ import annotations

import re
from typing import Any

from pagedkv.report.document import Document
from pagedkv.report.html.chart import Chart, Column, axis, label
from pagedkv.report.html.charts_systems import bars_layout
from pagedkv.report.leaves import leaves
from pagedkv.report.model import Line, Section

_PERCENTILE = re.compile(r"(?:^|_)p\d+(?:_|$)")


def time_sections(document: Document) -> tuple[Section, ...]:
    """Return the modeled figures as sections, none without a model. Pure."""
    time = document.get("time")
    if not time:
        return ()
    return tuple(
        Section(title, tuple(Line(_words(key), _value(key, value)) for key, value in leaves(time[part]).items()))
        for title, part in (("Step-time model", "model"), ("Modeled times, not measured", "figures"))
    )


def time_charts(document: Document) -> tuple[Chart, ...]:
    """Return the modeled times as bars, none without a model. Pure."""
    time = document.get("time")
    figures = {} if not time else leaves(time["figures"])
    shown = {
        key: value
        for key, value in figures.items()
        if isinstance(value, int | float) and key.endswith("_seconds") and _PERCENTILE.search(key.replace(".", "_"))
    }
    if not shown:
        return ()
    names = [_words(key.removesuffix("_seconds")) for key in shown]
    values = [round(float(value), 6) for value in shown.values()]
    return (
        Chart(
            name="times",
            title="Modeled times of requests",
            summary="Modeled, not measured: "
            + ", ".join(f"{a} {b:,.4g} s" for a, b in zip(names, values, strict=True)),
            caption="Modeled: steps turned into seconds by the step-time model; no GPU was timed.",
            traces=(
                {
                    "type": "bar",
                    "orientation": "h",
                    "x": values,
                    "y": [label(name) for name in names],
                    "marker": {"color": "purple"},
                    "text": [f"{value:,.4g} s" for value in values],
                    "hovertemplate": "%{y}: %{x:,.6g} s, modeled<extra></extra>",
                },
            ),
            layout=bars_layout(axis("seconds, modeled", rangemode="tozero")),
            columns=(Column("figure, modeled", names), Column("seconds, modeled", values)),
            height=100 + 28 * len(names),
        ),
    )


def _words(key: str) -> str:
    return key.replace("_", " ").replace(".", ", ")


def _value(key: str, value: Any) -> str:
    if value is None:
        return "n/a"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    unit = " s" if key.endswith("_seconds") else ""
    return f"{value:,}{unit}" if isinstance(value, int) else f"{value:,.6g}{unit}"
