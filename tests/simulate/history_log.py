"""The history of a run out of a full log of its steps: every bucket, cell and span worked out once more, plainly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from unittest import mock

from pagedkv.layout import OpaqueLayout
from pagedkv.simulate import Load, PoolSpec, Simulation, SimulationResult, measure
from pagedkv.simulate.history import Limits
from pagedkv.simulate.scheduler import Scheduler

from .runs import StepLog

FREE = {"CLEAN": -1, "CACHED": -2, "PENDING": -3}
LEVELS = ("allocated_blocks", "stored_tokens", "running", "waiting")
FOUND = ("queried_tokens", "hit_tokens", "evictions")


class FullLog(StepLog):
    """Every measured step with every block's cell and the event counts up to it; done: requests that completed."""

    def __init__(self) -> None:
        super().__init__()
        self.done: set[int] = set()
        self._group_size = 1

    def ending(self, seq_ids: Sequence[int]) -> None:
        self.done |= {seq_id // self._group_size for seq_id in seq_ids}

    def measured(self, scheduler: Scheduler) -> None:
        super().measured(scheduler)
        manager, size = scheduler.manager, scheduler.running.group_size
        self._group_size = size
        stats = manager.get_stats()
        cells: list[int] = []
        owners: list[list[int]] = [[] for _ in range(manager.num_blocks)]
        for seq_id in self.steps[-1]["running"]:
            for block in manager.get_page_table(seq_id).entries.tolist():
                owners[block].append(seq_id // size)
        for block, held in enumerate(owners):
            state = manager.allocator.block(block).state.name
            cells.append(FREE[state] if not held else held[0] if len(held) == 1 else -4)
        requests = sorted({seq_id // size for seq_id in self.steps[-1]["running"]})
        self.steps[-1] |= {"requests": requests, "cells": cells, "stored_tokens": stats.stored_tokens}
        self.steps[-1] |= {"completed": scheduler.counters.completed, "rejected": len(scheduler.rejections)}
        self.steps[-1] |= {name: getattr(stats, name) for name in FOUND}
        self.steps[-1] |= {"seconds": None if scheduler.clock is None else scheduler.clock.now}


def recorded(
    blocks: int, block_size: int, load: Load, limits: Limits, *, watermark: int = 0, chunk: int = 5, stop_at: int = -1
) -> tuple[SimulationResult, FullLog]:
    """Run with history and a full log, summed `chunk` steps at a time; stop_at: stop() in this counted step."""

    class Log(FullLog):
        def measured(self, scheduler: Scheduler) -> None:
            super().measured(scheduler)
            if len(self.steps) - 1 == stop_at:
                simulation.stop()

    simulation = Simulation(PoolSpec(OpaqueLayout(24, block_size), blocks, watermark), load, history=limits)
    log = Log()
    simulation.scheduler.observers.append(log)
    with mock.patch.object(measure, "CHUNK", chunk):
        return simulation.run(), log


def doubled(amount: int, limit: int, stride: int = 1) -> int:
    """The least doubling of `stride` with which `amount` things make at most `limit`."""
    while -(-amount // stride) > limit:
        stride *= 2
    return stride


def series_of(log: list[dict[str, Any]], figures: dict[str, Any], limit: int, *, timed: bool) -> dict[str, Any]:
    """The right series."""
    stride = doubled(len(log), limit)
    cuts = [log[start : start + stride] for start in range(0, len(log), stride)]
    right: dict[str, Any] = {
        "steps_per_bucket": stride,
        "first_step": [cut[0]["step"] for cut in cuts],
        "last_step": [cut[-1]["step"] for cut in cuts],
        "seconds": [cut[-1]["seconds"] for cut in cuts] if timed else None,
    }
    for name in LEVELS:
        values = [[_level(step, name) for step in cut] for cut in cuts]
        right[name] = {
            "min": [min(v) for v in values],
            "mean": [sum(v) / len(v) for v in values],
            "max": [max(v) for v in values],
        }
    right["preemptions"] = [sum(len(step["preempted"]) for step in cut) for cut in cuts]
    ends = [*range(stride, len(log), stride), len(log)] if log else []
    for name in FOUND:  # known at the end of a bucket's last step
        right[name] = _differences([0, *(log[end - 1][name] for end in ends)])
    for name in ("rejected", "completed"):  # what follows the last step belongs to it
        totals = [log[end - (name == "rejected")][name] for end in ends[:-1]]
        right[name] = _differences([0, *totals, figures[name]]) if log else []
    return right


def spans_of(log: list[dict[str, Any]], done: set[int], requests: int) -> list[list[Any]]:
    """The right running spans of all requests, from who ran in which step."""
    spans: list[list[Any]] = []
    for request in range(requests):
        steps = [step["step"] for step in log if request in step["requests"]]
        firsts = [step for step in steps if step - 1 not in steps]
        lasts = [step for step in steps if step + 1 not in steps]
        for number, (first, last) in enumerate(zip(firsts, lasts, strict=True), start=1):
            how = "preempted"
            if number == len(firsts):
                how = "completed" if request in done else "stopped" if last == log[-1]["step"] else how
            spans.append([request, first, last, how])
    return spans


def arrivals_of(log: list[dict[str, Any]]) -> dict[int, int]:
    """Request -> the step in which it was first seen: it waits or runs from its arrival on."""
    seen: dict[int, int] = {}
    for step in log:
        for request in (*step["requests"], *step["waiting"]):
            seen.setdefault(request, step["step"])
    return seen


def _level(step: dict[str, Any], name: str) -> int:
    if name == "waiting":
        return len(step["waiting"])
    return {
        "allocated_blocks": step["used_blocks"],
        "stored_tokens": step["stored_tokens"],
        "running": len(step["requests"]),
    }[name]


def _differences(totals: list[int]) -> list[int]:
    return [after - before for before, after in pairwise(totals)]
