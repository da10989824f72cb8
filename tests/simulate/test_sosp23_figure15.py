"""Figure 15 of the PagedAttention paper, ShareGPT: our savings are exact, and within the printed range."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate import read_trace, sosp23_figure15
from pagedkv.simulate.sosp23_figure15 import END_TOLERANCE, PRINTED, REQUESTS, SAMPLES, TOLERANCE, Figure15, range_ends

from .brute_force_groups import GroupBruteForce
from .runs import workload
from .sharegpt import FILE, read_sharegpt


def pooled_by_formula(requests: list[tuple[int, int]], samples: int, size: int = 16) -> tuple[int, int]:
    """Logical and physical blocks of all groups over all steps, group by group and step by step."""
    logical = physical = 0
    for prompt, output in requests:
        tokens = -(-(prompt + np.arange(output)) // size)
        logical += samples * int(tokens.sum())
        shared = prompt // size
        physical += -(-prompt // size) + int((shared + samples * (tokens[1:] - shared)).sum())
    return logical, physical


def test_the_printed_range_is_the_papers(oracle: dict[str, Any]) -> None:
    printed = oracle["sosp23_fig15_printed"]["sharegpt_parallel_range"]
    assert [round(100 * end, 10) for end in PRINTED] == printed


def test_all_savings_are_exact_and_near_the_paper(oracle: dict[str, Any], traces: Path) -> None:
    right = oracle["sosp23_fig15_sharegpt"]
    figure = Figure15(read_trace(traces / FILE, strict=True).workload)
    assert figure.requests == REQUESTS == right["rows"]
    calls: list[int] = []
    result = figure.run(on_progress=calls.append)
    assert (result.failures, result.interrupted) == ((), False)
    assert calls == sorted(calls)
    assert calls[-1] <= figure.total == 3 * 22_000
    found = {(one.method, one.samples): one for one in result.savings}
    assert set(found) == {(method, samples) for method in ("pooled", "replay") for samples in SAMPLES}
    for samples in (2, 4):
        exact = right[f"n{samples}"]
        pooled, replay = found["pooled", samples], found["replay", samples]
        assert pooled.logical_blocks == exact["pooled_first_20000"]["logical"]
        assert pooled.physical_blocks == exact["pooled_first_20000"]["physical"]
        assert pooled.saving == pytest.approx(exact["pooled_first_20000"]["saving"], rel=1e-12)
        assert replay.saving == pytest.approx(exact["replay_first_2000_N983"]["saving"], rel=1e-12)
        assert replay.steps == exact["replay_first_2000_N983"]["steps"]
    # The exact values end at 4 samples: of 6, the formula says what the manager must have counted.
    load = read_sharegpt(traces).first(20_000)
    pairs = list(zip(load.prompt_tokens.tolist(), load.output_tokens.tolist(), strict=True))
    pooled = found["pooled", 6]
    assert (pooled.logical_blocks, pooled.physical_blocks) == pooled_by_formula(pairs, 6)
    for one in result.savings:
        assert one.saving is not None
        assert PRINTED[0] - TOLERANCE <= one.saving <= PRINTED[1] + TOLERANCE
    for _, ours, printed in range_ends(result.savings):
        assert abs(ours - printed) <= END_TOLERANCE
    assert {one.requests for one in result.savings} == {20_000, 2000}


def test_small_loads_are_those_of_page_tables_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    pooled, replay = sosp23_figure15.METHODS
    small = replace(replay, pool=replace(replay.pool, num_blocks=60))
    monkeypatch.setattr(sosp23_figure15, "METHODS", (pooled, small))
    random = np.random.default_rng(5)
    pairs = [(int(p), int(o)) for p, o in random.integers(1, 90, (20, 2))]
    result = Figure15(workload([(0, p, o) for p, o in pairs])).run()
    for one in result.savings:
        if one.method == "pooled":
            assert (one.logical_blocks, one.physical_blocks) == pooled_by_formula(pairs, one.samples)
            continue
        brute = GroupBruteForce([(0, p, o) for p, o in pairs], 60, 16, one.samples, final=True)
        assert one.steps == brute.figures["saturated_steps"]
        assert one.saving is not None
        assert one.saving == pytest.approx(1 - len(brute.ratios) / sum(brute.ratios), rel=1e-9)


def test_another_load_is_a_failure() -> None:
    long_answers = Figure15(workload([(0, 16, 2000)] * 20)).run()
    assert any("outside of the paper's 16.2% to 30.5%" in failure for failure in long_answers.failures)
    assert any("pooled: the greatest saving is" in failure for failure in long_answers.failures)
    without_queue = Figure15(workload([(0, 64, 64)])).run()
    assert "3 of 6 runs have no step with a queue" in without_queue.failures


def test_requests_longer_than_the_model_take_no_part() -> None:
    figure = Figure15(workload([(0, 1000, 1047), (0, 1000, 1048)]))
    assert figure.requests == 1
    with pytest.raises(InvalidArgumentError, match="no request of the trace has less than 2048 tokens"):
        Figure15(workload([(0, 1000, 1048)]))


def test_stopping_keeps_the_savings_that_are_known() -> None:
    # All at once, 40 requests take 2000 steps; few at a time more than 4096, so the first word of progress is theirs.
    figure = Figure15(workload([(0, 40, 2000)] * 40))
    result = figure.run(on_progress=lambda ended: figure.stop())
    assert result.interrupted
    assert [one.method for one in result.savings] == ["pooled"] * 3
    assert result.failures == ()
    stopped = Figure15(workload([(0, 40, 2000)]))
    stopped.stop()
    assert stopped.run().savings == ()
