"""The recorder of a run, as its load and its pool ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagedkv.simulate.history.foresight import least_steps
from pagedkv.simulate.history.recorder import LIMITS, HistoryRecorder, Limits

if TYPE_CHECKING:
    from pagedkv.manager import KVCacheManager
    from pagedkv.simulate.arrivals import Arrivals
    from pagedkv.simulate.measure import Recorder
    from pagedkv.simulate.simulator import Load
    from pagedkv.simulate.step_time import Clock


def history_recorder(
    load: Load,
    manager: KVCacheManager,
    arrivals: Arrivals,
    measurements: Recorder,
    *,
    clock: Clock | None,
    history: Limits | bool,
) -> HistoryRecorder | None:
    """Return an observer for the run's scheduler that also takes its measurements; None: no history is wanted."""
    if history is False:
        return None
    recorder = HistoryRecorder(
        manager,
        arrivals,
        requests=None if load.workload is None else len(load.workload),
        steps=_least_steps(load, manager),
        group_size=load.groups.size,
        clock=None if clock is None else lambda: clock.now,
        limits=LIMITS if history is True else history,
    )
    measurements.on_rows = recorder.add_rows
    return recorder


def _least_steps(load: Load, manager: KVCacheManager) -> int:
    """Return 0 where nothing is known: the run may end early, or requests share memory."""
    if load.workload is None or load.completions is not None or load.prefix_caching or load.groups.size > 1:
        return 0
    size = manager.block_size
    longest = min((manager.num_blocks - manager.watermark) * size, load.batching.longest_prefill)
    return least_steps(load.workload, pool_tokens=manager.num_blocks * size, longest=longest, max_seqs=load.cap)
