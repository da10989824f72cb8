"""Sequences as a Gantt chart: when each waited, ran, and was preempted."""

from __future__ import annotations

from typing import Any, TypeAlias

from pagedkv.report.document import Document
from pagedkv.report.html.chart import Chart, Column, Key, Trace, axis
from pagedkv.report.html.timeline import STEP_AXIS
from pagedkv.report.quantities import count

HEIGHT = 520
_PLOT = 440  # pixels of it between the axes
_KINDS = (
    ("waiting", "waiting", "waiting"),
    ("completed", "runs, then completes", "blue"),
    ("preempted", "runs, then is preempted", "red"),
    ("stopped", "runs when the run was stopped", "green"),
)


Spans: TypeAlias = list[list[int]]  # row, first and last step


def sequence_charts(document: Document) -> tuple[Chart, ...]:
    """Return the chart of a recorded run, none of one without requests. Pure."""
    history = document.get("history")
    if not history or not history["sequences"]["request"]:
        return ()
    drawn = history["sequences"]
    spans = _spans(drawn)
    kinds = [(kind, text, color) for kind, text, color in _KINDS if spans[kind]]
    preempted = sum(segment[3] == "preempted" for segment in drawn["segments"])
    rows = len(drawn["request"])
    shown = (
        f"Every request ({count(rows)})"
        if drawn["stride"] == 1
        else (f"One of {count(drawn['stride'])} requests ({count(rows)} of {count(drawn['of'])})")
    )
    return (
        Chart(
            name="sequences",
            title="When each request waited and ran",
            summary=f"{shown}, in {count(len(drawn['segments']))} running spans, {count(preempted)} of them ended by a "
            "preemption.",
            caption="A line is a request, the first one on top; an upright stroke is a preemption.",
            traces=tuple(_trace(kind, text, color, spans[kind], rows) for kind, text, color in kinds),
            layout={
                "xaxis": STEP_AXIS,
                "yaxis": axis("request", autorange="reversed", **_ticks(drawn["request"])),
                "hovermode": "closest",
                "hoverdistance": 40,
            },
            keys=tuple(Key(text, color, (place,)) for place, (_, text, color) in enumerate(kinds)),
            columns=_columns(drawn),
            height=HEIGHT,
            extra={"requests": drawn["request"]},
        ),
    )


def _spans(drawn: dict[str, Any]) -> dict[str, Spans]:
    """Return running spans by how they end, and the waits before them."""
    spans: dict[str, Spans] = {kind: [] for kind, _, _ in _KINDS}
    row_of = {request: row for row, request in enumerate(drawn["request"])}
    waits_from = dict(zip(drawn["request"], drawn["arrival_step"], strict=True))
    for request, first, last, end in sorted(drawn["segments"], key=lambda segment: (segment[0], segment[1])):
        row = row_of[request]
        if first > waits_from[request]:
            spans["waiting"].append([row, waits_from[request], first - 1])
        spans[end].append([row, first, last])
        waits_from[request] = last + 1
    return spans


def _trace(kind: str, text: str, color: str, spans: Spans, rows: int) -> Trace:
    """Return spans as they are: the page draws all of them as one path, for twenty thousand would take seconds.

    stroke: half the height of the strokes at their ends, in rows; most that are preempted had just begun, and would be
    too short to be seen.
    """
    thick = max(1.4, min(10.0, 0.75 * _PLOT / rows))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": text,
        "spans": spans,
        "stroke": round(max(0.4, 5 * rows / _PLOT), 2) if kind == "preempted" else 0,
        "line": {"color": color, "width": round(thick * (0.45 if kind == "waiting" else 1), 2)},
        "hovertemplate": "request %{customdata[0]:,d}<br>steps %{customdata[1]:,d} to %{customdata[2]:,d}<br>"
        f"{text}<extra></extra>",
    }


def _ticks(requests: list[int]) -> dict[str, Any]:
    """Rows are numbered by place; name some of them by request."""
    apart = max(1, -(-len(requests) // 12))
    places = list(range(0, len(requests), apart))
    return {"tickvals": places, "ticktext": [count(requests[place]) for place in places]}


def _columns(drawn: dict[str, Any]) -> tuple[Column, ...]:
    place = {request: row for row, request in enumerate(drawn["request"])}
    segments = drawn["segments"]
    facts = (
        ("arrives at step", "arrival_step"),
        ("prompt, tokens", "prompt_tokens"),
        ("output, tokens", "output_tokens"),
    )
    return (
        Column("request", [segment[0] for segment in segments]),
        *(Column(title, [drawn[key][place[segment[0]]] for segment in segments]) for title, key in facts),
        Column("runs from step", [segment[1] for segment in segments]),
        Column("to step", [segment[2] for segment in segments]),
        Column("then", [segment[3] for segment in segments]),
    )
