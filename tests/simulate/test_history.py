"""The history by hand-worked cases: preemption, idle gaps, stopping, rejections, sharing, a clock, endless loads."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from pagedkv.layout import OpaqueLayout
from pagedkv.manager import KVCacheManager
from pagedkv.simulate import Groups, Load, PoolSpec, Simulation
from pagedkv.simulate.arrivals import Replay
from pagedkv.simulate.history import HistoryRecorder, Limits
from pagedkv.simulate.history.foresight import least_steps
from pagedkv.simulate.history.sequences import SequenceSpans
from pagedkv.simulate.measure import Recorder
from pagedkv.simulate.scheduler import Scheduler

from .runs import simulate, workload


def history(blocks: int, block_size: int, load: Load, limits: Limits | None = None) -> dict[str, Any]:
    simulation = Simulation(PoolSpec(OpaqueLayout(8, block_size), blocks), load, history=limits or True)
    found = simulation.run().history
    assert found is not None
    return found


def test_nothing_is_recorded_unless_asked_for() -> None:
    result, _ = simulate(4, 4, Load(workload([(0, 4, 9)])))
    assert result.history is None


def test_a_preempted_request_has_two_spans() -> None:
    # At step 5 both have 8 tokens in 2 of 4 blocks and the older one needs a third; it leaves with step 8.
    found = history(4, 4, Load(workload([(0, 4, 9), (0, 4, 9)])))
    assert found["sequences"] == {
        "stride": 1,
        "of": 2,
        "request": [0, 1],
        "arrival_step": [0, 0],
        "prompt_tokens": [4, 4],
        "output_tokens": [9, 9],
        "segments": [[0, 0, 8, "completed"], [1, 0, 4, "preempted"], [1, 9, 12, "completed"]],
    }
    series = found["series"]
    assert series["preemptions"] == [int(step == 5) for step in range(13)]
    assert series["completed"] == [int(step in (8, 12)) for step in range(13)]
    assert series["waiting"]["max"] == [int(5 <= step <= 8) for step in range(13)]
    cells = found["block_map"]["cells"]
    assert [column[0] for column in cells] == [0, 1, -1, -1]
    # The newest's blocks are free in step 5, but for the one that the older request took.
    assert sorted(column[5] for column in cells) == [-1, 0, 0, 0]
    assert sorted(column[9] for column in cells) == [-1, 1, 1, 1]


def test_idle_steps_are_jumped_over_and_seen_as_jumps() -> None:
    found = history(4, 4, Load(workload([(0, 1, 2), (10, 1, 3), (20, 1, 1)]), step_ticks=1), Limits(buckets=4))
    assert found["series"]["steps_per_bucket"] == 2
    assert found["series"]["first_step"] == [0, 10, 12]
    assert found["series"]["last_step"] == [1, 11, 20]
    assert found["series"]["completed"] == [1, 0, 2]
    assert found["block_map"]["steps"] == [0, 1, 10, 11, 12, 20]
    assert found["sequences"]["arrival_step"] == [0, 10, 20]


def test_rejections_before_between_and_after_the_counted_steps() -> None:
    large = (50, 1)
    requests = [(0, *large), (3, 1, 1), (5, *large), (7, *large), (9, 1, 1), (12, *large)]
    found = history(4, 4, Load(workload(requests), step_ticks=1))
    assert found["series"]["first_step"] == [3, 9]
    assert found["series"]["rejected"] == [1, 3]
    assert found["sequences"]["of"] == 6
    assert found["sequences"]["request"] == [1, 4]


def test_a_run_without_a_counted_step_has_an_empty_history() -> None:
    found = history(1, 4, Load(workload([(0, 8, 12)])))
    assert found["series"]["steps_per_bucket"] == 1
    assert found["series"]["first_step"] == found["series"]["rejected"] == found["series"]["running"]["mean"] == []
    assert found["block_map"] == {"block_stride": 1, "blocks": [0], "steps": [], "step_stride": 1, "cells": [[]]}
    assert found["sequences"]["request"] == found["sequences"]["segments"] == []


def test_samples_share_the_full_blocks_of_their_prompt() -> None:
    found = history(16, 4, Load(workload([(0, 9, 2)]), groups=Groups(samples=3)))
    cells = found["block_map"]["cells"]
    assert sorted(column[0] for column in cells) == [-4] * 3 + [-1] * 13
    assert sorted(column[1] for column in cells) == [-4] * 2 + [-1] * 11 + [0] * 3


def test_blocks_of_an_ended_request_are_cached() -> None:
    found = history(8, 4, Load(workload([(0, 9, 1), (5, 4, 1)]), step_ticks=1, prefix_caching=True))
    cells = found["block_map"]["cells"]
    assert sorted(column[1] for column in cells) == [-2, -2, -1, -1, -1, -1, -1, 1]
    assert found["series"]["queried_tokens"] == [9, 4]


def test_a_large_pool_is_shown_as_far_as_it_was_used() -> None:
    found = history(100_000, 4, Load(workload([(0, 4 * 20, 4)])), Limits(blocks=8))["block_map"]
    assert (found["block_stride"], found["blocks"]) == (4, [0, 4, 8, 12, 16, 20, 24, 28])
    assert [row[0] for row in found["cells"]] == [0, 0, 0, 0, 0, -1, -1, -1]
    assert [row[-1] for row in found["cells"]] == [0, 0, 0, 0, 0, 0, -1, -1]


def test_an_endless_load_and_a_long_run_stay_within_the_limits() -> None:
    found = history(4096, 16, Load(None, concurrency=8, completions=1000))
    sequences = found["sequences"]
    assert sequences["of"] >= 1000
    assert sequences["stride"] == 4
    assert sequences["request"] == list(range(0, sequences["of"], 4))
    assert {how for *_, how in sequences["segments"]} == {"completed", "stopped"}
    assert 500 < len(found["series"]["first_step"]) <= 1000
    assert 200 < len(found["block_map"]["steps"]) <= 400
    assert len(found["block_map"]["cells"]) == 256
    assert len(json.dumps(found)) < 2_000_000


def test_the_clock_is_asked_once_a_step_and_kept_at_the_end_of_a_bucket() -> None:
    manager = KVCacheManager(8, 4)
    arrivals = Replay(workload([(0, 4, 5)]))
    measurements = Recorder(4)
    times = iter([0.5, 1.0, 2.0, 4.0, 8.0])
    recorder = HistoryRecorder(manager, arrivals, requests=1, clock=times.__next__, limits=Limits(buckets=3))
    measurements.on_rows = recorder.add_rows
    scheduler = Scheduler(manager, arrivals, measurements)
    scheduler.observers.append(recorder)
    scheduler.run()
    measurements.totals()
    assert recorder.result()["series"]["seconds"] == [1.0, 4.0, 8.0]


def test_what_a_run_takes_at_least() -> None:
    def least(requests: list[tuple[int, int, int]], pool_tokens: int | None, max_seqs: int | None = None) -> int:
        arrival, prompt, output = np.array(requests, dtype=np.int64).reshape(-1, 3).T
        return least_steps(prompt, output, arrival, pool_tokens=pool_tokens, max_seqs=max_seqs)

    assert least([], 100) == 0
    assert least([(0, 1, 5)], 100) == 5
    assert least([(0, 1, 5), (2, 1, 1), (4, 1, 3), (20, 1, 2)], None) == 7 + 2  # an idle gap
    assert least([(0, 10, 4)] * 10, 46) == 9  # 10 + 11 + 12 + 13 tokens each: ten steps of a full pool, rounded down
    assert least([(0, 1, 8)] * 6, 1000, max_seqs=2) == 23  # 24, rounded down


def test_the_stride_of_requests_doubles_until_they_fit_though_every_odd_one_was_rejected() -> None:
    spans = SequenceSpans(None, kept=2)
    for request in (0, 4, 8):
        spans.arrived(request, step=request)
    assert spans.result([1] * 9, [1] * 9, 8)["request"] == [0, 8]
