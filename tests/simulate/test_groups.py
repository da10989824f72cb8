"""Groups by hand-worked cases: what is stored when, whole preemption, admission by final footprint, options."""

from __future__ import annotations

import numpy as np
import pytest

from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate import Groups, Load, base_case
from pagedkv.simulate.beams import BeamSearch
from pagedkv.simulate.counters import Rejection
from pagedkv.simulate.groups import group_blocks
from pagedkv.simulate.running import RunningSequences

from .runs import simulate, workload


def test_two_samples_share_the_prompt_and_copy_its_last_block() -> None:
    # A prompt of 6 tokens in blocks of 4; the first generated token makes a copy of the half-full block.
    result, log = simulate(16, 4, Load(workload([(0, 6, 4)]), groups=Groups(samples=2)))
    assert [step["used_blocks"] for step in log] == [2, 3, 3, 5]
    assert [step["logical_blocks"] for step in log] == [4, 4, 4, 6]
    assert [step["running"] for step in log] == [[0, 1]] * 4
    figures = result.figures
    assert (figures["cow_copies"], figures["peak_saved_blocks"], figures["total_token_allocs"]) == (1, 2, 6 + 2 * 3)
    assert figures["pooled_sharing_saving"] == pytest.approx(1 - 13 / 18, rel=1e-12)
    assert figures["saturated_sharing_ratio"] is None
    assert (figures["completed"], figures["completed_tokens"]) == (1, 8)


def test_samples_of_one_token_share_all_they_have() -> None:
    result, log = simulate(3, 4, Load(workload([(0, 12, 1)]), groups=Groups(samples=100)))
    assert [step["used_blocks"] for step in log] == [3]
    assert (result.figures["completed"], result.figures["cow_copies"]) == (1, 0)


def test_the_newest_group_is_preempted_whole_and_stores_its_prompt_once_again() -> None:
    # Step 2 needs 2 x 2 blocks for the fifth token of each of four sequences, and 2 are free: group 1 goes.
    result, log = simulate(6, 4, Load(workload([(0, 3, 4), (0, 3, 4)]), groups=Groups(samples=2)))
    assert [step["preempted"] for step in log if step["preempted"]] == [[1]]
    assert [step["used_blocks"] for step in log] == [2, 4, 4, 4, 4, 4]
    assert [step["running"] for step in log] == [[0, 1, 2, 3]] * 2 + [[0, 1]] * 2 + [[2, 3]] * 2
    figures = result.figures
    assert (figures["preemptions"], figures["recomputed_tokens"]) == (1, 3 + 2 * 1)
    assert figures["cow_copies"] == 3  # the second start of group 1 copies once more
    assert figures["total_token_allocs"] == (3 + 2 * 3) + (3 + 2 * 1) + (3 + 2 * 3)


def test_admission_by_final_footprint_preempts_nothing() -> None:
    requests = [(0, 3, 4), (0, 3, 4)]
    groups = Groups(samples=2, admission="final")
    result, log = simulate(6, 4, Load(workload(requests), groups=groups))
    assert [step["running"] for step in log] == [[0, 1]] * 4 + [[2, 3]] * 4
    assert result.figures["preemptions"] == 0
    result, log = simulate(8, 4, Load(workload(requests), groups=groups))
    assert [step["running"] for step in log] == [[0, 1, 2, 3]] * 4


def test_a_group_that_can_never_fit_is_rejected_as_a_request() -> None:
    # 7 + 3 - 1 tokens: one full block of the prompt, then two of each of 3 samples.
    result, _ = simulate(6, 4, Load(workload([(0, 7, 3), (0, 7, 1)]), groups=Groups(samples=3)))
    assert result.rejections == (Rejection(request=0, needed=7, total=6),)
    assert result.figures["completed"] == 1


def test_caps_count_requests() -> None:
    load = Load(workload([(0, 4, 3)] * 5), max_seqs=2, groups=Groups(samples=3))
    result, log = simulate(64, 4, load)
    assert max(len(step["running"]) for step in log) == 2 * 3
    assert result.figures["peak_running"] == 2


def test_a_closed_loop_of_groups() -> None:
    load = Load(None, concurrency=4, completions=20, groups=Groups(beam_width=3))
    result, _ = simulate(512, 16, load)
    assert result.figures["completed"] >= 20
    assert result.figures["contiguous_sequences"] == 4 * 3
    assert not result.failures


