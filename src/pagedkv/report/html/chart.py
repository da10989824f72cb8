"""A chart as plain data: traces and layout of plotly.js with roles in place of colors, its legend, table and words.

A color is "role", "role/opacity" or "transparent": the page knows how a role looks in light, in dark and on paper.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Trace: TypeAlias = dict[str, Any]
Cell: TypeAlias = str | int | float | None


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of the legend. traces: what it shows and hides; state: the state of a block map instead."""

    label: str
    color: str
    traces: tuple[int, ...] = ()
    state: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table below a chart; its title has the unit."""

    title: str
    values: list[Any]


@dataclass(frozen=True, slots=True)
class Chart:
    """name: its id in the page; summary: what it shows, in words; caption: how it was made; height: CSS pixels."""

    name: str
    title: str
    summary: str
    caption: str
    traces: tuple[Trace, ...]
    layout: dict[str, Any]
    keys: tuple[Key, ...] = ()
    columns: tuple[Column, ...] = ()
    height: int = 320
    kind: Literal["plot", "map"] = "plot"
    extra: dict[str, Any] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """Return what the page's script draws."""
        return {
            "kind": self.kind,
            "traces": list(self.traces),
            "layout": self.layout,
            "keys": [{"traces": list(key.traces), "state": key.state} for key in self.keys],
            "columns": [{"title": column.title, "values": column.values} for column in self.columns],
            "extra": self.extra,
        }


_ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"}


def label(text: str) -> str:
    """Return a text that plotly.js shows as it is: it would take <b> for bold, $ for a formula, and a line break for
    none. Pure.
    """
    return re.sub(r"[&<>$]", lambda found: _ESCAPED[found[0]], " ".join(text.split()))


def axis(title: str, **more: Any) -> dict[str, Any]:
    """Return an axis with a title, which has the unit."""
    return {"title": {"text": title}, **more}


def count_axis(title: str, most: float) -> dict[str, Any]:
    """Return an axis of whole numbers up to `most`: between two small ones there is nothing to be marked."""
    return axis(title, rangemode="tozero", **({"dtick": 1} if most <= 6 else {}))


def rounded(values: list[float], digits: int = 3) -> list[float]:
    """Return values as short as a chart can show them: a page of a thousand points is read over and over."""
    return [round(value, digits) for value in values]
