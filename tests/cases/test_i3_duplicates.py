"""I3: two blocks with one content. Neither table is changed, and the content is found while one of them has it."""

from __future__ import annotations

import pytest

from pagedkv import BlockState

from .reuse import Make, Reuse


def _two_that_computed_the_same(make: Make, num_blocks: int = 4) -> Reuse:
    cache = make(num_blocks, 2)
    cache.admit(1, [1, 2, 3])
    assert cache.admit(2, [1, 2, 3]).cached_tokens == 0
    cache.append([1, 2], [3, 3])
    cache.commit([1, 2], [3, 3])
    return cache


def test_i3_found_until_the_last_copy_goes(make: Make) -> None:
    cache = _two_that_computed_the_same(make)
    assert (cache.in_use, set(cache.table(1)) & set(cache.table(2))) == (4, set())
    cache.free([1])
    assert (cache.cached, cache.found([1, 2, 9])) == (1, 2)
    assert cache.compute(3, [7, 8, 9]) == 0
    assert (cache.available, cache.get_stats().evictions, cache.found([1, 2, 9])) == (0, 1, 2)
    cache.free([2])
    assert (cache.available, cache.found([1, 2, 9])) == (2, 2)
    assert cache.compute(4, [5, 6, 11]) == 0
    assert (cache.available, cache.get_stats().evictions, cache.found([1, 2, 9])) == (0, 2, 0)
    cache.free([3, 4])
    assert (cache.cached, cache.found([1, 2, 9])) == (2, 0)


@pytest.mark.parametrize("first", [1, 2])
def test_i3_either_may_end_first(make: Make, first: int) -> None:
    cache = _two_that_computed_the_same(make)
    copies = {seq_id: cache.table(seq_id)[0] for seq_id in (1, 2)}
    other = 3 - first
    cache.free([first])
    cache.free([other])
    assert (cache.cached, cache.available) == (2, 4)
    assert copies[first] in cache.allocator.allocate(3).tolist()
    assert cache.found([1, 2, 9]) == 2
    assert cache.allocator.state(copies[other]) == BlockState.CACHED
    cache.allocator.allocate(1)
    assert cache.found([1, 2, 9]) == 0


@pytest.mark.parametrize("writer", [1, 2])
def test_i3_a_write_into_one_copy_leaves_the_other(make: Make, writer: int) -> None:
    cache = _two_that_computed_the_same(make, 8)
    cache.truncate([writer], [1])
    cache.append([writer], [1], tokens=[77])
    cache.commit([writer], [2])
    assert [cache.found([*tokens, 9]) for tokens in ([1, 2], [1, 77])] == [2, 2]
    cache.free([3 - writer])
    assert cache.found([1, 2, 9]) == 2
    cache.free([writer])
    assert cache.cached == 2


@pytest.mark.parametrize("writer", [1, 2])
def test_i3_what_hangs_below_one_copy_hangs_below_the_other(make: Make, writer: int) -> None:
    """Both have [1, 2]; 1 goes on with [3, 4], 2 with [5, 6]. Losing one copy of the head loses no chain."""
    cache = _two_that_computed_the_same(make, 8)
    cache.append([1], [1], tokens=[4])
    cache.truncate([2], [2])
    cache.append([2], [2], tokens=[5, 6])
    cache.commit([1, 2], [4, 4])
    assert [cache.found(p) for p in ([1, 2, 3, 4, 0], [1, 2, 5, 6, 0])] == [4, 4]
    cache.allocator.unpublish(cache.table(writer)[0])
    assert [cache.found(p) for p in ([1, 2, 3, 4, 0], [1, 2, 5, 6, 0])] == [4, 4]
    cache.allocator.unpublish(cache.table(3 - writer)[0])
    assert [cache.found(p) for p in ([1, 2, 3, 4, 0], [1, 2, 5, 6, 0])] == [0, 0]
    cache.free([1, 2])
    assert cache.cached == 0


def test_i3_many_copies_come_and_go(make: Make) -> None:
    cache = make(8, 2)
    for seq_id in range(8):
        cache.admit(seq_id, [1, 2])
    cache.append(list(range(8)), [2] * 8)
    cache.commit(list(range(8)), [2] * 8)
    for seq_id in (3, 0, 7, 1):
        cache.free([seq_id])
    for _ in range(4):
        assert cache.found([1, 2, 9]) == 2
        cache.allocator.allocate(1)
    for seq_id in (5, 2, 6):
        cache.truncate([seq_id], [0])
        assert cache.found([1, 2, 9]) == 2
    cache.allocator.allocate(3)
    assert cache.found([1, 2, 9]) == 2
    cache.truncate([4], [0], keep_blocks=True)
    assert cache.found([1, 2, 9]) == 2
    cache.append([4], [1])
    assert cache.found([1, 2, 9]) == 0


def test_i3_a_recomputed_last_block_is_a_copy(make: Make) -> None:
    """The cap makes the second request compute block [3, 4] again: one content, two blocks."""
    cache = make(8, 2)
    old = cache.once([1, 2, 3, 4])
    assert cache.compute(1, [1, 2, 3, 4]) == 2
    assert cache.table(1) != old
    cache.allocator.unpublish(cache.table(1)[1])
    assert cache.found([1, 2, 3, 4, 9]) == 4
    cache.allocator.unpublish(old[1])
    assert cache.found([1, 2, 3, 4, 9]) == 2
