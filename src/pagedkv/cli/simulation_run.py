"""Carries out `pagedkv simulate`: runs, lets Ctrl-C end it cleanly, and makes the JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pagedkv.cli.simulation_setup import Setup
from pagedkv.cli.simulation_signal import interruptible
from pagedkv.report.document import SCHEMA, Document, versions
from pagedkv.report.progress import RunProgress
from pagedkv.simulate import CacheReplayResult, Simulation, SimulationResult, Trace

EXIT_CODES = {"PASS": 0, "FAIL": 1, "INTERRUPTED": 130}
LISTED_REJECTIONS = 20


def run_document(setup: Setup, *, show_progress: bool, history: bool = False) -> Document:
    """Run and return the document, with the run's history if asked for. Ctrl-C ends the run after its step; a second
    one at once.
    """
    total = setup.config["completions"] if setup.load.workload is None else len(setup.load.workload)
    with RunProgress("requests", total, enabled=show_progress) as progress:
        simulation = Simulation(
            setup.spec,
            setup.load,
            device=setup.choice.device,
            verify=setup.choice.verify,
            history=history,
            on_progress=progress.update,
        )
        memory = simulation.pool.backend.memory_info()
        with interruptible(simulation):
            result = simulation.run()
    device = {
        "name": setup.choice.device,
        "description": setup.choice.description,
        "reason": setup.choice.reason,
        "free_bytes": None if memory is None else memory.free,
        "total_bytes": None if memory is None else memory.total,
    }
    document = _document(setup, result, device)
    return _with_systems(document, setup, result, show_progress=show_progress) if setup.config["compare"] else document


def _document(setup: Setup, result: SimulationResult, device: dict[str, Any]) -> Document:
    config = setup.config | {"max_seq_len": result.comparison.max_seq_len}
    return document_of(result, setup.trace, device, config, [*setup.notes, *_too_long(result)]) | {
        "rejections": [asdict(rejection) for rejection in result.rejections[:LISTED_REJECTIONS]],
        "verification": None if result.verification is None else asdict(result.verification),
        "history": result.history,
        "time": _time(setup, result),
    }


def _time(setup: Setup, result: SimulationResult) -> dict[str, Any] | None:
    """Return the modeled seconds and the model; after the run, a fit knows what lay beyond its measured steps."""
    if setup.load.step_time is None:
        return None
    return {"model": setup.load.step_time.described(), "figures": result.seconds}


def _with_systems(document: Document, setup: Setup, result: SimulationResult, *, show_progress: bool) -> Document:
    """Return the document with the contiguous systems beside the paged run."""
    from pagedkv.cli.simulation_compare import compare_systems

    systems = compare_systems(setup, result, show_progress=show_progress)
    stopped = any(system.interrupted for system in systems)
    outcome = "INTERRUPTED" if stopped and document["outcome"] == "PASS" else document["outcome"]
    return document | {"outcome": outcome, "systems": [asdict(system) for system in systems]}


def document_of(
    result: SimulationResult | CacheReplayResult,
    trace: Trace | None,
    device: dict[str, Any],
    config: dict[str, Any],
    notes: list[str],
) -> Document:
    """Return the document of a run without rejections, verification and history: whoever has those adds them."""
    figures = dict(result.figures)
    figures["dropped_rows_in_whole_file"] = trace.dropped_rows if trace else 0
    figures["bad_rows_in_whole_file"] = trace.bad_rows if trace else 0
    outcome = "INTERRUPTED" if result.interrupted else "PASS"
    return {
        "schema": SCHEMA,
        "command": "simulate",
        "outcome": "FAIL" if result.failures else outcome,
        "versions": versions(),
        "device": device,
        "config": config,
        "figures": figures,
        "systems": None,
        "rejections": [],
        "trace": None if trace is None else trace_facts(trace),
        "verification": None,
        "history": None,
        "time": None,
        "failures": list(result.failures),
        "notes": notes,
    }


def trace_facts(trace: Trace) -> dict[str, Any]:
    """Return what a document says of a trace that was read."""
    return {
        "file": trace.file,
        "format": trace.format,
        "rows": trace.rows,
        "dropped_rows": trace.dropped_rows,
        "bad_rows": trace.bad_rows,
        "was_sorted": trace.was_sorted,
        "skipped": [asdict(row) for row in trace.skipped],
    }


def _too_long(result: SimulationResult) -> list[str]:
    if not result.too_long:
        return []
    length = result.comparison.max_seq_len
    return [
        f"{result.too_long} requests exceed the maximum length {length}: contiguous reservation could not serve them"
    ]
