"""Bars: the paged run beside contiguous systems, and beside reservation of the longest length alone."""

from __future__ import annotations

from typing import Any

from pagedkv.report.document import Document
from pagedkv.report.html.chart import Chart, Column, Key, Trace, axis, label, rounded
from pagedkv.report.quantities import count, mib, percent
from pagedkv.report.systems import SHARES, system_name

WORDS = {
    "token_states": "token states",
    "reservation": "reserved for later",
    "internal": "internal fragmentation",
    "external_and_free": "external fragmentation and free",
}
_COLORS = {"token_states": "green", "reservation": "blue", "internal": "red", "external_and_free": "neutral"}
_ROW = 34  # pixels of a bar


def systems_charts(document: Document) -> tuple[Chart, ...]:
    """Return the bars of the systems that ran, none where none did. Pure."""
    systems = document.get("systems") or ()
    ran = [system for system in systems if system["figures"]["steps"]]
    if not ran:
        return ()
    which = "saturated" if all(system["figures"]["saturated"] for system in ran) else "mean"
    names = [system_name(system) for system in ran]
    means = [system["figures"][which] for system in ran]
    shares = {share: rounded([100 * one[share] for one in means]) for share in SHARES}
    best = max(range(len(ran)), key=lambda place: shares["token_states"][place])
    return (
        Chart(
            name="systems",
            title="Paged against contiguous reservation",
            summary="Share of the pool that holds tokens: "
            + "; ".join(f"{name} {percent(one['token_states'])}" for name, one in zip(names, means, strict=True))
            + f". The most: {names[best]}.",
            caption=f"Each bar is the whole pool, as a mean over {_over(which)}. The same requests and scheduler "
            "everywhere; contiguous systems are named by what they reserve and how they place it.",
            traces=tuple(_stacked(WORDS[share], _COLORS[share], names, shares[share]) for share in SHARES),
            layout=bars_layout(axis("% of pool", range=[0, 100.5], ticksuffix=" %")) | {"barmode": "stack"},
            keys=tuple(Key(WORDS[share], _COLORS[share], (place,)) for place, share in enumerate(SHARES)),
            columns=(
                Column("system", names),
                *(Column(f"{WORDS[share]}, % of pool", shares[share]) for share in SHARES),
                Column("running, requests", rounded([one["running"] for one in means])),
                Column("steps", [system["figures"]["steps"] for system in ran]),
            ),
            height=110 + _ROW * len(ran),
        ),
    )


def contiguous_charts(document: Document) -> tuple[Chart, ...]:
    """Return the bars of a run against reservation of the longest length at its peak, none if nothing ran. Pure."""
    figures = document.get("figures")
    if not figures or not figures.get("contiguous_max_bytes"):
        return ()
    names = ["paged, at its peak", "contiguous, same moment"]
    sizes = [figures["peak_bytes"], figures["contiguous_max_bytes"]]
    factor = figures["peak_factor_vs_contiguous"]
    times = "" if factor is None else f", {factor:.2f} times less"
    return (
        Chart(
            name="contiguous",
            title="Memory at the peak, against reservation of the longest length",
            summary=f"Paged: {mib(sizes[0])}. Contiguous: {mib(sizes[1])}, for "
            f"{count(figures['contiguous_sequences'])} sequences of {count(figures['contiguous_max_seq_len'])} tokens. "
            f"Saved: {percent(figures['peak_saving_vs_contiguous'])}{times}.",
            caption="What the same requests would take if each had its longest length reserved in one piece.",
            traces=(
                {
                    "type": "bar",
                    "orientation": "h",
                    "x": rounded([nbytes / 2**20 for nbytes in sizes]),
                    "y": names,
                    "marker": {"color": ["blue", "orange"]},
                    "text": [mib(nbytes) for nbytes in sizes],
                    "hovertemplate": "%{y}: %{x:,.2f} MiB<extra></extra>",
                },
            ),
            layout=bars_layout(axis("MiB", rangemode="tozero", tickformat=",")),
            columns=(Column("system", names), Column("bytes", sizes)),
            height=180,
        ),
    )


def bars_layout(xaxis: dict[str, Any]) -> dict[str, Any]:
    """Return the layout of lying bars, the first one on top."""
    return {
        "xaxis": xaxis,
        "yaxis": {"autorange": "reversed", "automargin": True, "type": "category", "ticks": ""},
        "hovermode": "closest",
        "bargap": 0.3,
    }


def _stacked(name: str, color: str, names: list[str], values: list[float]) -> Trace:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "x": values,
        "y": [label(name) for name in names],
        "marker": {"color": color},
        # A number needs about 5 % of the width; a smaller share is told by its tooltip and the table.
        "text": [f"{value:.1f} %" if value >= 5 else "" for value in values],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "hovertemplate": f"%{{y}}<br>{name}: %{{x:.2f}} % of pool<extra></extra>",
    }


def _over(which: str) -> str:
    return "the steps with a queue" if which == "saturated" else "all steps"
