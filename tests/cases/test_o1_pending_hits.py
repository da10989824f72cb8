"""O1 with lookups: a block that waits for a step is findable, comes back with its content, and waits again."""

from __future__ import annotations

import pytest

from pagedkv import BlockState
from pagedkv.errors import OutOfBlocksError

from .refused import refused
from .reuse import Make, Reuse, span


def _pending(make: Make, num_blocks: int = 4) -> tuple[Reuse, int, list[int]]:
    """B=4: [1..9] is freed while its step is in flight."""
    cache = make(num_blocks, 4)
    cache.admit(1, span(1, 9))
    step = cache.append([1], [9]).step
    cache.commit([1], [9])
    blocks = cache.table(1)
    cache.free([1], after=step)
    assert (cache.get_stats().pending_blocks, cache.available) == (3, num_blocks - 3)
    return cache, step, blocks


def test_o1_a_hit_on_pending_blocks(make: Make) -> None:
    cache, step, blocks = _pending(make)
    assert cache.found(span(1, 9)) == 8
    assert cache.admit(2, span(1, 9)).cached_tokens == 8
    assert cache.table(2)[:2] == blocks[:2]
    assert (cache.in_use, cache.get_stats().pending_blocks, cache.available) == (3, 1, 0)
    cache.free([2])
    assert [cache.allocator.state(b) for b in blocks[:2]] == [BlockState.PENDING] * 2
    assert (cache.get_stats().pending_blocks, cache.available) == (3, 1)
    cache.retire(step)
    assert (cache.cached, cache.available, cache.found(span(1, 9))) == (2, 4, 8)


def test_o1_a_step_that_retires_meanwhile_holds_nothing_back(make: Make) -> None:
    cache, step, blocks = _pending(make)
    cache.admit(2, span(1, 9))
    cache.retire(step)
    assert cache.refs(*blocks[:2]) == [1, 1]
    cache.free([2])
    assert (cache.get_stats().pending_blocks, cache.cached) == (0, 2)


def test_o1_a_hit_waits_for_the_later_of_two_steps(make: Make) -> None:
    cache, step, blocks = _pending(make)
    cache.admit(2, span(1, 9))
    later = cache.append([2], [1]).step
    cache.free([2], after=later)
    cache.retire(step)
    assert [cache.allocator.state(b) for b in blocks[:2]] == [BlockState.PENDING] * 2
    cache.retire(later)
    assert (cache.cached, cache.available) == (2, 4)


def test_o1_pending_matches_are_no_capacity(make: Make) -> None:
    """N=3: nothing is free. What takes a block must wait; what takes none need not."""
    cache, step, _ = _pending(make, 3)
    with refused(cache.manager, OutOfBlocksError) as caught:
        cache.admit(2, span(1, 9))
    assert (caught.value.needed, caught.value.available, caught.value.pending) == (1, 0, 3)
    assert cache.admit(2, span(1, 8), max_hit_tokens=8).cached_tokens == 8
    cache.free([2])
    cache.retire(step)
    assert cache.compute(2, span(1, 9)) == 8


def test_o1_pending_matches_do_not_use_up_what_is_available(make: Make) -> None:
    """One clean block is enough for a prompt whose two matched blocks are pending, but not for two more."""
    cache, _, _ = _pending(make)
    with refused(cache.manager, OutOfBlocksError) as caught:
        cache.admit(2, [*span(1, 8), *span(21, 26)])
    assert (caught.value.needed, caught.value.available, caught.value.pending) == (2, 1, 3)
    assert cache.admit(2, [*span(1, 8), 21, 22]).cached_tokens == 8


def test_o1_a_hit_in_the_middle_of_the_waiting_order(make: Make) -> None:
    """Three chains wait for three steps; the second comes back and is freed again without a step."""
    cache = make(12, 2)
    steps = []
    for n in (10, 20, 30):
        cache.admit(n, [n, n, n])
        steps.append(cache.append([n], [3]).step)
        cache.commit([n], [3])
    for n, step in zip((10, 20, 30), steps, strict=True):
        cache.free([n], after=step)
    assert cache.compute(1, [20, 20, 20]) == 2
    cache.free([1])
    for count, step in zip((1, 2, 3), steps, strict=True):
        cache.retire(step)
        assert cache.cached == count
    assert [cache.found([n, n, n]) for n in (10, 20, 30)] == [2, 2, 2]


@pytest.mark.parametrize("reset", [False, True])
def test_o1_a_forgotten_pending_block_still_waits(make: Make, reset: bool) -> None:
    cache, step, blocks = _pending(make)
    if reset:
        assert cache.reset_prefix_cache()
    else:
        cache.allocator.unpublish(blocks[0])
    assert (cache.found(span(1, 9)), cache.get_stats().pending_blocks) == (0, 3)
    assert [cache.allocator.block(b).fill for b in blocks] == [0, 0, 0]
    cache.retire(step)
    assert (cache.cached, cache.available) == (0, 4)
