"""Figure 15 of the PagedAttention paper (parallel sampling, ShareGPT): exact values, from the manager's statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pagedkv.layout import OpaqueLayout
from pagedkv.simulate import Groups, Load, PoolSpec, Simulation, Workload

from .sharegpt import read_sharegpt

LAYOUT = OpaqueLayout(24, 16)


@pytest.fixture(scope="module")
def sharegpt(traces: Path) -> Workload:
    return read_sharegpt(traces)


@pytest.fixture(scope="module")
def right(oracle: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = oracle["sosp23_fig15_sharegpt"]
    return values


def test_the_lengths_are_those_of_the_values(sharegpt: Workload, right: dict[str, Any]) -> None:
    assert len(sharegpt) == right["rows"]
    assert float(sharegpt.prompt_tokens.mean()) == pytest.approx(right["mean_p"], rel=1e-12)
    assert float(sharegpt.output_tokens.mean()) == pytest.approx(right["mean_o"], rel=1e-12)


@pytest.mark.parametrize("samples", [2, 4])
def test_blocks_of_20000_groups_summed_over_all_steps(sharegpt: Workload, right: dict[str, Any], samples: int) -> None:
    # All at once, in a pool that never runs out: how groups are scheduled does not change what one of them holds.
    load = Load(sharegpt.first(20_000), groups=Groups(samples=samples))
    result = Simulation(PoolSpec(LAYOUT, 2**21), load).run()
    pooled, figures = right[f"n{samples}"]["pooled_first_20000"], result.figures
    assert figures["sum_logical_blocks_over_steps"] == pooled["logical"]
    assert figures["sum_allocated_blocks_over_steps"] == pooled["physical"]
    assert figures["pooled_sharing_saving"] == pytest.approx(pooled["saving"], rel=1e-12)
    assert (figures["completed"], figures["preemptions"], figures["saturated_steps"]) == (20_000, 0, 0)
    assert not result.failures


@pytest.mark.parametrize("samples", [2, 4])
def test_a_replay_that_admits_by_final_footprint(sharegpt: Workload, right: dict[str, Any], samples: int) -> None:
    load = Load(sharegpt.first(2000), groups=Groups(samples=samples, admission="final"))
    result = Simulation(PoolSpec(LAYOUT, 983), load).run()
    replay, figures = right[f"n{samples}"]["replay_first_2000_N983"], result.figures
    assert figures["saturated_steps"] == replay["steps"]
    assert figures["saturated_sharing_ratio"] == pytest.approx(replay["mean_ratio"], rel=1e-12)
    assert figures["saturated_sharing_saving"] == pytest.approx(replay["saving"], rel=1e-12)
    assert figures["saturated"]["mean_running"] == pytest.approx(replay["mean_running_groups"], rel=1e-12)
    assert (figures["completed"], figures["rejected"], figures["preemptions"]) == (2000, 0, 0)
    assert not result.failures
