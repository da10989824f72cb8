"""Charts of what a run did over time: use of the pool, waste, queue, events, hit rates."""

from __future__ import annotations

from typing import Any

from pagedkv.report.document import Document
from pagedkv.report.html.chart import Chart, Column, Key, Trace, axis, count_axis, rounded
from pagedkv.report.html.timeline import STEP_AXIS, Band, Timeline
from pagedkv.report.quantities import count, percent

_REQUESTS = (
    ("completed", "completed", "green"),
    ("preemptions", "preempted", "red"),
    ("rejected", "rejected", "purple"),
)
_BLOCKS = (("evictions", "evicted blocks", "yellow"),)


def series_charts(document: Document) -> tuple[Chart, ...]:
    """Return the charts of a recorded run, none of one that was not recorded. Pure."""
    history = document.get("history")
    if not history or not history["series"]["first_step"]:
        return ()
    timeline = Timeline(history["series"])
    return (
        _utilization(timeline, document["config"]),
        _waste(timeline, document["config"]),
        _queue(timeline),
        *_events(timeline, "requests", "What became of requests", _REQUESTS),
        *_hits(timeline),
        *_events(timeline, "evictions", "Cached blocks evicted", _BLOCKS),
    )


def _utilization(timeline: Timeline, config: dict[str, Any]) -> Chart:
    blocks, places = config["blocks"], config["blocks"] * config["block_size"]
    bands = (
        timeline.band("blocks in use", "% of pool", "blue", key="allocated_blocks", scale=100 / blocks),
        timeline.band("tokens stored", "% of pool", "orange", key="stored_tokens", scale=100 / places),
    )
    used, stored = bands
    return _banded(
        timeline,
        bands,
        name="utilization",
        title="Use of the pool over time",
        summary=f"Blocks in use: {_range(used)} of {count(blocks)} blocks. Tokens stored: {_range(stored)} of "
        f"{count(places)} token places. The distance between the two lines is waste within blocks.",
        layout={"yaxis": axis("% of pool", rangemode="tozero", ticksuffix=" %")},
    )


def _waste(timeline: Timeline, config: dict[str, Any]) -> Chart:
    used, stored = timeline.series["allocated_blocks"]["mean"], timeline.series["stored_tokens"]["mean"]
    size = config["block_size"]
    waste = [
        None if blocks == 0 else round(100 * (1 - tokens / (blocks * size)), 3)
        for blocks, tokens in zip(used, stored, strict=True)
    ]
    known = [value for value in waste if value is not None]
    end = "no block was in use" if not known else f"{min(known):,.2f} % to {max(known):,.2f} %"
    each = "" if timeline.per_bucket == 1 else f" of {count(timeline.per_bucket)} steps together"
    return Chart(
        name="waste",
        title="Waste within blocks over time",
        summary=f"Share of the token places in blocks in use that hold no token: {end}.",
        caption=f"Places without a token in blocks in use, over all places there{each}.",
        traces=(timeline.line("waste", waste, "% of places in use", "red", idle=None),),
        layout={"xaxis": STEP_AXIS, "yaxis": axis("% of places in use", rangemode="tozero", ticksuffix=" %")},
        keys=(Key("waste", "red", (0,)),),
        columns=(*timeline.columns(), Column("waste, % of places in use", waste)),
        height=240,
    )


def _queue(timeline: Timeline) -> Chart:
    bands = (
        timeline.band("running", "requests", "blue", key="running"),
        timeline.band("waiting", "requests", "orange", key="waiting"),
    )
    running, waiting = bands
    return _banded(
        timeline,
        bands,
        name="queue",
        title="Requests running and waiting over time",
        summary=f"Running: {min(running.low):,.0f} to {max(running.high):,.0f} requests. Waiting: "
        f"{min(waiting.low):,.0f} to {max(waiting.high):,.0f} requests.",
        layout={"yaxis": count_axis("requests", max(*running.high, *waiting.high))},
    )


