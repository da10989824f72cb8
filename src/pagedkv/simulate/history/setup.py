"""The recorder of a run, as its load and its pool ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagedkv.simulate.history.foresight import least_steps
from pagedkv.simulate.history.recorder import LIMITS, HistoryRecorder, Limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagedkv.manager import KVCacheManager
    from pagedkv.simulate.arrivals import Arrivals
    from pagedkv.simulate.measure import Recorder
    from pagedkv.simulate.simulator import Load
    from pagedkv.simulate.step_time import Clock
    from pagedkv.simulate.workload import Workload


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
        steps=foreseen_steps(load, manager),
        group_size=load.groups.size,
        clock=None if clock is None else lambda: clock.now,
        limits=LIMITS if history is True else history,
    )
    measurements.on_rows = recorder.add_rows
    return recorder


def foreseen_steps(load: Load, manager: KVCacheManager) -> int:
    """Return 0 where nothing is known: the run may end early, or a request is more than a sequence."""
    workload = load.workload
    if workload is None or load.completions is not None or load.groups.size > 1:
        return 0
    size = manager.block_size
    longest = min((manager.num_blocks - manager.watermark) * size, load.batching.longest_prefill)
    prompt, output = workload.prompt_tokens, workload.output_tokens
    runs = prompt + output - 1 <= longest  # the others are rejected
    pool_tokens = None if load.prefix_caching else manager.num_blocks * size
    return least_steps(
        prompt[runs], output[runs], _arrival_steps(load, workload)[runs], pool_tokens=pool_tokens, max_seqs=load.cap
    )


def _arrival_steps(load: Load, workload: Workload) -> NDArray[np.int64]:
    """Return when requests come at the earliest."""
    ticks = workload.arrival_ticks
    if ticks is None or load.step_ticks is None or load.closed:
        return np.zeros(len(workload), dtype=np.int64)
    return (ticks - ticks[:1]) // load.step_ticks
