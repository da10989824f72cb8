"""Contiguous systems: exact values of two independent programs, a third one step by step, conservation, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv.errors import InvalidArgumentError
from pagedkv.layout import OpaqueLayout
from pagedkv.simulate import Groups, Load, PoolSpec, Simulation, Workload, base_case, read_trace
from pagedkv.simulate.measure import Recorder
from pagedkv.simulate.reservation import ALL_SYSTEMS, ContiguousSystem, SideBySide, paged_system
from pagedkv.simulate.reservation.scheduler import ReservationScheduler

from .brute_force_contiguous import BruteForceContiguous, Log
from .runs import workload
from .sharegpt import MODEL_LENGTH, read_sharegpt

SHARES = ("token_states", "reservation", "internal", "external_and_free")
ORACLE_SHARES = ("token", "reservation", "internal", "external_and_free")
COUNTS = ("requests", "rejected", "completed", "steps", "saturated_steps", "peak_running", "peak_reserved_tokens")
REQUESTS = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=12).map(
    sorted
)
SHAREGPT = ("max_buddy", "pow2_buddy", "oracle_buddy")
FIGURE2 = (*SHAREGPT, "max_first_fit", "oracle_counting")
FIGURE2_TRACE = Path("sharegpt-opt-sosp23") / "fig2_requests_rate4_900s_seed0.csv"


def system(name: str) -> ContiguousSystem:
    return ContiguousSystem(*name.split("_", 1))


def assert_right(name: str, load: Load, right: dict[str, Any], *, blocks: int, longest: int) -> None:
    """Every integer equal, every share to 1e-12 relative."""
    spec = PoolSpec(OpaqueLayout(512, 16), blocks)
    figures: dict[str, Any] = SideBySide(spec, load, longest, [system(name)]).run()[0].figures
    assert {count: figures[count] for count in COUNTS} == {count: right[count] for count in COUNTS}
    sums = [figures[f"sum_{share}_over_steps"] for share in (*SHARES, "running")]
    assert sums == [right["sums"][share] for share in ("tok", "resv", "internal", "external", "run")]
    for ours, theirs in (("mean", "percent_of_pool"), ("saturated", "percent_of_pool_saturated")):
        expected = [right[theirs][share] / 100 for share in ORACLE_SHARES]
        np.testing.assert_allclose([figures[ours][share] for share in SHARES], expected, rtol=1e-12, atol=0)
        np.testing.assert_allclose(figures[ours]["running"], right[theirs]["mean_running"], rtol=1e-12)


@pytest.mark.parametrize("name", [f"{one.reservation}_{one.placement}" for one in ALL_SYSTEMS])
def test_azure_code(oracle: dict[str, Any], traces: Path, name: str) -> None:
    right = oracle["paged_and_contiguous"][f"contiguous/azure_code_first2000/{name}"]
    trace = read_trace(traces / "azure-llm-2023" / "AzureLLMInferenceTrace_code.csv", strict=True)
    assert_right(name, Load(trace.workload.first(2000)), right, blocks=right["pool_tokens"] // 16, longest=right["L"])


@pytest.mark.parametrize("name", SHAREGPT)
def test_sharegpt(oracle: dict[str, Any], traces: Path, name: str) -> None:
    right = oracle["paged_and_contiguous"][f"contiguous/sharegpt_opt_lt2048_first2000/{name}"]
    load = Load(read_sharegpt(traces).first(2000))
    assert_right(name, load, right, blocks=right["pool_tokens"] // 16, longest=right["L"])


@pytest.fixture(scope="module")
def figure2(traces: Path) -> Load:
    """The request sequence of Figure 2 of the PagedAttention paper, all at step 0."""
    rows = np.loadtxt(traces / FIGURE2_TRACE, delimiter=",", skiprows=1, usecols=(1, 2)).astype(np.int64)
    return Load(Workload(rows[:, 0].copy(), rows[:, 1].copy()))


@pytest.mark.parametrize("name", FIGURE2)
def test_figure_2(oracle: dict[str, Any], figure2: Load, name: str) -> None:
    assert_right(name, figure2, oracle["sosp23_fig2_offline"][name], blocks=983, longest=MODEL_LENGTH)


def test_figure_2_paged(oracle: dict[str, Any], figure2: Load) -> None:
    right = oracle["sosp23_fig2_offline"]["paged_wm9"]
    spec = PoolSpec(OpaqueLayout(512, 16), 983, watermark=9)
    figures: dict[str, Any] = paged_system(spec, Simulation(spec, figure2).run()).figures
    assert {c: figures[c] for c in COUNTS[:-1]} == {c: right[c] for c in COUNTS[:-1]}
    assert figures["sum_token_states_over_steps"] == right["sum_stored_tokens_over_steps"]
    assert figures["sum_reservation_over_steps"] == 0
    saturated = right["saturated"]
    np.testing.assert_allclose(figures["saturated"]["token_states"], saturated["mean_token_utilization"], rtol=1e-12)
    printed = oracle["sosp23_fig2_printed"]["vllm"]["token"]
    assert abs(100 * figures["saturated"]["token_states"] - printed) < 1.5


def test_every_contiguous_value_is_compared(oracle: dict[str, Any]) -> None:
    named = [name for name in oracle["paged_and_contiguous"] if name.startswith("contiguous/")]
    assert len(named) == len(ALL_SYSTEMS) + len(SHAREGPT)
    assert set(oracle["sosp23_fig2_offline"]) == {*FIGURE2, "paged_wm0", "paged_wm9"}


class Logged(ReservationScheduler):
    """Writes down what every measured step looks like."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.log: Log = []

    def _measure(self) -> None:
        super()._measure()
        self.log.append({"step": self.step, "places": dict(self.places), "waiting": list(self.waiting)})


