"""Random loads with common prefixes: every step equals that of a second program, and every byte is where it belongs."""

from __future__ import annotations

from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from pagedkv.simulate import Groups, Load

from .brute_force_reuse import ReuseBruteForce
from .runs import simulate, workload

SIZES = st.sampled_from([(4, 1), (4, 2), (4, 4), (6, 2), (6, 3), (6, 6), (12, 3), (12, 4)])  # tokens per id, per block


@st.composite
def _loads(draw: st.DrawFn, most_prompt: int = 24) -> dict[str, Any]:
    tokens_per_id, block_size = draw(SIZES)
    one = st.tuples(st.integers(0, 30), st.integers(1, most_prompt), st.integers(1, 16))
    requests = sorted(draw(st.lists(one, min_size=1, max_size=12)))
    start = requests[0][0]  # a replay starts with its first request
    rows = [(arrival - start, prompt, output) for arrival, prompt, output in requests]
    identity = st.integers(0, draw(st.integers(0, 2)))
    known = [draw(st.lists(identity, min_size=n, max_size=n)) for n in (-(-p // tokens_per_id) for _, p, _ in rows)]
    blocks = draw(st.integers(1, 48 // block_size + 4))
    return {
        "requests": rows,
        "identities": known,
        "tokens_per_id": tokens_per_id,
        "blocks": blocks,
        "block_size": block_size,
        "watermark": min(draw(st.integers(0, 2)), blocks - 1),
        "max_seqs": draw(st.none() | st.integers(1, 4)),
        "final": draw(st.booleans()),
    }


def _assert_equal(load: dict[str, Any]) -> dict[str, int]:
    right = ReuseBruteForce(**load)
    rows = workload(load["requests"], load["identities"], load["tokens_per_id"])
    groups = Groups(admission="final" if load["final"] else "grow")
    asked = Load(rows, step_ticks=1, max_seqs=load["max_seqs"], groups=groups, prefix_caching=True)
    result, log = simulate(load["blocks"], load["block_size"], asked, watermark=load["watermark"])
    figures = result.figures
    assert log == right.log
    assert {name: figures[name] for name in right.figures} == right.figures
    assert figures["total_block_frees"] == figures["total_block_allocs"] + figures["revived_blocks"]
    assert figures["computed_tokens"] == figures["queried_tokens"] - figures["hit_tokens"]
    assert result.verification is not None
    assert result.verification.sequences == figures["completed"]
    assert all("no request completed" in failure for failure in result.failures)
    return right.figures


@given(load=_loads())
def test_common_prefixes(load: dict[str, Any]) -> None:
    figures = _assert_equal(load)
    event(f"hits {figures['hit_blocks'] > 0}, evictions {figures['evictions'] > 0}")
    event(f"preempted {figures['preemptions'] > 0}, revived {figures['revived_blocks'] > 0}")


@given(load=_loads(most_prompt=8))
def test_prompts_about_which_nothing_is_known(load: dict[str, Any]) -> None:
    """Whoever finds something was there before and lost it."""
    figures = _assert_equal(load | {"identities": None})
    assert figures["preemptions"] > 0 or figures["hit_tokens"] == 0
    event(f"found again {figures['hit_tokens'] > 0}")


def test_the_program_itself_finds_what_is_there() -> None:
    """Two prompts of six tokens with the same first four; the second comes when the first has gone."""
    load = ReuseBruteForce([(0, 6, 1), (3, 6, 1)], [[7, 8, 9], [7, 8, 1]], 2, blocks=4, block_size=2)
    assert (load.figures["hit_tokens"], load.figures["revived_blocks"], load.figures["evictions"]) == (4, 2, 0)
    assert [step["cached_blocks"] for step in load.log] == [0, 1]
