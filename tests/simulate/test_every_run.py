"""What holds of any load under any policy: it finishes, tokens are conserved, and the pool bounds what is used."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pagedkv.simulate import Groups, Load
from pagedkv.simulate.batching import Batching

from .runs import simulate, workload

REQUESTS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=15).map(
    sorted
)
POLICIES = st.sampled_from(
    [
        {},
        {"groups": Groups(samples=3)},
        {"groups": Groups(beam_width=2)},
        {"groups": Groups(samples=2, admission="final")},
        {"prefix_caching": True},
        {"batching": Batching(40)},
        {"batching": Batching(7, chunked_prefill=True)},
        {"batching": Batching(9, chunked_prefill=True), "prefix_caching": True},
        {"max_seqs": 2},
    ]
)


@given(
    requests=REQUESTS,
    blocks=st.integers(1, 40),
    block_size=st.integers(1, 8),
    watermark=st.integers(0, 3),
    policy=POLICIES,
    timed=st.booleans(),
)
def test_any_load_finishes_within_its_pool(
    requests: list[tuple[int, int, int]],
    blocks: int,
    block_size: int,
    watermark: int,
    policy: dict[str, object],
    timed: bool,
) -> None:
    watermark = min(watermark, blocks - 1)
    load = Load(workload(requests), step_ticks=1 if timed else None, **policy)  # type: ignore[arg-type]
    result, log = simulate(blocks, block_size, load, watermark=watermark)
    figures, size = result.figures, load.groups.size
    rejected = {one.request for one in result.rejections}
    ran = [one for request, one in enumerate(requests) if request not in rejected]

    assert not [failure for failure in result.failures if failure != "no request completed"]
    assert figures["completed"] == len(ran)
    assert figures["completed_tokens"] == size * sum(output for _, _, output in ran)
    stored = sum(prompt + size * (output - 1) for _, prompt, output in ran)
    computed = figures["total_token_allocs"] - figures["recomputed_tokens"]
    assert computed <= stored, "what was computed twice is counted as such"
    if not load.prefix_caching:
        assert computed == stored
    elif not figures["preemptions"]:
        assert computed == stored - figures["hit_tokens"]
    assert figures["final_blocks"] == 0
    assert figures["total_block_allocs"] == figures["total_block_frees"] - figures["revived_blocks"]

    for step in log:
        assert step["used_blocks"] <= blocks
        if not load.batching.chunked_prefill:  # a prompt in pieces has the blocks of all of it
            held = step.get("stored_tokens", sum(step["stored"]))
            assert 0 <= step["used_blocks"] * block_size - held <= (block_size - 1) * len(step["running"])
