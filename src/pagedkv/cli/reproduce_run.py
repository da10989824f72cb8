"""Carries out `pagedkv reproduce`: the run of each figure, by name."""

from __future__ import annotations

from collections.abc import Callable

from pagedkv.cli.reproduce_fast25_figure9 import run_fast25_figure9
from pagedkv.cli.reproduce_sosp23_figure2 import run_sosp23_figure2
from pagedkv.cli.reproduce_sosp23_figure15 import run_sosp23_figure15
from pagedkv.report.document import Document
from pagedkv.simulate import Trace, read_trace

RUNS: dict[str, Callable[[Trace, bool], Document]] = {
    "sosp23-figure2": run_sosp23_figure2,
    "sosp23-figure15": run_sosp23_figure15,
    "fast25-figure9": run_fast25_figure9,
}


def run_figure(name: str, file: str, *, show_progress: bool) -> Document:
    """Run a figure over the requests of a file and return its document. Ctrl-C ends it with what is known so far.

    Errors: TraceError; InvalidArgumentError for a trace that cannot be this figure's.
    """
    return RUNS[name](read_trace(file), show_progress)
