"""Random loads: every step of the simulator equals that of a second, simpler program."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pagedkv.simulate import Load

from .brute_force import BruteForce
from .runs import simulate, workload

REQUESTS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=12).map(
    sorted
)


@given(
    requests=REQUESTS,
    blocks=st.integers(1, 16),
    block_size=st.integers(1, 6),
    watermark=st.integers(0, 2),
    max_seqs=st.none() | st.integers(1, 4),
)
def test_every_step_equals_brute_force(
    requests: list[tuple[int, int, int]], blocks: int, block_size: int, watermark: int, max_seqs: int | None
) -> None:
    watermark = min(watermark, blocks - 1)
    start = requests[0][0]  # a replay starts with its first request
    requests = [(arrival - start, prompt, output) for arrival, prompt, output in requests]
    right = BruteForce(requests, blocks, block_size, watermark, max_seqs)
    result, log = simulate(
        blocks, block_size, Load(workload(requests), step_ticks=1, max_seqs=max_seqs), watermark=watermark
    )
    assert log == right.log
    assert {name: result.figures[name] for name in right.figures} == right.figures
    assert result.figures["total_block_frees"] == result.figures["total_block_allocs"]
    assert all("no request completed" in failure for failure in result.failures)