def _events(timeline: Timeline, name: str, title: str, events: tuple[tuple[str, str, str], ...]) -> tuple[Chart, ...]:
    shown = [one for one in events if any(timeline.series[one[0]])]
    if not shown:
        return ()
    most = max(max(timeline.series[key]) for key, _, _ in shown)
    totals = ", ".join(f"{count(sum(timeline.series[key]))} {words}" for key, words, _ in shown)
    return (
        Chart(
            name=name,
            title=f"{title}, over time",
            summary=f"In all: {totals}.",
            caption=timeline.counts_caption(),
            traces=tuple(
                timeline.line(words, timeline.series[key], f"within {_steps(timeline)}", color)
                for key, words, color in shown
            ),
            layout={"xaxis": STEP_AXIS, "yaxis": count_axis(f"count within {_steps(timeline)}", most)},
            keys=tuple(Key(words, color, (place,)) for place, (_, words, color) in enumerate(shown)),
            columns=(*timeline.columns(), *(Column(words, timeline.series[key]) for key, words, _ in shown)),
            height=240,
        ),
    )


def _hits(timeline: Timeline) -> tuple[Chart, ...]:
    queried, hit = timeline.series["queried_tokens"], timeline.series["hit_tokens"]
    if not any(queried):
        return ()
    rate = [round(100 * part / whole, 3) if whole else None for part, whole in zip(hit, queried, strict=True)]
    so_far = rounded(_so_far(queried, hit))
    return (
        Chart(
            name="hits",
            title="Prefix cache hit rate over time",
            summary=f"{count(sum(hit))} of {count(sum(queried))} prompt tokens were found: "
            f"{percent(sum(hit) / sum(queried))}.",
            caption=f"Prompt tokens found in the cache, of those looked up within {_steps(timeline)}; no point where "
            "none was looked up.",
            traces=(
                _points(timeline, rate),
                timeline.line("since the start", so_far, "% of tokens", "blue", idle=None),
            ),
            layout={"xaxis": STEP_AXIS, "yaxis": axis("% of looked-up tokens", range=[0, 102], ticksuffix=" %")},
            keys=(Key(f"within {_steps(timeline)}", "orange", (0,)), Key("since the start", "blue", (1,))),
            columns=(
                *timeline.columns(),
                Column("looked up, tokens", queried),
                Column("found, tokens", hit),
                Column("hit rate, %", rate),
                Column("hit rate since the start, %", so_far),
            ),
            height=280,
        ),
    )


def _points(timeline: Timeline, rate: list[float | None]) -> Trace:
    trace = timeline.line("hit rate", rate, "% of tokens", "orange", idle=None)
    return trace | {"mode": "markers", "marker": {"color": "orange/0.7", "size": 5}}


def _so_far(queried: list[int], hit: list[int]) -> list[float]:
    rates, of_all, found = [], 0, 0
    for whole, part in zip(queried, hit, strict=True):
        of_all, found = of_all + whole, found + part
        rates.append(100 * found / of_all if of_all else 0.0)
    return rates


def _banded(
    timeline: Timeline, bands: tuple[Band, ...], *, name: str, title: str, summary: str, layout: dict[str, Any]
) -> Chart:
    traces: list[Trace] = []
    keys = []
    for band in bands:
        drawn = timeline.traces(band)
        keys.append(Key(band.name, band.color, tuple(range(len(traces), len(traces) + len(drawn)))))
        traces += drawn
    return Chart(
        name=name,
        title=title,
        summary=summary,
        caption=timeline.caption(),
        traces=tuple(traces),
        layout={"xaxis": STEP_AXIS, **layout},
        keys=tuple(keys),
        columns=(*timeline.columns(), *(column for band in bands for column in timeline.band_columns(band))),
    )


def _range(band: Band) -> str:
    return f"{min(band.low):,.2f} % to {max(band.high):,.2f} %"


def _steps(timeline: Timeline) -> str:
    return "a step" if timeline.per_bucket == 1 else f"{count(timeline.per_bucket)} steps"
