"""Workloads: the base case's draws, and lengths and times that are refused."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate import Load, Workload, base_case, base_case_requests

from .runs import simulate, workload


def test_base_case_draws_prompt_then_total_from_one_generator() -> None:
    # random.Random(42): randint(4, 32) = 24 and randint(32, 256) = 60, then 4 and 221.
    assert list(islice(base_case_requests(42), 2)) == [(24, 37), (4, 218)]
    load = base_case(100, 42)
    assert int(load.prompt_tokens.min()) >= 4
    assert int((load.prompt_tokens + load.output_tokens).max()) <= 257


@pytest.mark.parametrize("completions", [0, -1, 1.0, True, 10**7 + 1, "100", float("nan")])
def test_bad_completions(completions: object) -> None:
    with pytest.raises(InvalidArgumentError, match="completions"):
        base_case(completions, 42)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [-1, 1.5, None, 2**63])
def test_bad_seed(seed: object) -> None:
    with pytest.raises(InvalidArgumentError, match="seed"):
        base_case(1, seed)  # type: ignore[arg-type]


@pytest.mark.parametrize(("prompt", "output"), [([0], [1]), ([1], [0]), ([-1], [1]), ([2**31], [1]), ([1, 2], [1])])
def test_bad_lengths(prompt: list[int], output: list[int]) -> None:
    with pytest.raises(InvalidArgumentError):
        Workload(np.array(prompt, dtype=np.int64), np.array(output, dtype=np.int64))


@pytest.mark.parametrize("ticks", [[1, 0], [-1, 0], [0]])
def test_bad_arrivals(ticks: list[int]) -> None:
    ones = np.ones(2, dtype=np.int64)
    with pytest.raises(InvalidArgumentError):
        Workload(ones, ones, np.array(ticks, dtype=np.int64))


@pytest.mark.parametrize("step_ticks", [0, -5, 2.5])
def test_bad_step(step_ticks: object) -> None:
    with pytest.raises(InvalidArgumentError, match="step_ticks"):
        simulate(8, 4, Load(workload([(0, 1, 1)]), step_ticks=step_ticks))  # type: ignore[arg-type]


def test_idle_time_is_jumped_over_and_not_counted() -> None:
    result, log = simulate(8, 4, Load(workload([(0, 4, 2), (10**15, 4, 1)]), step_ticks=10))
    assert [step["step"] for step in log] == [0, 1, 10**14]
    assert result.figures["steps"] == 3


def test_a_huge_request_is_rejected_not_overflowed() -> None:
    result, _ = simulate(8, 4, Load(workload([(0, 2**31 - 1, 2**31 - 1), (0, 1, 1)])))
    assert result.figures["rejected"] == 1
    assert result.rejections[0].needed == (2**32 - 3 + 3) // 4
    assert result.figures["completed"] == 1
