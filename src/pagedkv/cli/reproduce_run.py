"""Carries out `pagedkv reproduce sosp23-figure2`: reads the requests, runs the systems, and makes the JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pagedkv.cli.simulation_run import trace_facts
from pagedkv.cli.simulation_signal import interruptible
from pagedkv.report.document import SCHEMA, Document, versions
from pagedkv.report.progress import RunProgress
from pagedkv.simulate import Trace, read_trace
from pagedkv.simulate.sosp23_figure2 import (
    MAX_SEQ_LEN,
    PLACEMENT,
    POOL,
    PRINTED,
    REQUESTS,
    TOLERANCE,
    Figure2,
    Figure2Result,
)


def run_figure2(file: str, *, show_progress: bool) -> Document:
    """Run and return the document. Ctrl-C ends the run after its step. Errors: TraceError."""
    trace = read_trace(file)
    with RunProgress("requests", len(PRINTED) * len(trace.workload), enabled=show_progress) as progress:
        figure = Figure2(trace.workload, on_progress=progress.update)
        with interruptible(figure):
            result = figure.run()
    outcome = "INTERRUPTED" if result.interrupted else "PASS"
    return {
        "schema": SCHEMA,
        "command": "reproduce",
        "figure": "sosp23-figure2",
        "outcome": "FAIL" if result.failures else outcome,
        "versions": versions(),
        "config": _config(file),
        "systems": [asdict(system) for system in result.systems],
        "shares": [asdict(share) | {"difference": share.difference} for share in result.shares],
        "trace": trace_facts(trace),
        "failures": list(result.failures),
        "notes": _notes(trace, result),
    }


def _config(file: str) -> dict[str, Any]:
    return {
        "trace": file,
        "blocks": POOL.num_blocks,
        "pool_bytes": POOL.nbytes,
        "block_size": POOL.layout.block_size,
        "token_bytes": POOL.layout.token_bytes,
        "max_seq_len": MAX_SEQ_LEN,
        "watermark": POOL.watermark,
        "placement": PLACEMENT,
        "tolerance": TOLERANCE,
    }


def _notes(trace: Trace, result: Figure2Result) -> list[str]:
    notes = []
    if (requests := len(trace.workload)) != REQUESTS:
        notes.append(f"the paper's sequence has {REQUESTS:,} requests, this trace {requests:,}: it is another load")
    if rejected := max(system.figures["rejected"] for system in result.systems):
        notes.append(f"{rejected:,} requests are longer than {MAX_SEQ_LEN:,} tokens and take no part in some system")
    return notes
