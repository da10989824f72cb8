"""The JSON document of a figure: what all of them have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pagedkv.cli.simulation_run import trace_facts
from pagedkv.report.document import SCHEMA, Document, versions
from pagedkv.report.reproduction import find_figure
from pagedkv.simulate import Trace


class FigureResult(Protocol):
    """How a figure's run ended. failures: sentences, empty if all is right."""

    @property
    def failures(self) -> tuple[str, ...]: ...
    @property
    def interrupted(self) -> bool: ...


def bar(
    group: str, label: str, ours: float | None, printed: float | Sequence[float] | None, difference: float | None
) -> dict[str, Any]:
    """Return one value of a figure as a share from 0 to 1; printed: a value, a range, or None. Pure."""
    return {
        "group": group,
        "label": label,
        "ours": ours,
        "printed": list(printed) if isinstance(printed, Sequence) else printed,
        "difference": difference,
        "unit": "fraction",
    }


def figure_document(
    name: str,
    trace: Trace,
    result: FigureResult,
    *,
    config: dict[str, Any],
    bars: list[dict[str, Any]],
    notes: list[str],
    more: dict[str, Any],
) -> Document:
    """Return the document; more: what this figure alone has. Pure."""
    figure = find_figure(name)
    outcome = "INTERRUPTED" if result.interrupted else "PASS"
    return {
        "schema": SCHEMA,
        "command": "reproduce",
        "figure": name,
        "paper": figure.paper,
        "title": figure.title,
        "outcome": "FAIL" if result.failures else outcome,
        "versions": versions(),
        "config": {"trace": trace.file} | config,
        "bars": bars,
        **more,
        "trace": trace_facts(trace),
        "failures": list(result.failures),
        "notes": notes,
    }
