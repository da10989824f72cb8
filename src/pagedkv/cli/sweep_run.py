"""Carries out `pagedkv sweep`: reads the spec, runs what the store does not have, and makes the JSON document."""

from __future__ import annotations

import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pagedkv.arguments import whole_number
from pagedkv.cli.files import keep_apart
from pagedkv.cli.simulation_signal import interruptible
from pagedkv.cli.sweep_program import simulation_program
from pagedkv.errors import InvalidArgumentError
from pagedkv.report.document import SCHEMA, Document, versions
from pagedkv.report.progress import RunProgress
from pagedkv.sweep import (
    DaskWorkers,
    LocalWorkers,
    Outcome,
    ResultStore,
    Sweep,
    SweepResult,
    SweepRun,
    Workers,
    read_sweep,
)
from pagedkv.sweep.dask_workers import check_address
from pagedkv.sweep.program import files_of, resolved

MOST_WORKERS = 1024
_OF_A_RUN = ("figures", "systems", "time", "failures", "notes")


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """The options as they were given; None: not given."""

    spec: str
    store: str | None = None
    workers: int | None = None
    dask: str | None = None
    csv: str | None = None
    json: str | None = None


def run_sweep_document(options: SweepOptions, *, show_progress: bool) -> Document:
    """Run and return the document. Ctrl-C ends the sweep with what has ended. Errors: PagedKVError of any kind."""
    _check(options)
    sweep = read_sweep(options.spec, simulation_program())
    _keep_apart(sweep, options)
    folder = store_folder(options)
    run = SweepRun(sweep, store=ResultStore(folder))
    run.check()
    if run.missing:
        label = "configurations"
        with (
            RunProgress(label, run.missing, enabled=show_progress, remaining=True) as progress,
            interruptible(run),
        ):
            run.run(_workers(options, run.missing), on_progress=progress.update)
    config = {
        "spec": options.spec,
        "store": str(folder),
        "configurations": len(sweep.configurations),
        "varied": [sweep.program.options[name].shown for name in sweep.varied],
    }
    return _document(config, run.result())


def store_folder(options: SweepOptions) -> Path:
    """Where results are kept: beside the spec, unless another place is given."""
    return Path(options.spec).with_suffix(".results") if options.store is None else Path(options.store)


def _check(options: SweepOptions) -> None:
    if options.workers is not None:
        whole_number(options.workers, "--workers", minimum=1, maximum=MOST_WORKERS)
        if options.dask is not None:
            raise InvalidArgumentError("--workers are processes here and --dask is a cluster's; give one of them")
    if options.dask is not None:
        check_address(options.dask)
    if options.store == "" or "\0" in f"{options.store}{options.spec}":
        raise InvalidArgumentError("--store and the spec are names of a folder and a file; give them, without NUL")
    if not Path(options.spec).name:
        raise InvalidArgumentError(f"{options.spec!r} is no file; give a spec in TOML")


def _keep_apart(sweep: Sweep, options: SweepOptions) -> None:
    """Refuse to write a result over a file that the spec names."""
    read = {options.spec: "spec"}
    for one in sweep.configurations:
        found = files_of(sweep.program, resolved(sweep.program, one))
        read |= {file: sweep.program.options[name].shown for name, file in found.items()}
    keep_apart({f"{what} {file}": file for file, what in read.items()}, {"--csv": options.csv, "--json": options.json})


def _workers(options: SweepOptions, missing: int) -> Workers:
    if options.dask is not None:
        workers = DaskWorkers(options.dask)
        for name in ("distributed", "distributed.client"):  # a lost connection is a row's reason, not a traceback
            logging.getLogger(name).setLevel(logging.CRITICAL)
        return workers
    return LocalWorkers(min(missing, options.workers or cpus()))


def cpus() -> int:
    """Return the CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _document(config: dict[str, Any], result: SweepResult) -> Document:
    rows = [_row(outcome) for outcome in result.outcomes]
    failed = sum(row["outcome"] in ("FAIL", "ERROR") for row in rows)
    ran = sum(not one.from_store and (one.document or one.failure) is not None for one in result.outcomes)
    outcome = "FAIL" if failed else "PASS"
    return {
        "schema": SCHEMA,
        "command": "sweep",
        "outcome": "INTERRUPTED" if result.interrupted else outcome,
        "versions": versions(),
        "config": config,
        "work": {"ran": ran, "from_store": sum(one.from_store for one in result.outcomes)},
        "configurations": rows,
        "failures": [f"{failed} of {len(rows)} configurations failed"] if failed else [],
        "notes": [],
    }


def _row(outcome: Outcome) -> dict[str, Any]:
    document = outcome.document or {}
    ended = "INTERRUPTED" if outcome.failure is None else "ERROR"
    return {
        "number": outcome.configuration.number,
        "name": outcome.configuration.name,
        "options": dict(outcome.configuration.given),
        "key": outcome.key,
        "outcome": document.get("outcome", ended),
        "error": None if outcome.failure is None else asdict(outcome.failure),
        **{name: document.get(name) for name in _OF_A_RUN},
    }
