"""A reproduction: our shares beside the printed ones."""

from __future__ import annotations

from pagedkv.report.document import Document
from pagedkv.report.html.chart import Chart, Column, Key, axis, label, rounded
from pagedkv.report.html.charts_systems import WORDS, bars_layout
from pagedkv.report.systems import system_name


def paper_charts(document: Document) -> tuple[Chart, ...]:
    """Return the chart of ours against the paper's, none where nothing is printed. Pure."""
    shares = document.get("shares")
    if not shares:
        return ()
    names = [f"{system_name(one)}: {WORDS[one['share']]}" for one in shares]
    labels = [label(name) for name in names]
    ours, printed, apart = (rounded([100 * one[key] for one in shares]) for key in ("ours", "printed", "difference"))
    farthest = max(range(len(shares)), key=lambda place: abs(apart[place]))
    tolerance = 100 * document["config"]["tolerance"]
    return (
        Chart(
            name="paper",
            title="Ours against the paper's printed values",
            summary=f"{len(shares)} shares of the pool. The farthest apart is {names[farthest]}: ours "
            f"{ours[farthest]:.2f} %, printed {printed[farthest]:.1f} %, {apart[farthest]:+.2f} points.",
            caption=f"Bars are ours, diamonds are what the paper prints; at most {tolerance:g} points apart is a PASS.",
            traces=(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": "ours",
                    "x": ours,
                    "y": labels,
                    "customdata": apart,
                    "marker": {"color": "blue"},
                    "hovertemplate": "%{y}<br>ours: %{x:.2f} % of pool (%{customdata:+.2f} points)<extra></extra>",
                },
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": "printed",
                    "x": printed,
                    "y": labels,
                    "marker": {
                        "color": "orange",
                        "size": 11,
                        "symbol": "diamond",
                        "line": {"color": "panel", "width": 1},
                    },
                    "hovertemplate": "%{y}<br>printed: %{x:.1f} % of pool<extra></extra>",
                },
            ),
            layout=bars_layout(axis("% of pool", range=[0, 102], ticksuffix=" %")),
            keys=(Key("ours", "blue", (0,)), Key("printed in the paper", "orange", (1,))),
            columns=(
                Column("share of the pool", names),
                Column("ours, %", ours),
                Column("printed, %", printed),
                Column("difference, points", apart),
            ),
            height=100 + 26 * len(shares),
        ),
    )
