"""A page as plain data: what its parts are and say, from documents."""

from __future__ import annotations

from dataclasses import dataclass

from pagedkv.report.dispatch import report_of
from pagedkv.report.document import Document
from pagedkv.report.html.chart import Chart
from pagedkv.report.html.charts_map import map_charts
from pagedkv.report.html.charts_paper import paper_charts
from pagedkv.report.html.charts_plan import plan_charts
from pagedkv.report.html.charts_sequences import sequence_charts
from pagedkv.report.html.charts_series import series_charts
from pagedkv.report.html.charts_systems import contiguous_charts, systems_charts
from pagedkv.report.html.charts_time import time_charts
from pagedkv.report.html.tiles import tiles
from pagedkv.report.model import Line, Report, Section, Table


@dataclass(frozen=True, slots=True)
class Group:
    """Charts below one heading. name: its id in the page."""

    name: str
    title: str
    charts: tuple[Chart, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """tiles: the few figures that are read first; lead, tables: those before the charts, and after them; command: the
    command line of the run, None if it is not known.
    """

    report: Report
    tiles: tuple[Line, ...]
    lead: tuple[Table, ...]
    groups: tuple[Group, ...]
    sections: tuple[Section, ...]
    tables: tuple[Table, ...]
    command: str | None
    versions: tuple[tuple[str, str], ...]


def page_of(document: Document) -> Page:
    """Return the page of a document of simulate, plan or reproduce. Pure."""
    report = report_of(document)
    return Page(
        report=report,
        tiles=tiles(document),
        lead=(),
        groups=tuple(group for group in _groups(document) if group.charts or group.note),
        sections=_sections(document, report),
        tables=report.tables,
        command=document.get("command_line"),
        versions=tuple((name, str(version)) for name, version in document["versions"].items()),
    )


def _sections(document: Document, report: Report) -> tuple[Section, ...]:
    """Return the figures in words; bars of characters are left out where there are charts of the same."""
    return () if document["command"] == "reproduce" else report.sections


def _groups(document: Document) -> tuple[Group, ...]:
    if document["command"] == "plan":
        simulated = document["simulation"]
        run = () if simulated is None else _groups({"systems": None, **simulated, "command": "simulate"})
        return (Group("plan", "What fits", plan_charts(document)), *run)
    return (
        Group("against-the-paper", "Against the paper", paper_charts(document)),
        Group("time-lines", "Over time", series_charts(document), _unrecorded(document)),
        Group("block-maps", "Where the blocks are", map_charts(document)),
        Group("gantt", "Sequences", sequence_charts(document)),
        Group("baselines", "Against contiguous reservation", (*systems_charts(document), *contiguous_charts(document))),
        Group("modeled", "Modeled time", time_charts(document)),
    )


def _unrecorded(document: Document) -> str:
    """Say why a run in steps has no charts over time."""
    if document["command"] != "simulate" or document.get("history") or document["config"].get("cache_only"):
        return ""
    return "What happened over time was not recorded in this result."
