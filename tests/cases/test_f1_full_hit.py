"""F1: a prompt that is cached to its end leaves whole blocks, and at least one token, to compute."""

from __future__ import annotations

import pytest

from pagedkv import BlockState

from .reuse import Make, span


def test_f1_the_cap_of_a_hit(make: Make) -> None:
    cache = make(8, 4)
    cache.once(span(1, 8))
    prompts = [span(1, 8), span(1, 9), span(1, 4), [1, 2, 3, 4, 9], [1]]
    assert [cache.found(prompt) for prompt in prompts] == [4, 8, 0, 4, 0]


def test_f1_the_last_block_is_computed_anew_and_not_written_over(make: Make) -> None:
    cache = make(8, 4)
    b0, b1 = cache.once(span(1, 8))
    assert cache.admit(1, span(1, 8)).cached_tokens == 4
    first, second = cache.table(1)
    assert first == b0
    assert second not in (b0, b1)
    assert (cache.in_use, cache.allocator.state(b1)) == (2, BlockState.CACHED)
    assert (cache.seq_length(1), cache.committed_length(1), cache.capacity_tokens(1)) == (4, 4, 8)
    assert cache.append([1], [4]).slots.tolist() == list(range(4 * second, 4 * second + 4))
    cache.commit([1], [8])
    cache.free([1])
    assert (cache.found(span(1, 9)), cache.cached) == (8, 3)


@pytest.mark.parametrize(
    ("prompt", "most", "hit"),
    [
        (8, 0, 0), (8, 1, 0), (8, 3, 0), (8, 4, 4), (8, 7, 4), (8, 8, 8), (8, 9, 8), (8, 2**40, 8), (8, 2**100, 8),
        (9, 4, 4), (9, 7, 4), (9, 8, 8), (9, 9, 8), (4, 3, 0), (4, 4, 4), (1, 1, 0), (0, 4, 0), (12, 12, 8),
        (8, None, 4), (9, None, 8), (0, None, 0),
    ],
)  # fmt: skip
def test_f1_the_caller_may_set_the_cap(make: Make, prompt: int, most: int | None, hit: int) -> None:
    """At most floor(min(P, cap) / B) blocks."""
    cache = make(8, 4)
    cache.once(span(1, 8))
    tokens = span(1, prompt)
    assert cache.found(tokens, max_hit_tokens=most) == hit
    assert cache.admit(1, tokens, max_hit_tokens=most).cached_tokens == hit
    assert (cache.seq_length(1), cache.committed_length(1)) == (hit, hit)
    assert (cache.get_stats().queried_tokens, cache.get_stats().hit_tokens) == (8 + prompt, hit)


def test_f1_a_whole_prompt_from_the_cache_goes_on_in_a_new_block(make: Make) -> None:
    """Nothing is left to compute: the sequence decodes on behind full blocks, which are not copied."""
    cache = make(8, 4)
    blocks = cache.once(span(1, 8))
    cache.admit(1, span(1, 8), max_hit_tokens=8)
    plan = cache.append([1], [1], tokens=[9])
    assert (plan.copies.size, plan.updates.tolist()) == (0, [[0, i, b] for i, b in enumerate(cache.table(1))])
    assert cache.table(1)[:2] == blocks
    assert cache.found([*span(1, 8), 0]) == 8


@pytest.mark.parametrize(("reserve", "capacity"), [(0, 8), (1, 8), (8, 8), (9, 12), (None, 12), (16, 16)])
def test_f1_reserve_counts_from_the_first_token(make: Make, reserve: int | None, capacity: int) -> None:
    cache = make(8, 4)
    cache.once(span(1, 8))
    cache.admit(1, span(1, 9), reserve=reserve)
    assert (cache.seq_length(1), cache.capacity_tokens(1)) == (8, capacity)


def test_f1_blocks_of_one_token(make: Make) -> None:
    cache = make(4, 1)
    cache.once([5, 6, 7])
    assert [cache.found(p) for p in ([5, 6, 7], [5, 6, 7, 8], [5], [5, 7, 7, 7], [6, 6, 7])] == [2, 3, 0, 1, 0]
    assert cache.compute(1, [5, 6, 7]) == 2


@pytest.mark.parametrize("tokens", [[-1, -2, -3, -4, -5], [2**31 - 1] * 5, [-(2**31)] * 5, [0] * 5, [0, 0, 0, -1, -1]])
def test_f1_any_token_id(make: Make, tokens: list[int]) -> None:
    cache = make(4, 4)
    cache.once(tokens)
    assert cache.found(tokens) == 4
    for place in range(4):
        other = list(tokens)
        other[place] ^= 1
        assert cache.found(other) == 0


@pytest.mark.parametrize("size", [1, 2, 3, 7, 15, 16, 17, 64])
def test_f1_every_token_of_a_block_counts(make: Make, size: int) -> None:
    """Sizes on both sides of what is compared in one piece."""
    cache = make(4, size)
    tokens = span(1, 3 * size)
    cache.once(tokens)
    assert cache.found([*tokens, 0]) == 3 * size
    for place in range(3 * size):
        other = list(tokens)
        other[place] = -7
        assert cache.found([*other, 0]) == place // size * size
