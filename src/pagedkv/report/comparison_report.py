"""The report of `pagedkv compare`, from its JSON document alone."""

from __future__ import annotations

from typing import Any

from pagedkv.report.document import Document
from pagedkv.report.model import Report, Table
from pagedkv.report.quantities import count


def comparison_report(document: Document) -> Report:
    """Return the report: settings and figures that differ, and how many are the same. Pure."""
    config, figures = document["config"], document["figures"]
    equal = sum(one["a"] == one["b"] for one in figures)
    differ = f"{count(len(figures) - equal)} of {count(len(figures))} figures"
    return Report(
        title=f"pagedkv compare {document['versions']['pagedkv']}",
        banner=(_side("A", document["a"]), _side("B", document["b"])),
        sections=(),
        notes=(*document["notes"], *([f"{count(equal)} figures are the same in both"] if equal else [])),
        outcome=document["outcome"],
        closing=f"{count(len(config))} settings and {differ} differ",
        tables=(*settings(config), *differing(figures)),
    )


def settings(config: list[dict[str, Any]]) -> tuple[Table, ...]:
    """Return the table of what differs in configuration, none if nothing does."""
    rows = tuple((one["key"], _text(one["a"]), _text(one["b"])) for one in config)
    return (Table("What differs in configuration", ("setting", "A", "B"), rows),) if rows else ()


def differing(figures: list[dict[str, Any]]) -> tuple[Table, ...]:
    """Return the table of the figures that differ, none if none does."""
    rows = tuple(
        (one["key"], _text(one["a"]), _text(one["b"]), _signed(one["difference"]), _ratio(one["ratio"]))
        for one in figures
        if one["a"] != one["b"]
    )
    return (Table("Figures that differ", ("figure", "A", "B", "B - A", "B / A"), rows),) if rows else ()


def same(figures: list[dict[str, Any]]) -> tuple[Table, ...]:
    """Return the table of the other figures, none if all differ."""
    rows = tuple((one["key"], _text(one["a"])) for one in figures if one["a"] == one["b"])
    return (Table("Figures that are the same", ("figure", "A and B"), rows),) if rows else ()


def _side(name: str, facts: dict[str, Any]) -> str:
    command = "" if facts["command_line"] is None else f"; {facts['command_line']}"
    return f"{name}  {facts['file']}: {facts['outcome']}{command}"


def _text(value: Any) -> str:
    if value is None:
        return "n/a"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return count(value)
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _signed(value: float | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:+,}" if isinstance(value, int) else f"{value:+,.6g}"


def _ratio(value: float | None) -> str:
    return "n/a" if value is None else f"{value:,.4g}"
