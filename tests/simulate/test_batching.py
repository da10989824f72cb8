"""A cap on a step's tokens, with prompts whole or in pieces: every step equals that of a second, simpler program."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate import Groups, Load
from pagedkv.simulate.batching import Batching
from pagedkv.simulate.step_time import StepWork

from .brute_force_batching import BruteForceBatching
from .runs import simulate, workload

REQUESTS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=12).map(
    sorted
)


class Writes:
    """A step time that writes down the work; a step takes a second."""

    def __init__(self) -> None:
        self.work: list[Any] = []

    def seconds(self, work: StepWork) -> float:
        self.work.append(astuple(work))
        return 1.0

    def described(self) -> dict[str, Any]:
        return {"kind": "a second a step"}


def from_start(requests: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    start = requests[0][0]
    return [(arrival - start, prompt, output) for arrival, prompt, output in requests]


@given(
    requests=REQUESTS,
    blocks=st.integers(1, 16),
    block_size=st.integers(1, 6),
    cap=st.integers(1, 40),
    chunked=st.booleans(),
)
def test_every_step_equals_brute_force(
    requests: list[tuple[int, int, int]], blocks: int, block_size: int, cap: int, chunked: bool
) -> None:
    requests, writes = from_start(requests), Writes()
    right = BruteForceBatching(requests, blocks, block_size, cap, chunked)
    load = Load(workload(requests), step_ticks=1, batching=Batching(cap, chunked), step_time=writes)
    result, log = simulate(blocks, block_size, load)
    assert log == right.log
    assert writes.work == right.work
    assert {name: result.figures[name] for name in right.figures} == right.figures
    assert all("no request completed" in failure for failure in result.failures)


@given(requests=REQUESTS, blocks=st.integers(4, 16), chunked=st.booleans(), caching=st.booleans())
def test_a_cap_that_never_binds_changes_nothing(
    requests: list[tuple[int, int, int]], blocks: int, chunked: bool, caching: bool
) -> None:
    requests = from_start(requests)
    load = Load(workload(requests), step_ticks=1, prefix_caching=caching)
    capped = Load(workload(requests), step_ticks=1, prefix_caching=caching, batching=Batching(10_000, chunked))
    plain, steps = simulate(blocks, 4, load)
    result, same = simulate(blocks, 4, capped)
    assert same == steps
    assert result.figures == plain.figures


PROMPTS = st.lists(
    st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(1, 12)), min_size=1, max_size=8
)


@given(prompts=PROMPTS, blocks=st.integers(6, 20), cap=st.integers(1, 24), chunked=st.booleans())
def test_found_tokens_cost_nothing_and_no_step_computes_more_than_the_cap(
    prompts: list[tuple[list[int], int]], blocks: int, cap: int, chunked: bool
) -> None:
    writes = Writes()
    requests = [(0, 4 * len(ids), output) for ids, output in prompts]
    known = workload(requests, [ids for ids, _ in prompts], tokens_per_id=4)
    load = Load(known, batching=Batching(cap, chunked), prefix_caching=True, step_time=writes)
    result, _ = simulate(blocks, 2, load)
    figures = result.figures
    assert figures["completed"] + figures["rejected"] == len(prompts)
    assert all(sequences + tokens <= cap for sequences, _, tokens, _, _ in writes.work)
    computed = sum(sequences + tokens for sequences, _, tokens, _, _ in writes.work)
    assert computed == figures["total_token_allocs"]
    taken = [prompt + output - 1 for (_, prompt, output), done in zip(requests, finished(result), strict=True) if done]
    first_hits = figures["total_token_allocs"] - figures["recomputed_tokens"]
    assert first_hits <= sum(taken)
    if not figures["preemptions"]:
        assert computed == sum(taken) - figures["hit_tokens"]


def finished(result: Any) -> list[bool]:
    rejected = {one.request for one in result.rejections}
    return [request not in rejected for request in range(result.figures["requests"])]


def test_samples_of_a_request_count_one_each() -> None:
    writes = Writes()
    load = Load(workload([(0, 5, 4)] * 6), groups=Groups(samples=3), batching=Batching(14), step_time=writes)
    result, _ = simulate(64, 4, load)
    assert result.figures["completed"] == 6
    assert all(sequences + tokens <= 14 for sequences, _, tokens, _, _ in writes.work)
    assert max(sequences for sequences, *_ in writes.work) == 12


def test_a_group_that_gives_way_to_itself_computes_nothing() -> None:
    writes = Writes()
    load = Load(workload([(0, 4, 2)] * 2), groups=Groups(samples=2), step_time=writes)
    result, _ = simulate(5, 4, load)
    # The second group's first sample takes the last block; its second finds none, and the whole group goes back.
    assert result.figures["preemptions"] == 1
    assert writes.work[1] == (2, 10, 0, 0, 0)


def test_a_request_longer_than_a_step_is_rejected_where_prompts_are_whole() -> None:
    result, _ = simulate(64, 4, Load(workload([(0, 9, 3), (0, 8, 3)]), batching=Batching(10)))
    (rejection,) = result.rejections
    assert (rejection.request, rejection.needed, rejection.total, rejection.unit) == (0, 11, 10, "tokens a step")
    result, _ = simulate(64, 4, Load(workload([(0, 9, 3), (0, 8, 3)]), batching=Batching(10, chunked_prefill=True)))
    assert result.figures["completed"] == 2


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Batching(0), "max_batched_tokens"),
        (lambda: Batching(None, True), "give max_batched_tokens"),
        (lambda: Load(None, groups=Groups(samples=2), batching=Batching(8, True)), "chunked_prefill with groups of 2"),
        (lambda: Load(None, groups=Groups(samples=9), batching=Batching(8)), "give 9 or more"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        make()
