"""Random loads: every bucket, cell and span of the history equals what a full log of the run says."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from pagedkv.manager import KVCacheManager
from pagedkv.simulate import Groups, Load, base_case_requests
from pagedkv.simulate.batching import Batching
from pagedkv.simulate.history import Limits
from pagedkv.simulate.history.setup import foreseen_steps
from pagedkv.simulate.step_time import LinearTime

from .history_checks import assert_right
from .history_log import recorded
from .runs import workload

Requests = list[tuple[int, int, int]]
LIMITS = st.builds(
    Limits,
    buckets=st.integers(1, 12),
    blocks=st.integers(1, 20),
    moments=st.integers(1, 12),
    requests=st.integers(1, 10),
    segments=st.integers(4, 12),
)
POOL = {
    "blocks": st.integers(1, 20),
    "block_size": st.integers(1, 5),
    "watermark": st.integers(0, 2),
    "max_seqs": st.none() | st.integers(1, 4),
    "limits": LIMITS,
    "chunk": st.integers(1, 9),
}
LENGTHS = (st.integers(1, 16), st.integers(1, 16))
# Gaps of up to 60 steps: the pool is idle in some of them.
REQUESTS = st.lists(st.tuples(st.integers(0, 60), *LENGTHS), min_size=1, max_size=10).map(
    lambda requests: [(at - min(requests)[0], prompt, output) for at, prompt, output in sorted(requests)]
)


def outputs(requests: Requests) -> list[int]:
    return [output for _, _, output in requests]


@given(requests=REQUESTS, stop_at=st.just(-1) | st.integers(0, 30), completions=st.none() | st.integers(1, 6), **POOL)
def test_single_sequences_with_idle_gaps_and_runs_that_are_stopped(
    requests: Requests,
    stop_at: int,
    completions: int | None,
    blocks: int,
    block_size: int,
    watermark: int,
    max_seqs: int | None,
    limits: Limits,
    chunk: int,
) -> None:
    load = Load(workload(requests), step_ticks=1, max_seqs=max_seqs, completions=completions)
    watermark = min(watermark, blocks - 1)
    result, log = recorded(blocks, block_size, load, limits, watermark=watermark, chunk=chunk, stop_at=stop_at)
    whole, _ = recorded(blocks, block_size, load, limits, watermark=watermark) if stop_at >= 0 else (result, log)
    assert_right(result, log, limits, outputs(requests), steps=whole.figures["steps"])
    for request in log.done:
        assert sum(request in step["requests"] for step in log.steps) == requests[request][2]
    prompts = [prompt for _, prompt, _ in requests]
    assert result.history is not None
    sequences = result.history["sequences"]
    assert sequences["prompt_tokens"] == [prompts[request] for request in sequences["request"]]
    steps = {request: at for request, (at, _, _) in enumerate(requests)}
    assert sequences["arrival_step"] == [steps[request] for request in sequences["request"]]


@given(
    requests=REQUESTS,
    samples=st.integers(1, 3),
    beams=st.booleans(),
    admission=st.sampled_from(["grow", "final"]),
    **POOL,
)
def test_groups(
    requests: Requests,
    samples: int,
    beams: bool,
    admission: str,
    blocks: int,
    block_size: int,
    watermark: int,
    max_seqs: int | None,
    limits: Limits,
    chunk: int,
) -> None:
    groups = Groups(**{"beam_width" if beams else "samples": samples}, admission=admission)
    load = Load(workload(requests), step_ticks=1, max_seqs=max_seqs, groups=groups)
    blocks += 4
    result, log = recorded(blocks, block_size, load, limits, watermark=watermark, chunk=chunk)
    assert_right(result, log, limits, outputs(requests))


@given(requests=REQUESTS, prefixes=st.lists(st.integers(0, 2), min_size=10, max_size=10), **POOL)
def test_prefix_caching(
    requests: Requests,
    prefixes: list[int],
    blocks: int,
    block_size: int,
    watermark: int,
    max_seqs: int | None,
    limits: Limits,
    chunk: int,
) -> None:
    own = range(3, 3 + len(requests))
    ids = [
        [prefix, *[own[i]] * (-(-prompt // block_size) - 1)]
        for i, (prefix, (_, prompt, _)) in enumerate(zip(prefixes, requests, strict=False))
    ]
    load = Load(workload(requests, ids, block_size), step_ticks=1, max_seqs=max_seqs, prefix_caching=True)
    watermark = min(watermark, blocks - 1)
    result, log = recorded(blocks, block_size, load, limits, watermark=watermark, chunk=chunk)
    assert_right(result, log, limits, outputs(requests))


@given(requests=REQUESTS, concurrency=st.integers(1, 4), **POOL)
@example(  # five spans, all of even requests: one doubling is not enough
    requests=[(0, 3, 2), (0, 3, 7), (0, 4, 3), (1, 1, 4), (1, 2, 2)],
    concurrency=3,
    blocks=8,
    block_size=1,
    watermark=0,
    max_seqs=None,
    limits=Limits(requests=5, segments=4),
    chunk=1,
)
def test_a_closed_replay(
    requests: Requests,
    concurrency: int,
    blocks: int,
    block_size: int,
    watermark: int,
    max_seqs: int | None,
    limits: Limits,
    chunk: int,
) -> None:
    load = Load(workload(requests), closed=True, concurrency=concurrency, max_seqs=max_seqs)
    watermark = min(watermark, blocks - 1)
    result, log = recorded(blocks, block_size, load, limits, watermark=watermark, chunk=chunk)
    assert_right(result, log, limits, outputs(requests))


@given(
    concurrency=st.integers(1, 6),
    completions=st.integers(1, 20),
    seed=st.integers(0, 100),
    blocks=st.integers(2, 40),
    limits=LIMITS,
    chunk=st.integers(1, 99),
)
def test_a_load_without_end(
    concurrency: int, completions: int, seed: int, blocks: int, limits: Limits, chunk: int
) -> None:
    load = Load(None, concurrency=concurrency, completions=completions, seed=seed)
    result, log = recorded(blocks, 16, load, limits, chunk=chunk)
    drawn = base_case_requests(seed)
    output = [next(drawn)[1] for _ in range(result.figures["requests"])]
    assert_right(result, log, limits, output, endless=True)


@given(
    requests=REQUESTS,
    tokens=st.integers(1, 24),
    chunked=st.booleans(),
    caching=st.booleans(),
    timed=st.booleans(),
    **POOL,
)
def test_capped_steps_of_modeled_seconds(
    requests: Requests,
    tokens: int,
    chunked: bool,
    caching: bool,
    timed: bool,
    blocks: int,
    block_size: int,
    watermark: int,
    max_seqs: int | None,
    limits: Limits,
    chunk: int,
) -> None:
    load = Load(
        workload(requests),
        step_ticks=None if timed else 1,
        max_seqs=max_seqs,
        prefix_caching=caching,
        batching=Batching(tokens, chunked),
        step_time=LinearTime(1e-7, 1e-8, 1e-8, 1e-9),
        timed=timed,
    )
    watermark = min(watermark, blocks - 1)
    result, log = recorded(blocks, block_size, load, limits, watermark=watermark, chunk=chunk)
    assert_right(result, log, limits, outputs(requests))
    assert result.history is not None
    assert result.seconds is not None
    assert result.history["series"]["seconds"][-1:] == ([result.seconds["total_seconds"]] if log.steps else [])


@given(
    requests=REQUESTS,
    longest=st.integers(1, 40),
    step_ticks=st.none() | st.integers(1, 5),
    closed=st.booleans(),
    caching=st.booleans(),
    **POOL,
)
def test_a_run_takes_no_fewer_steps_than_are_foreseen(
    requests: Requests,
    longest: int,
    step_ticks: int | None,
    closed: bool,
    caching: bool,
    blocks: int,
    block_size: int,
    watermark: int,
    max_seqs: int | None,
    limits: Limits,
    chunk: int,
) -> None:
    load = Load(
        workload(requests),
        step_ticks=None if closed else step_ticks,
        closed=closed,
        concurrency=2 if closed else None,
        max_seqs=max_seqs,
        batching=Batching(longest),
        prefix_caching=caching,
    )
    watermark = min(watermark, blocks - 1)
    manager = KVCacheManager(blocks, block_size, watermark=watermark)
    result, _ = recorded(blocks, block_size, load, limits, watermark=watermark, chunk=chunk)
    assert foreseen_steps(load, manager) <= result.figures["steps"]
