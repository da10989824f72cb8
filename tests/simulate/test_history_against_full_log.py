"""Random loads: every bucket, cell and span of the history equals what a full log of the run says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pagedkv.simulate import Groups, Load, SimulationResult
from pagedkv.simulate.history import Limits

from .history_log import arrivals_of, doubled, recorded, series_of, spans_of
from .runs import workload

Log = list[dict[str, Any]]
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


def assert_right(
    result: SimulationResult, log: Log, limits: Limits, output: Sequence[int], blocks: int, *, stride: int
) -> None:
    """stride: of requests, if nothing doubled it."""
    history, figures = result.history, result.figures
    assert history is not None
    assert history["series"] == series_of(log, figures, limits.buckets)
    assert_sums(history["series"], figures)
    assert_map(history["block_map"], log, limits, blocks)
    assert_spans(history["sequences"], log, limits, output, stride=stride)


def assert_sums(series: dict[str, Any], figures: dict[str, Any]) -> None:
    """Nothing is lost or counted twice. Without a step there is no bucket that could hold a rejection."""
    buckets, stride = len(series["first_step"]), series["steps_per_bucket"]
    sizes = [min(stride, figures["steps"] - stride * bucket) for bucket in range(buckets)]
    assert sum(sizes) == figures["steps"]
    for name, level in (("allocated_blocks", "allocated_blocks"), ("stored_tokens", "stored_tokens")):
        total = sum(round(mean * size) for mean, size in zip(series[level]["mean"], sizes, strict=True))
        assert total == figures[f"sum_{name}_over_steps"]
    for name in ("preemptions", "completed", "queried_tokens", "hit_tokens", "evictions"):
        assert sum(series[name]) == figures[name]
    assert sum(series["rejected"]) == (figures["rejected"] if buckets else 0)


def assert_map(found: dict[str, Any], log: Log, limits: Limits, blocks: int) -> None:
    moments = log[:: doubled(len(log), limits.moments)]
    assert found["step_stride"] == doubled(len(log), limits.moments)
    assert found["steps"] == [step["step"] for step in moments]
    stride, rows = found["block_stride"], found["blocks"]
    assert rows == [*range(0, blocks, stride)][: limits.blocks]
    assert stride in [2**power for power in range(8)]
    assert found["cells"] == [[step["cells"][block] for step in moments] for block in rows]
    for step in moments:  # what is not shown was never used
        assert set(step["cells"][stride * limits.blocks :]) <= {-1}
    if len(rows) == blocks:
        for place, step in enumerate(moments):
            column = [cells[place] for cells in found["cells"]]
            assert sum(cell >= 0 or cell == -4 for cell in column) == step["used_blocks"]


def assert_spans(found: dict[str, Any], log: Log, limits: Limits, output: Sequence[int], *, stride: int) -> None:
    spans, arrivals = spans_of(log, output), arrivals_of(log)
    while (
        sum(span[0] % stride == 0 for span in spans) > limits.segments
        or sum(request % stride == 0 for request in arrivals) > limits.requests
    ):
        stride *= 2
    kept = [request for request in sorted(arrivals) if request % stride == 0]
    assert found["stride"] == stride
    assert found["of"] == len(output)
    assert found["request"] == kept
    assert found["arrival_step"] == [arrivals[request] for request in kept]
    assert found["output_tokens"] == [output[request] for request in kept]
    assert found["segments"] == [span for span in spans if span[0] % stride == 0]


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
    stride = -(-len(requests) // limits.requests)
    assert_right(result, log, limits, [output for _, _, output in requests], blocks, stride=stride)
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
    stride = -(-len(requests) // limits.requests)
    assert_right(result, log, limits, [output for _, _, output in requests], blocks, stride=stride)


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
    stride = -(-len(requests) // limits.requests)
    assert_right(result, log, limits, [output for _, _, output in requests], blocks, stride=stride)


@given(requests=REQUESTS, concurrency=st.integers(1, 4), **POOL)
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
    stride = -(-len(requests) // limits.requests)
    assert_right(result, log, limits, [output for _, _, output in requests], blocks, stride=stride)
