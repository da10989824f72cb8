"""I1: descendants go before their ancestors, so that what is left of a chain can always be matched."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pagedkv import BlockState

from .reuse import Make, Reuse, span


def _at_once(cache: Reuse) -> None:
    cache.compute(1, span(1, 6))


def _in_steps(cache: Reuse) -> None:
    """The prompt in three chunks of two tokens, each committed by itself."""
    cache.admit(1, span(1, 6))
    for length in (2, 4, 6):
        cache.append([1], [2])
        cache.commit([1], [length])


def _grown(cache: Reuse) -> None:
    """A prompt of two tokens and four generated ones."""
    cache.compute(1, [1, 2])
    for first in (3, 5):
        cache.append([1], [2], tokens=[first, first + 1])
        cache.commit([1], [first + 1])


@pytest.mark.parametrize("build", [_at_once, _in_steps, _grown])
def test_i1_the_tail_goes_first_200_times(make: Make, build: Callable[[Reuse], None]) -> None:
    for _ in range(200):
        cache = make(3, 2)
        build(cache)
        cache.free([1])
        assert cache.lookup(span(1, 7)) == 6
        cache.compute(2, [8, 9])
        assert cache.lookup(span(1, 7)) == 4
        cache.compute(3, [10, 11])
        assert cache.lookup(span(1, 7)) == 2
        assert (cache.get_stats().evictions, cache.available) == (2, 1)


def test_i1_200_times_on_one_cache(make: Make) -> None:
    cache = make(3, 2)
    for _ in range(200):
        cache.compute(1, span(1, 6))
        cache.free([1])
        assert cache.lookup(span(1, 7)) == 6
        cache.compute(2, [8, 9])
        assert cache.lookup(span(1, 7)) == 4
        cache.compute(3, [10, 11])
        assert cache.lookup(span(1, 7)) == 2
        cache.free([2, 3])


def test_i1_the_chain_released_longest_ago_goes_first(make: Make) -> None:
    """Three chains of two blocks; the first one is used again before anything is evicted."""
    cache = make(6, 2)
    chains = [[10 * n + i for i in range(4)] for n in (1, 2, 3)]
    for chain in chains:
        cache.once(chain)
    cache.once([*chains[0]], max_hit_tokens=4)
    left = []
    for _ in range(6):
        cache.allocator.allocate(1)
        left.append([cache.found([*chain, 0]) for chain in chains])
    assert left == [[4, 2, 4], [4, 0, 4], [4, 0, 2], [4, 0, 0], [2, 0, 0], [0, 0, 0]]


def test_i1_a_batch_is_one_release_a_sequence(make: Make) -> None:
    cache = make(4, 2)
    cache.compute(1, [1, 2, 3, 4])
    cache.compute(2, [5, 6, 7, 8])
    cache.free([2, 1])
    left = []
    for _ in range(4):
        cache.allocator.allocate(1)
        left.append((cache.found([1, 2, 3, 4, 0]), cache.found([5, 6, 7, 8, 0])))
    assert left == [(4, 2), (4, 0), (2, 0), (0, 0)]


def test_i1_a_lookup_is_no_use(make: Make) -> None:
    cache = make(2, 2)
    cache.once([1, 2])
    cache.once([3, 4])
    for _ in range(3):
        assert cache.found([1, 2, 0]) == 2
    cache.allocator.allocate(1)
    assert (cache.found([1, 2, 0]), cache.found([3, 4, 0])) == (0, 2)


def test_i1_a_shared_head_outlives_its_branches(make: Make) -> None:
    """Two prompts with one head; whatever is freed first, the head was released last."""
    for order in ([1, 2], [2, 1]):
        cache = make(4, 2)
        cache.compute(1, [1, 2, 3, 4])
        assert cache.compute(2, [1, 2, 5, 6]) == 2
        cache.free(order)
        cache.allocator.allocate(3)
        assert (cache.found([1, 2, 3, 4, 0]), cache.found([1, 2, 5, 6, 0])) == (2, 2)


def test_i1_an_ancestor_that_goes_first_after_all_takes_its_descendants_along(make: Make) -> None:
    """A pin keeps the tail of a chain whose head is evicted: it stays with the pin, and nobody finds it."""
    cache = make(3, 2)
    cache.compute(1, [1, 2, 3, 4])
    head, tail = cache.table(1)
    cache.allocator.increment_ref(tail)
    cache.free([1])
    assert (cache.cached, cache.found([1, 2, 3, 4, 0])) == (1, 4)
    assert cache.allocator.allocate(2).tolist()[1] == head
    assert (cache.found([1, 2, 3, 4, 0]), cache.refs(tail), cache.allocator.block(tail).fill) == (0, [1], 2)
    cache.allocator.free(tail)
    assert (cache.allocator.state(tail), cache.available) == (BlockState.CLEAN, 1)


def test_i1_a_descendant_that_still_waits_for_a_step_is_clean_after_it(make: Make) -> None:
    cache = make(3, 2)
    cache.admit(1, [1, 2, 3, 4])
    step = cache.append([1], [4]).step
    cache.commit([1], [4])
    head, tail = cache.table(1)
    cache.free([1], after=step)
    cache.allocator.unpublish(head)
    assert [cache.allocator.state(b) for b in (head, tail)] == [BlockState.PENDING] * 2
    assert (cache.found([1, 2, 3, 4, 0]), cache.cached) == (0, 0)
    cache.retire(step)
    assert (cache.cached, cache.available) == (0, 3)


@pytest.mark.parametrize("blocks", [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 5, 0, 4, 1, 3]])
def test_i1_forgotten_blocks_are_handed_out_lowest_first(make: Make, blocks: list[int]) -> None:
    """Whatever order they had in their text: runs can be repeated exactly."""
    cache = make(6, 2)
    cache.allocator.allocate(6)
    cache.allocator.free(blocks)
    assert cache.once(span(1, 12)) == blocks
    cache.allocator.unpublish(blocks[1])
    assert cache.allocator.allocate(5).tolist() == [blocks[1], *sorted(blocks[2:])]
    assert cache.found(span(1, 12)) == 2


def test_i1_a_copy_of_the_head_stands_in(make: Make) -> None:
    cache = make(5, 2)
    cache.admit(1, [1, 2, 3, 4])
    cache.admit(2, [1, 2])
    cache.append([1, 2], [4, 2])
    cache.commit([1, 2], [4, 2])
    head = cache.table(1)[0]
    cache.free([1, 2])
    assert (cache.cached, cache.found([1, 2, 3, 4, 0])) == (3, 4)
    cache.allocator.unpublish(head)
    assert (cache.cached, cache.found([1, 2, 3, 4, 0])) == (2, 4)
