"""Carries out `pagedkv reproduce sosp23-figure15`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pagedkv.cli.reproduce_document import bar, figure_document
from pagedkv.cli.simulation_signal import interruptible
from pagedkv.report.document import Document
from pagedkv.report.progress import RunProgress
from pagedkv.simulate import Trace
from pagedkv.simulate.sosp23_figure15 import (
    END_TOLERANCE,
    METHODS,
    MODEL_LENGTH,
    PRINTED,
    REQUESTS,
    SAMPLES,
    TOLERANCE,
    Figure15,
    range_ends,
)

_MEANS = {
    "pooled": "all at once, blocks summed over all steps",
    "replay": "admitted by final footprint, mean over the steps with a queue",
}


def run_sosp23_figure15(trace: Trace, show_progress: bool) -> Document:
    """Run and return the document. Ctrl-C ends the run after its step. Errors: InvalidArgumentError."""
    figure = Figure15(trace.workload)
    with RunProgress("requests", figure.total, enabled=show_progress) as progress, interruptible(figure):
        result = figure.run(on_progress=progress.update)
    savings = [asdict(one) | {"difference": one.difference} for one in result.savings]
    ends = [] if result.interrupted else range_ends(result.savings)
    more = {
        "savings": savings,
        "range_ends": [{"name": name, "ours": ours, "printed": printed} for name, ours, printed in ends],
    }
    bars = [bar(one.method, f"{one.samples} samples", one.saving, PRINTED, one.difference) for one in result.savings]
    notes = _notes(trace, figure.requests)
    return figure_document(
        "sosp23-figure15", trace, result, config=_config(figure.requests), bars=bars, notes=notes, more=more
    )


def _config(requests: int) -> dict[str, Any]:
    layout = METHODS[0].pool.layout
    methods = [
        {
            "name": method.name,
            "groups": min(method.groups, requests),
            "blocks": method.pool.num_blocks,
            "admission": method.admission,
            "means": _MEANS[method.name],
        }
        for method in METHODS
    ]
    return {
        "requests": requests,
        "model_length": MODEL_LENGTH,
        "samples": list(SAMPLES),
        "block_size": layout.block_size,
        "token_bytes": layout.token_bytes,
        "methods": methods,
        "tolerance": TOLERANCE,
        "end_tolerance": END_TOLERANCE,
    }


def _notes(trace: Trace, requests: int) -> list[str]:
    if requests == REQUESTS:
        return []
    return [
        f"the paper's list has {REQUESTS:,} requests below {MODEL_LENGTH:,} tokens, this trace {requests:,} of "
        f"{len(trace.workload):,}: it is another load"
    ]
