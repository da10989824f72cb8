"""The scheduler by hand-worked cases: never-fits (D1), preemption, watermark, stopping early."""

from __future__ import annotations

import pytest

from pagedkv.errors import InvalidArgumentError
from pagedkv.layout import OpaqueLayout
from pagedkv.simulate import Load, PoolSpec, Simulation, base_case
from pagedkv.simulate.counters import Rejection
from pagedkv.simulate.observer import Observer
from pagedkv.simulate.scheduler import Scheduler

from .runs import simulate, workload


def test_d1_a_request_that_can_never_fit_is_rejected_and_the_run_goes_on() -> None:
    result, log = simulate(3, 4, Load(workload([(0, 8, 12), (0, 4, 2)])))
    # 8 + 12 - 1 = 19 stored tokens = 5 blocks of 4; the pool has 3.
    assert result.rejections == (Rejection(request=0, needed=5, total=3),)
    assert (result.figures["completed"], result.figures["rejected"], result.figures["final_blocks"]) == (1, 1, 0)
    assert [step["running"] for step in log] == [[1], [1]]
    assert not result.failures


def test_nothing_completed_is_never_a_success() -> None:
    result, _ = simulate(1, 4, Load(workload([(0, 8, 12)])))
    assert result.failures == ("no request completed",)
    assert result.figures["steps"] == 0
    assert result.figures["mean_internal_fragmentation"] == 0.0
    assert result.figures["saturated"] is None
    assert result.figures["peak_saving_vs_contiguous"] is None


def test_a_closed_loop_of_rejections_ends() -> None:
    result, _ = simulate(1, 16, Load(None, concurrency=8, completions=50))
    assert result.figures["completed"] == 0
    assert result.figures["rejected"] >= 50
    assert result.failures == ("no request completed",)


def test_the_newest_is_preempted_and_keeps_what_it_generated() -> None:
    # Two of 4 + 9 tokens in 4 blocks of 4: at step 5 both have 8 tokens in 2 blocks and the older one needs a third.
    result, log = simulate(4, 4, Load(workload([(0, 4, 9), (0, 4, 9)])))
    assert [step["preempted"] for step in log if step["preempted"]] == [[1]]
    assert result.figures["preemptions"] == 1
    assert result.figures["recomputed_tokens"] == 8
    assert result.figures["completed"] == 2
    assert result.figures["steps"] == 13


def test_watermark_holds_back_admission_only() -> None:
    # 8 tokens = 2 blocks; a second request would need 2 of the 2 free blocks and leave none.
    result, log = simulate(4, 4, Load(workload([(0, 8, 2), (0, 8, 2)])), watermark=1)
    assert [step["running"] for step in log] == [[0], [0], [1], [1]]
    assert result.figures["peak_blocks"] == 3


def test_watermark_of_the_whole_pool_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="watermark"):
        Simulation(PoolSpec(OpaqueLayout(8, 1), 256, watermark=512), Load(base_case(1, 42)))


def test_completions_end_a_replay_early() -> None:
    result, _ = simulate(64, 4, Load(workload([(0, 4, 1), (0, 4, 3), (0, 4, 9)]), completions=2))
    assert result.figures["completed"] == 2
    assert result.figures["steps"] == 3
    # 4 + 2 stored tokens of the third are still there.
    assert result.figures["final_blocks"] == 2
    assert not result.failures


def test_stop_ends_after_the_step_with_the_figures_so_far() -> None:
    simulation = Simulation(PoolSpec(OpaqueLayout(8, 16), 1024), Load(base_case(100, 42), concurrency=8))

    class StopAtTen(Observer):
        def measured(self, scheduler: Scheduler) -> None:
            if simulation.scheduler.step == 9:
                simulation.stop()

    simulation.scheduler.observers.append(StopAtTen())
    result = simulation.run()
    assert result.interrupted
    assert result.figures["steps"] == 10
    assert not result.failures


def test_final_utilization_counts_what_the_closed_loop_leaves_running() -> None:
    result, _ = simulate(4096, 16, Load(None, concurrency=8, completions=10))
    assert result.figures["final_blocks"] > 0
    assert not result.failures


@pytest.mark.parametrize("name", ["concurrency", "max_seqs", "completions", "max_seq_len"])
@pytest.mark.parametrize("value", [0, -1, 1.5, float("nan"), True, 2**31, "8"])
def test_bad_limits_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        Load(base_case(1, 42), **{name: value})  # type: ignore[arg-type]
