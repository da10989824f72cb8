"""Two runs in one chart each: their timelines laid over each other."""

from __future__ import annotations

from dataclasses import dataclass

from pagedkv.report.document import Document
from pagedkv.report.html.chart import Chart, Column, Key, Trace, axis
from pagedkv.report.html.timeline import STEP_AXIS, Band, Timeline

_COLORS = ("blue", "orange")


@dataclass(frozen=True, slots=True)
class _Overlay:
    """A recorded value of both runs. share_of: what 100 % is, or None for a count."""

    name: str
    title: str
    key: str
    unit: str
    share_of: str | None = None


_OVERLAYS = (
    _Overlay("utilization", "Blocks in use over time", "allocated_blocks", "% of pool", "blocks"),
    _Overlay("stored", "Tokens stored over time", "stored_tokens", "% of pool", "places"),
    _Overlay("running", "Requests running over time", "running", "requests"),
    _Overlay("waiting", "Requests waiting over time", "waiting", "requests"),
)


def compare_charts(documents: tuple[Document, Document], names: tuple[str, str]) -> tuple[Chart, ...]:
    """Return the overlays of two recorded runs, none if one was not recorded. names: of their files. Pure."""
    histories = [document.get("history") for document in documents]
    if not all(history and history["series"]["first_step"] for history in histories):
        return ()
    timelines = tuple(Timeline(history["series"]) for history in histories if history)
    words = tuple(f"{side}: {name}" for side, name in zip("AB", names, strict=True))
    return tuple(_chart(overlay, documents, timelines, words) for overlay in _OVERLAYS)


def _chart(
    overlay: _Overlay, documents: tuple[Document, Document], timelines: tuple[Timeline, ...], words: tuple[str, ...]
) -> Chart:
    traces: list[Trace] = []
    keys: list[Key] = []
    columns: list[Column] = []
    said = []
    for side, text, color, document, timeline in zip("AB", words, _COLORS, documents, timelines, strict=True):
        band = timeline.band(side, overlay.unit, color, key=overlay.key, scale=_scale(overlay, document))
        drawn = timeline.traces(band)
        keys.append(Key(text, color, tuple(range(len(traces), len(traces) + len(drawn)))))
        traces += drawn
        columns += [
            Column(f"{side}: {column.title}", column.values)
            for column in (*timeline.columns(), *timeline.band_columns(band))
        ]
        said.append(f"{side}: {_range(overlay, band)}")
    return Chart(
        name=overlay.name,
        title=overlay.title,
        summary="; ".join(said) + ".",
        caption=_caption([one.caption() for one in timelines]),
        traces=tuple(traces),
        layout={
            "xaxis": STEP_AXIS,
            "yaxis": axis(overlay.unit, rangemode="tozero", ticksuffix=" %" if overlay.share_of else ""),
        },
        keys=tuple(keys),
        columns=tuple(columns),
        height=280,
    )


def _scale(overlay: _Overlay, document: Document) -> float:
    if overlay.share_of is None:
        return 1.0
    blocks: int = document["config"]["blocks"]
    return 100 / (blocks * document["config"]["block_size"] if overlay.share_of == "places" else blocks)


def _caption(captions: list[str]) -> str:
    return (
        captions[0]
        if len(set(captions)) == 1
        else " ".join(f"{side}: {one}" for side, one in zip("AB", captions, strict=True))
    )


def _range(overlay: _Overlay, band: Band) -> str:
    digits = 2 if overlay.share_of else 0
    return f"{min(band.low):,.{digits}f} to {max(band.high):,.{digits}f} {band.unit}"