@given(
    requests=REQUESTS,
    pool=st.integers(1, 400),
    longest=st.integers(1, 90),
    chosen=st.sampled_from(ALL_SYSTEMS),
    max_seqs=st.none() | st.integers(1, 4),
)
def test_every_step_equals_brute_force(
    requests: list[tuple[int, int, int]], pool: int, longest: int, chosen: ContiguousSystem, max_seqs: int | None
) -> None:
    requests = [(arrival - requests[0][0], prompt, output) for arrival, prompt, output in requests]
    right = BruteForceContiguous(requests, pool, longest, chosen.reservation, chosen.placement, max_seqs)
    load = Load(workload(requests), step_ticks=1, max_seqs=max_seqs)
    scheduler = Logged(chosen, load.arrivals(), Recorder(1), pool_tokens=pool, max_seq_len=longest, max_seqs=max_seqs)
    scheduler.run()
    assert scheduler.log == right.log
    spec = PoolSpec(OpaqueLayout(24, 1), pool)
    figures: dict[str, Any] = SideBySide(spec, load, longest, [chosen]).run()[0].figures
    assert {name: figures[name] for name in right.figures} == dict(right.figures)


@given(requests=REQUESTS, blocks=st.integers(1, 40), block_size=st.integers(1, 8), longest=st.integers(1, 90))
def test_shares_sum_to_the_pool_and_every_request_ends(
    requests: list[tuple[int, int, int]], blocks: int, block_size: int, longest: int
) -> None:
    spec, load = PoolSpec(OpaqueLayout(24, block_size), blocks), Load(workload(requests))
    paged = paged_system(spec, Simulation(spec, load).run())
    for result in (paged, *SideBySide(spec, load, longest).run()):
        figures: dict[str, Any] = result.figures
        assert figures["completed"] + figures["rejected"] == figures["requests"] == len(requests)
        sums = [figures[f"sum_{share}_over_steps"] for share in SHARES]
        assert sum(sums) == figures["pool_tokens"] * figures["steps"]
        assert figures["peak_reserved_tokens"] <= figures["pool_tokens"] == blocks * block_size
        assert sums[0] > 0 or figures["completed"] == 0
        for means in (figures["mean"], figures["saturated"]):
            assert means is None or sum(means[share] for share in SHARES) == pytest.approx(1, rel=1e-12)
        if result.reservation == "oracle":
            assert sums[2] <= 0  # -1 a step for p + o - 1 = L, else 0
        if result is paged:
            assert sums[1] == 0
            assert sums[2] <= (block_size - 1) * figures["sum_running_over_steps"]


def test_placement_decides_what_fits() -> None:
    # 64 tokens, 16 x 4 units; 20 + 20 + 20 fit to the token, but take two units each of the buddy allocator's four.
    requests = workload([(0, 19, 1)] * 3)
    spec = PoolSpec(OpaqueLayout(24, 16), 4)
    results = SideBySide(spec, Load(requests), 64, [system(f"oracle_{p}") for p in ("counting", "buddy")]).run()
    assert [result.figures["peak_running"] for result in results] == [3, 2]


