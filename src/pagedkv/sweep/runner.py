"""Runs a sweep: what the store has costs nothing, the rest goes to workers, and every result is kept as it comes."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from pagedkv.errors import PagedKVError
from pagedkv.sweep.dispatch import Dispatch, End
from pagedkv.sweep.job import Failure, Job, make_job
from pagedkv.sweep.keys import content_key
from pagedkv.sweep.local_workers import LocalWorkers
from pagedkv.sweep.program import Configuration, Document, Sweep, resolved
from pagedkv.sweep.store import ResultStore
from pagedkv.sweep.workers import GivenWorkers, Workers


@dataclass(frozen=True, slots=True)
class Outcome:
    """A configuration's end: its document, or why there is none, or neither, if the sweep was stopped before."""

    configuration: Configuration
    key: str
    document: Document | None = None
    failure: Failure | None = None
    from_store: bool = False


@dataclass(frozen=True, slots=True)
class SweepResult:
    """outcomes: in the spec's order, whatever the order of the runs. interrupted: stopped before all had ended."""

    outcomes: tuple[Outcome, ...]
    interrupted: bool


def run_sweep(
    sweep: Sweep,
    *,
    executor: Executor | Workers | None = None,
    store: ResultStore | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> SweepResult:
    """Run what the store does not have, and return all outcomes. Every configuration is checked before the first runs.

    executor: anything with `submit`, which is left open, or Workers, which are closed; None: a local process a CPU,
    where the program's main module must be importable. store: None: nothing is kept. on_progress: told how many have
    ended. Errors: InvalidArgumentError for a configuration that cannot run, which it names, and for a store that cannot
    be written; BackendError for processes that do not start. What a task raises beyond PagedKVError is raised, and what
    had ended before is kept.
    """
    run = SweepRun(sweep, store=store)
    run.check()
    run.run(executor, on_progress=on_progress)
    return run.result()


class SweepRun:
    """One run of a sweep: what the store has is known at once, `run` does the rest, `stop` ends it early.

    missing: how many configurations have to run. Errors: InvalidArgumentError for a file that cannot be read.
    """

    def __init__(self, sweep: Sweep, *, store: ResultStore | None = None) -> None:
        self._sweep = sweep
        self._store = store
        self._jobs: dict[int, Job] = {}
        self._outcomes = {one.number: self._look_up(one) for one in sweep.configurations}
        self._dispatch: Dispatch | None = None
        self._stopped = False
        self._ended = 0
        self.missing = len(self._jobs)

    def check(self) -> None:
        """Refuse the sweep if a configuration that would run cannot. Errors: InvalidArgumentError, which names it."""
        program = self._sweep.program
        for number in self._jobs:
            configuration = self._outcomes[number].configuration
            try:
                program.check(resolved(program, configuration))
            except PagedKVError as error:
                raise self._sweep.located(configuration, error) from error
        if self._store is not None and self._jobs:
            self._store.open()

    def stop(self) -> None:
        """End soon, with the results so far. May be called from anywhere, a signal's handler too."""
        self._stopped = True
        if self._dispatch is not None:
            self._dispatch.stop()

    def run(self, executor: Executor | Workers | None, *, on_progress: Callable[[int], None] | None = None) -> None:
        """Run what is missing. Once; see `run_sweep`."""
        if not self._jobs or self._stopped:
            return
        tell = on_progress or (lambda ended: None)
        dispatch = self._dispatch = Dispatch(self._jobs, on_end=self._take, on_tick=lambda: tell(self._ended))
        dispatch.run(self._workers(executor))

    def result(self) -> SweepResult:
        """Return the outcomes so far."""
        outcomes = tuple(self._outcomes[one.number] for one in self._sweep.configurations)
        return SweepResult(outcomes, any(one.document is None and one.failure is None for one in outcomes))

    def _look_up(self, configuration: Configuration) -> Outcome:
        try:
            key = content_key(self._sweep.program, configuration)
            document = None if self._store is None else self._store.load(key)
            if document is None:
                self._jobs[configuration.number] = make_job(self._sweep.program, configuration)
        except (OSError, ValueError) as error:
            reason = f"{error.filename!r} cannot be read ({error.strerror})" if isinstance(error, OSError) else error
            raise self._sweep.located(configuration, f"{reason}; paths start from the spec's folder") from error
        return Outcome(configuration, key, document, from_store=document is not None)

    def _workers(self, executor: Executor | Workers | None) -> Workers:
        if executor is None:
            return LocalWorkers(min(os.cpu_count() or 1, self.missing))
        return executor if isinstance(executor, Workers) else GivenWorkers(executor)

    def _take(self, number: int, end: End) -> None:
        if isinstance(end, Failure):
            self._outcomes[number] = replace(self._outcomes[number], failure=end)
        elif end.get("outcome") == "INTERRUPTED":
            return  # its worker was told to stop: no result
        else:
            if self._store is not None:
                self._store.save(self._outcomes[number].key, end)
            self._outcomes[number] = replace(self._outcomes[number], document=end)
        self._ended += 1
