"""Carries out `pagedkv reproduce fast25-figure9`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pagedkv.cli.reproduce_document import bar, figure_document
from pagedkv.cli.simulation_signal import interruptible
from pagedkv.report.document import Document
from pagedkv.report.progress import RunProgress
from pagedkv.simulate import Trace
from pagedkv.simulate.fast25_figure9 import TOLERANCE, Figure9, Figure9Result


def run_fast25_figure9(trace: Trace, show_progress: bool) -> Document:
    """Run and return the document. Ctrl-C ends the run after its request. Errors: InvalidArgumentError."""
    figure = Figure9(trace.workload)
    with RunProgress("requests", figure.total, enabled=show_progress) as progress, interruptible(figure):
        result = figure.run(on_progress=progress.update)
    identities = trace.workload.identities
    assert identities is not None, "Figure9 refuses such traces"
    config = {
        "block_size": 1,
        "tokens_per_id": identities.tokens_per_id,
        "tokens_a_block": figure.tokens_a_block,
        "tolerance": TOLERANCE,
    }
    points = [asdict(one) | {"ours": one.ours, "difference": one.difference} for one in result.points]
    bars = [
        bar(figure.curve.name, f"{one.capacity_tokens:,} tokens", one.ours, one.printed, one.difference)
        for one in result.points
    ]
    more: dict[str, Any] = {"curve": figure.curve.name, "points": points}
    return figure_document("fast25-figure9", trace, result, config=config, bars=bars, notes=_notes(result), more=more)


def _notes(result: Figure9Result) -> list[str]:
    everything = [point for point in result.points if not point.evictions]
    if not everything or abs(everything[-1].difference) <= TOLERANCE:
        return []
    ours, printed = everything[-1].ours, everything[-1].printed
    return [
        f"where nothing is evicted the rate is the trace's own: {100 * ours:.2f} % here, {100 * printed:.2f} % "
        "printed; so the printed curve is of other requests than this file's, or of another rate"
    ]
