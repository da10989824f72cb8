"""S1: a block below a rewritten parent belongs to the text that the parent had, and to no other."""

from __future__ import annotations

import pytest

from pagedkv import BlockState

from .reuse import Make, Reuse, span

OLD, NEW = [*span(1, 12), 0], [1, 2, 3, 4, 5, 77, 78, 79, 9, 10, 11, 12, 0]


def _rewritten(make: Make) -> tuple[Reuse, int]:
    """N=8, B=4: S=[1..12] is cut to 5 and goes on with 77, 78, 79. Returns the block of [9..12], too."""
    cache = make(8, 4)
    cache.compute(1, span(1, 12))
    child = cache.table(1)[2]
    cache.truncate([1], [5])
    assert (cache.found(OLD), cache.cached) == (12, 1)
    cache.append([1], [3], tokens=[77, 78, 79])
    return cache, child


def test_s1_the_child_of_the_old_text_is_not_matched(make: Make) -> None:
    cache, child = _rewritten(make)
    assert (cache.found(NEW), cache.found(OLD)) == (4, 4)
    assert (cache.allocator.state(child), cache.cached) == (BlockState.CLEAN, 0)
    cache.commit([1], [8])
    assert (cache.found(NEW), cache.found(OLD)) == (8, 4)
    cache.free([1])
    assert (cache.cached, cache.found(NEW), cache.found(OLD)) == (2, 8, 4)


def test_s1_the_old_text_can_be_computed_beside_the_new(make: Make) -> None:
    cache, _ = _rewritten(make)
    cache.commit([1], [8])
    assert cache.compute(2, OLD) == 4
    assert cache.compute(3, NEW) == 8
    assert (cache.found(OLD), cache.found(NEW)) == (12, 12)


def test_s1_a_child_in_use_stays_with_its_holder(make: Make) -> None:
    """Another sequence reads [9..12] behind a copy of [5..8]: the copy keeps the old text alive."""
    cache = make(8, 4)
    cache.compute(1, span(1, 12))
    cache.fork(1, [2])
    cache.truncate([1], [5])
    cache.append([1], [3], tokens=[77, 78, 79])
    cache.commit([1], [8])
    assert (cache.found(NEW), cache.found(OLD)) == (8, 12)
    cache.free([1, 2])
    assert (cache.cached, cache.found(NEW), cache.found(OLD)) == (4, 8, 12)


@pytest.mark.parametrize("length", [0, 1, 3, 4])
def test_s1_a_whole_tree_goes_with_its_root(make: Make, length: int) -> None:
    """Three branches below [1..4], cached; their root is rewritten, or only their first block's parent."""
    cache = make(10, 4)
    branches = [[*span(1, 4), *[n] * 8, 0] for n in (20, 30, 40)]
    for branch in branches:
        cache.once(branch)
    assert [cache.found(branch) for branch in branches] == [12, 12, 12]
    assert cache.compute(1, span(1, 4), max_hit_tokens=4) == 4
    cache.truncate([1], [length], keep_blocks=True)
    cache.append([1], [5 - length], tokens=[50] * (5 - length))
    kept = length == 4
    assert [cache.found(branch) for branch in branches] == [12 * kept] * 3
    assert cache.cached == (6 if kept else 0)


def test_s1_a_block_that_left_its_text_can_take_another_place_in_the_tree(make: Make) -> None:
    """The same block as second of one text, first of another, and third of the first again."""
    cache = make(3, 2)
    for _ in range(4):
        cache.compute(1, [1, 2, 3, 4, 5, 6])
        cache.free([1])
        assert cache.found([1, 2, 3, 4, 5, 6, 0]) == 6
        cache.compute(2, [3, 4, 5, 6, 1, 2])
        cache.free([2])
        assert (cache.found([3, 4, 5, 6, 1, 2, 0]), cache.found([1, 2, 0])) == (6, 0)
