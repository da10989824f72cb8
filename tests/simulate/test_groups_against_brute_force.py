"""Random loads of samples and beams: every step equals that of a second program, and every byte is where it belongs."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from pagedkv.simulate import Groups, Load, SimulationResult

from .brute_force_groups import GroupBruteForce
from .runs import simulate, workload

Requests = list[tuple[int, int, int]]
REQUESTS = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 10), st.integers(1, 16)), min_size=1, max_size=8).map(
    lambda requests: [(at - min(requests)[0], prompt, output) for at, prompt, output in sorted(requests)]
)
POOL = {
    "blocks": st.integers(4, 28),
    "block_size": st.integers(1, 5),
    "watermark": st.integers(0, 2),
    "max_seqs": st.none() | st.integers(1, 3),
    "admission": st.sampled_from(["grow", "final"]),
}


def assert_equal(result: SimulationResult, log: object, right: GroupBruteForce) -> None:
    figures = result.figures
    assert log == right.log
    assert {name: figures[name] for name in right.figures} == right.figures
    assert figures["total_block_frees"] == figures["total_block_allocs"]
    if right.ratios:
        assert math.isclose(figures["saturated_sharing_ratio"], sum(right.ratios) / len(right.ratios), rel_tol=1e-12)
    else:
        assert figures["saturated_sharing_ratio"] is None
    if right.final:
        assert figures["preemptions"] == 0
    assert result.verification is not None
    assert result.verification.sequences == figures["completed"] * right.size
    assert all("no request completed" in failure for failure in result.failures)


@given(requests=REQUESTS, samples=st.integers(2, 4), **POOL)
def test_samples(
    requests: Requests,
    samples: int,
    blocks: int,
    block_size: int,
    watermark: int,
    max_seqs: int | None,
    admission: str,
) -> None:
    final = admission == "final"
    right = GroupBruteForce(requests, blocks, block_size, samples, watermark, max_seqs, final)
    groups = Groups(samples=samples, admission=admission)
    load = Load(workload(requests), step_ticks=1, max_seqs=max_seqs, groups=groups)
    result, log = simulate(blocks, block_size, load, watermark=watermark)
    assert_equal(result, log, right)


@given(
    requests=REQUESTS,
    width=st.integers(2, 4),
    survival=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    seed=st.integers(0, 1000),
    **POOL,
)
def test_beams(
    requests: Requests,
    width: int,
    survival: float,
    seed: int,
    blocks: int,
    block_size: int,
    watermark: int,
    max_seqs: int | None,
    admission: str,
) -> None:
    final = admission == "final"
    right = GroupBruteForce(requests, blocks, block_size, width, watermark, max_seqs, final, survival, seed)
    groups = Groups(beam_width=width, beam_survival=survival, admission=admission)
    load = Load(workload(requests), step_ticks=1, max_seqs=max_seqs, seed=seed, groups=groups)
    result, log = simulate(blocks, block_size, load, watermark=watermark)
    assert_equal(result, log, right)


@given(requests=REQUESTS, **POOL)
def test_groups_of_one_with_both_admissions(
    requests: Requests, blocks: int, block_size: int, watermark: int, max_seqs: int | None, admission: str
) -> None:
    right = GroupBruteForce(requests, blocks, block_size, 1, watermark, max_seqs, admission == "final")
    load = Load(workload(requests), step_ticks=1, max_seqs=max_seqs, groups=Groups(admission=admission))
    result, log = simulate(blocks, block_size, load, watermark=watermark)
    names = log[0].keys() if log else ()
    assert_equal(result, [{name: step[name] for name in names} for step in log], _without(right, names))


def _without(right: GroupBruteForce, names: object) -> GroupBruteForce:
    """Leave the columns that a log of single sequences has."""
    right.log = [{name: step[name] for name in step if name in set(names)} for step in right.log]  # type: ignore[call-overload]
    return right