def test_contiguous_reserves_for_every_sequence() -> None:
    result, _ = simulate(64, 4, Load(workload([(0, 8, 1), (0, 8, 1)]), groups=Groups(samples=3)))
    assert result.comparison.sequences == 6
    assert result.comparison.contiguous_bytes == 6 * 9 * 24
    assert result.comparison.mean_waste == pytest.approx(1 - 6 * 8 / (6 * 9), rel=1e-12)  # each holds its own prompt


def test_a_surviving_beam_changes_nothing_and_a_dying_one_saves_blocks() -> None:
    def shared(survival: float) -> float:
        groups = Groups(beam_width=4, beam_survival=survival)
        result, _ = simulate(512, 4, Load(workload([(0, 8, 40)]), groups=groups))
        assert not result.failures
        return float(result.figures["pooled_sharing_saving"])

    samples, _ = simulate(512, 4, Load(workload([(0, 8, 40)]), groups=Groups(samples=4)))
    assert shared(1.0) == samples.figures["pooled_sharing_saving"]
    assert shared(0.5) > shared(0.95) > shared(1.0)


def test_beams_are_drawn_as_stated() -> None:
    beams = BeamSearch(Groups(beam_width=4, beam_survival=0.75), seed=7)
    running = np.arange(4 * 5000, dtype=np.int64)
    ids, parents = beams.choose(running)
    own = running % 4
    assert ids.tolist() == running.tolist()
    assert np.array_equal(parents // 4, running // 4)  # never of another group
    moved = parents != running
    assert moved.mean() == pytest.approx(0.25, abs=0.01)
    steps = (parents - running)[moved] % 4
    assert np.bincount(steps, minlength=4)[1:] / moved.sum() == pytest.approx([1 / 3] * 3, abs=0.02)
    assert set(own[moved].tolist()) == {0, 1, 2, 3}


def test_no_beam_moves_in_the_first_step_of_its_request() -> None:
    beams = BeamSearch(Groups(beam_width=2, beam_survival=0.0), seed=1)
    beams.started(3)
    ids, parents = beams.choose(np.array([0, 1, 6, 7, 4, 5]))
    assert ids.tolist() == [0, 1, 4, 5]
    assert parents.tolist() == [1, 0, 3, 2]
    assert beams.choose(np.array([6, 7]))[1].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("prompt", "generated", "size", "blocks"), [(8, 0, 5, 2), (9, 0, 5, 3), (8, 1, 5, 7), (9, 3, 5, 7), (9, 4, 1, 4)]
)
def test_blocks_of_a_group(prompt: int, generated: int, size: int, blocks: int) -> None:
    assert group_blocks(prompt, generated, size, block_size=4) == blocks


@pytest.mark.parametrize("name", ["samples", "beam_width"])
@pytest.mark.parametrize("value", [0, -1, 1.0, True, "2", 65_537, float("nan")])
def test_bad_sizes_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        Groups(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf"), "0.5", True, None])
def test_bad_survivals_are_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match="beam_survival"):
        Groups(beam_width=2, beam_survival=value)  # type: ignore[arg-type]


def test_samples_and_beams_exclude_each_other_and_admissions_are_named() -> None:
    with pytest.raises(InvalidArgumentError, match="samples is 2 and beam_width 3"):
        Groups(samples=2, beam_width=3)
    with pytest.raises(InvalidArgumentError, match="grow, final"):
        Groups(admission="later")
    with pytest.raises(InvalidArgumentError, match="seed"):
        Load(base_case(1, 42), seed=-1)


def test_running_requests_keep_their_order_however_many() -> None:
    running = RunningSequences(group_size=3)
    for request in range(300):
        running.add(request)
    for request in range(0, 300, 2):
        running.remove(request)
    right = [3 * request + member for request in range(1, 300, 2) for member in range(3)]
    assert running.ids.tolist() == right
    assert (len(running), running.requests, len(running.ones), running.newest) == (450, 150, 450, 299)
    with pytest.raises(ValueError, match="0"):
        running.remove(0)
    for request in range(1, 298, 2):
        running.remove(request)
    assert running.ids.tolist() == [897, 898, 899]
    with pytest.raises(ValueError, match="3"):
        running.remove(1)
