"""Sweeps: many configurations of one program, on any executor, each result stored under its content's key.

program (what can be swept) -> spec (a TOML file's grid) -> keys, store (results on disk) -> job (what a worker does)
-> workers (local processes, Dask, any executor) -> runner

Nothing here knows the simulator: a Program brings its options, its task and its check.
"""

from __future__ import annotations

from pagedkv.sweep.dask_workers import DaskWorkers
from pagedkv.sweep.local_workers import LocalWorkers
from pagedkv.sweep.program import Configuration, Option, Program, Sweep
from pagedkv.sweep.runner import Outcome, SweepResult, SweepRun, run_sweep
from pagedkv.sweep.spec import read_sweep
from pagedkv.sweep.store import ResultStore
from pagedkv.sweep.workers import GivenWorkers, Verdict, Workers

__all__ = [
    "Configuration",
    "DaskWorkers",
    "GivenWorkers",
    "LocalWorkers",
    "Option",
    "Outcome",
    "Program",
    "ResultStore",
    "Sweep",
    "SweepResult",
    "SweepRun",
    "Verdict",
    "Workers",
    "read_sweep",
    "run_sweep",
]
