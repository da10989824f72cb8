"""Short ways to a finished run, its step log, and the comparison of its figures with right values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pagedkv.layout import OpaqueLayout
from pagedkv.simulate import Load, PoolSpec, Simulation, SimulationResult, Workload
from pagedkv.simulate.identities import join_identities
from pagedkv.simulate.observer import Observer
from pagedkv.simulate.scheduler import Scheduler


class StepLog(Observer):
    """Writes down what every measured step looks like, read from the manager itself."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []

    def measured(self, scheduler: Scheduler) -> None:
        ids, manager = scheduler.running.ids, scheduler.manager
        manager.check()
        self.steps.append(
            {
                "step": scheduler.step,
                "running": ids.tolist(),
                "stored": manager.seq_lens(ids).tolist(),
                "blocks": np.diff(manager.csr(ids).indptr).tolist(),
                "used_blocks": manager.get_stats().allocated_blocks,
                "preempted": list(scheduler.preempted),
                "waiting": list(scheduler.waiting),
            }
        )


class GroupLog(StepLog):
    """The same, and what the sequences of a group share."""

    def measured(self, scheduler: Scheduler) -> None:
        super().measured(scheduler)
        stats = scheduler.manager.get_stats()
        self.steps[-1] |= {
            "logical_blocks": stats.logical_blocks,
            "stored_tokens": stats.stored_tokens,
            "copies": stats.cow_copies,
        }
        assert stats.logical_blocks - stats.saved_blocks == stats.allocated_blocks


class ReuseLog(StepLog):
    """The same, and what prefix caching has found and lost up to here."""

    def measured(self, scheduler: Scheduler) -> None:
        super().measured(scheduler)
        stats = scheduler.manager.get_stats()
        self.steps[-1] |= {
            "cached_blocks": stats.cached_blocks,
            "evictions": stats.evictions,
            "queried_tokens": stats.queried_tokens,
            "hit_tokens": stats.hit_tokens,
            "logical_blocks": stats.logical_blocks,
            "stored_tokens": stats.stored_tokens,
        }


def workload(
    requests: Sequence[Sequence[int]], identities: Sequence[Sequence[int]] | None = None, tokens_per_id: int = 1
) -> Workload:
    """Requests (arrival ticks, prompt, output), in file order, and what their prompts hold."""
    rows = np.array(requests, dtype=np.int64).reshape(-1, 3)
    known = None if identities is None else join_identities(identities, tokens_per_id)
    return Workload(rows[:, 1].copy(), rows[:, 2].copy(), rows[:, 0].copy(), known)


def simulate(
    blocks: int, block_size: int, load: Load, *, watermark: int = 0, verify: bool = True
) -> tuple[SimulationResult, list[dict[str, Any]]]:
    """Run with byte verification (unless said otherwise) and return the result and the step log."""
    spec = PoolSpec(OpaqueLayout(24, block_size), blocks, watermark)
    simulation = Simulation(spec, load, device="host" if verify else "null", verify=verify)
    log = ReuseLog() if load.prefix_caching else StepLog() if load.groups.size == 1 else GroupLog()
    simulation.scheduler.observers.append(log)
    return simulation.run(), log.steps


def assert_figures(figures: dict[str, Any], right: dict[str, Any], ignoring: Sequence[str] = ()) -> None:
    """Every integer equal, every float to 1e-12 relative."""
    for name, value in right.items():
        if name in ignoring:
            continue
        if isinstance(value, dict):
            assert_figures(figures[name], value)
        elif isinstance(value, float):
            np.testing.assert_allclose(figures[name], value, rtol=1e-12, atol=0, err_msg=name)
        else:
            assert figures[name] == value, name