@pytest.mark.parametrize("chosen", ALL_SYSTEMS)
@pytest.mark.parametrize(
    ("prompt", "output", "rejected"), [(32, 33, 0), (64, 1, 0), (1, 64, 0), (33, 33, 1), (65, 1, 1)]
)
def test_the_longest_sequence_is_a_boundary(chosen: ContiguousSystem, prompt: int, output: int, rejected: int) -> None:
    # What may be stored, p + o - 1, is at most L = 64; the pool holds just that.
    spec = PoolSpec(OpaqueLayout(24, 16), 4)
    figures: dict[str, Any] = SideBySide(spec, Load(workload([(0, prompt, output)])), 64, [chosen]).run()[0].figures
    assert (figures["rejected"], figures["completed"]) == (rejected, 1 - rejected)
    assert figures["steps"] == (0 if rejected else output)
    assert figures["peak_reserved_tokens"] == (0 if rejected else 64)
    assert figures["sum_internal_over_steps"] == (0 if rejected else -output)  # the last token is never stored


@pytest.mark.parametrize(("reservation", "reserved"), [("max", 100), ("pow2", 7 + 8), ("oracle", 7 + 5)])
def test_what_is_reserved_for_later_and_what_never(reservation: str, reserved: int) -> None:
    spec, load = PoolSpec(OpaqueLayout(24, 16), 8), Load(workload([(0, 7, 5)]))
    figures: dict[str, Any] = SideBySide(spec, load, 100, [system(f"{reservation}_first_fit")]).run()[0].figures
    assert figures["peak_reserved_tokens"] == reserved
    assert figures["sum_token_states_over_steps"] == 7 + 8 + 9 + 10 + 11
    assert figures["sum_reservation_over_steps"] == 5 + 4 + 3 + 2 + 1
    assert figures["sum_internal_over_steps"] == 5 * (reserved - 12)
    assert figures["sum_external_and_free_over_steps"] == 5 * (128 - reserved)
    assert figures["saturated"] is None


def test_requests_that_end_together_make_room_for_the_next_step() -> None:
    spec, load = PoolSpec(OpaqueLayout(24, 16), 2), Load(workload([(0, 14, 2), (0, 14, 2), (0, 30, 2)]))
    for result in SideBySide(spec, load, 32, [system(f"oracle_{p}") for p in ("counting", "first_fit", "buddy")]).run():
        figures: dict[str, Any] = result.figures
        assert (figures["steps"], figures["saturated_steps"], figures["completed"]) == (4, 2, 3)


def test_a_reservation_that_the_idle_pool_cannot_hold_is_rejected() -> None:
    # Five blocks of 16 are an arena of 64 and a rest of 16: 80 tokens lie together for first fit only.
    spec, load = PoolSpec(OpaqueLayout(24, 16), 5), Load(workload([(0, 60, 20)]))
    names = ("oracle_first_fit", "oracle_buddy", "max_counting")
    results = SideBySide(spec, load, 100, [system(name) for name in names]).run()
    assert [result.figures["rejected"] for result in results] == [0, 1, 1]
    assert results[1].figures["steps"] == 0
    assert results[1].figures["mean"] is None


def test_the_closed_loop_ends_with_its_completions() -> None:
    load = Load(None, concurrency=4, completions=20, seed=1, max_seq_len=256)
    results = SideBySide(PoolSpec(OpaqueLayout(24, 16), 64), load, 256).run()
    assert len(results) == 9
    figures: list[dict[str, Any]] = [result.figures for result in results]
    assert all(one["completed"] >= 20 and one["peak_running"] == 4 for one in figures)


def test_stopping_ends_the_system_and_starts_no_other() -> None:
    stopped: list[int] = []

    def stop(ended: int) -> None:
        stopped.append(ended)
        systems.stop()

    load = Load(base_case(2000, 1), concurrency=1)
    systems = SideBySide(PoolSpec(OpaqueLayout(24, 16), 32), load, 256, on_progress=stop)
    results = systems.run()
    assert [result.interrupted for result in results] == [True]
    assert results[0].figures["steps"] == 4096
    assert stopped == [results[0].figures["completed"]]
    assert systems.run() == []


def test_a_system_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="reservation is 'min'; give one of max, pow2, oracle"):
        ContiguousSystem("min", "buddy")
    with pytest.raises(InvalidArgumentError, match="placement is 'best'; give one of counting, first_fit, buddy"):
        ContiguousSystem("max", "best")


@pytest.mark.parametrize(
    "load", [Load(base_case(2, 1), groups=Groups(samples=2)), Load(base_case(2, 1), prefix_caching=True)]
)
def test_what_shares_is_not_compared(load: Load) -> None:
    with pytest.raises(InvalidArgumentError, match="contiguous systems share nothing"):
        SideBySide(PoolSpec(OpaqueLayout(24, 16), 32), load, 256)
