"""The recorded series of a run as lines over steps: each bucket a level piece, idle steps between shown as such."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pagedkv.report.html.chart import Column, Trace, axis, rounded
from pagedkv.report.quantities import count

STEP_AXIS = axis("step (virtual clock)", rangemode="tozero", tickformat=",d")


@dataclass(frozen=True, slots=True)
class Band:
    """A value over time: its mean a bucket, and the least and most of the bucket's steps."""

    name: str
    unit: str
    color: str
    low: list[float]
    mean: list[float]
    high: list[float]


class Timeline:
    """series: `history["series"]` of a document."""

    def __init__(self, series: dict[str, Any]) -> None:
        self.series = series
        self.first: list[int] = series["first_step"]
        self.last: list[int] = series["last_step"]
        self.per_bucket: int = series["steps_per_bucket"]

    def band(self, name: str, unit: str, color: str, *, key: str, scale: float = 1.0) -> Band:
        """Return the recorded value `key`, times scale."""
        low, mean, high = (
            rounded([value * scale for value in self.series[key][part]]) for part in ("min", "mean", "max")
        )
        return Band(name, unit, color, low, mean, high)

    def traces(self, band: Band) -> tuple[Trace, ...]:
        """Return the line of the mean, and below it the area from least to most where a point is more than one step."""
        line = self.line(band.name, band.mean, band.unit, band.color)
        if self.per_bucket == 1:
            return (line,)
        low, high = self._pieces(band.low, 0)[1], self._pieces(band.high, 0)[1]
        x = line["x"]
        edge = {"type": "scatter", "mode": "lines", "x": x, "hoverinfo": "skip", "line": {"width": 0, "shape": "hv"}}
        line["customdata"] = [[word, a, b] for word, a, b in zip(line["customdata"], low, high, strict=True)]
        line["hovertemplate"] = (
            f"{band.name}: mean %{{y:,.2~f}} {band.unit}, %{{customdata[1]:,.2~f}} to %{{customdata[2]:,.2~f}}"
            "<extra>%{customdata[0]}</extra>"
        )
        return (edge | {"y": low}, edge | {"y": high, "fill": "tonexty", "fillcolor": f"{band.color}/0.25"}, line)

    def line(self, name: str, values: list[Any], unit: str, color: str, *, idle: float | None = 0) -> Trace:
        """Return a line of one value a bucket; idle: its value while nothing is there to run, None for no value."""
        x, y, words = self._pieces(values, idle)
        return {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": x,
            "y": y,
            "customdata": words,
            "line": {"color": color, "width": 1.6, "shape": "hv"},
            "hovertemplate": f"{name}: %{{y:,.2~f}} {unit}<extra>%{{customdata}}</extra>",
        }

    def columns(self) -> tuple[Column, ...]:
        """Return the columns that say which steps a row is of."""
        seconds = self.series.get("seconds")
        timed = () if seconds is None else (Column("end, modeled seconds", rounded(seconds, 6)),)
        return (Column("first step", self.first), Column("last step", self.last), *timed)

    def band_columns(self, band: Band) -> tuple[Column, ...]:
        """Return a value's columns."""
        name = f"{band.name}, {band.unit}"
        if self.per_bucket == 1:
            return (Column(name, band.mean),)
        parts = (("mean", band.mean), ("least", band.low), ("most", band.high))
        return tuple(Column(f"{name}: {part}", values) for part, values in parts)

    def caption(self) -> str:
        """Return how many steps a point stands for."""
        if self.per_bucket == 1:
            return "Every step is drawn."
        return (
            f"A point stands for {count(self.per_bucket)} steps: the line is their mean, the band reaches from the "
            "least to the most of them."
        )

    def counts_caption(self) -> str:
        """Return what a point of a count is."""
        steps = "one step" if self.per_bucket == 1 else f"{count(self.per_bucket)} steps"
        return f"A point is what happened within {steps}."

    def _pieces(self, values: list[Any], idle: float | None) -> tuple[list[int], list[Any], list[str]]:
        """Return x, y and the words of the tooltip: points of a line that keeps its value until the next point."""
        x: list[int] = []
        y: list[Any] = []
        words: list[str] = []
        for place, (first, last) in enumerate(zip(self.first, self.last, strict=True)):
            x.append(first)
            y.append(values[place])
            words.append(f"step {count(first)}" if first == last else f"steps {count(first)} to {count(last)}")
            at_end = place + 1 == len(self.first)
            if at_end or self.first[place + 1] > last + 1:
                # A line that stops keeps its value to the bucket's end; one that goes on falls to what idle steps have.
                ends = [values[place]] if at_end else [idle] if idle is not None else [values[place], None]
                x += [last + 1] * len(ends)
                y += ends
                words += [words[-1] if at_end else "idle"] * len(ends)
        return x, y, words
