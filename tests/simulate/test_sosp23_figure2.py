"""Figure 2 of the PagedAttention paper: our shares are exact, and near what is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pagedkv.simulate import Workload, read_trace
from pagedkv.simulate.sosp23_figure2 import POOL, PRINTED, REQUESTS, TOLERANCE, Figure2

from .runs import workload

TRACE = Path("sharegpt-opt-sosp23") / "fig2_requests_rate4_900s_seed0.csv"
ORACLE_NAMES = {"token_states": "token"}


def requests(traces: Path) -> Workload:
    """The lengths alone: all are there at step 0."""
    read = read_trace(traces / TRACE).workload
    return Workload(read.prompt_tokens, read.output_tokens)


def test_the_pool_is_the_papers(oracle: dict[str, Any]) -> None:
    assert POOL.num_blocks == (12 * 2**30 // POOL.layout.token_bytes) // 16 == 983
    printed = {"vllm" if name is None else name: shares for name, shares in PRINTED.items()}
    right = oracle["sosp23_fig2_printed"]
    assert set(printed) == set(right)
    for name, shares in printed.items():
        known = {"token_states": "token", "external_and_free": "external"}
        assert {known.get(share, share): value for share, value in shares.items()} == right[name]


def test_all_shares_are_exact_and_near_the_paper(oracle: dict[str, Any], traces: Path) -> None:
    load = requests(traces)
    assert len(load) == REQUESTS
    result = Figure2(load).run()
    assert (result.failures, result.interrupted) == ((), False)
    assert len(result.shares) == 13
    right = oracle["sosp23_fig2_offline"]
    for share in result.shares:
        if share.reservation is None:
            exact = right["paged_wm9"]["saturated"]["mean_token_utilization"]
        else:
            percent = right[f"{share.reservation}_buddy"]["percent_of_pool_saturated"]
            exact = percent[ORACLE_NAMES.get(share.share, share.share)] / 100
        np.testing.assert_allclose(share.ours, exact, rtol=1e-12, atol=0, err_msg=str(share))
        assert abs(share.difference) <= TOLERANCE == 0.015
    steps = [system.figures["steps"] for system in result.systems]
    assert steps == [right[name]["steps"] for name in ("paged_wm9", "max_buddy", "pow2_buddy", "oracle_buddy")]


def test_another_load_is_a_failure() -> None:
    result = Figure2(workload([(0, 100, 1)] * 200)).run()
    assert len(result.failures) == 1
    assert "shares are more than 1.5% of the pool from the paper's" in result.failures[0]


def test_a_load_without_a_queue_is_a_failure() -> None:
    result = Figure2(workload([(0, 4, 4)])).run()
    assert result.shares == ()
    assert result.failures == ("4 of 4 systems have no step with a queue",)


@pytest.mark.parametrize(("ended_before", "systems"), [(0, 1), (200, 2)])
def test_stopping_keeps_the_systems_that_were_begun(ended_before: int, systems: int) -> None:
    calls: list[int] = []

    def stop(ended: int) -> None:
        calls.append(ended)
        if ended >= ended_before:
            figure.stop()

    figure = Figure2(workload([(0, 100, 1000)] * 200), on_progress=stop)
    result = figure.run()
    assert result.interrupted
    assert [one.interrupted for one in result.systems] == [False] * (systems - 1) + [True]
    assert (result.shares, result.failures) == ((), ())
    assert calls == sorted(calls)
