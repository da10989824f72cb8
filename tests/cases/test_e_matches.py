"""E1 and E2: what is matched is referenced before anything is taken, and a chain with a hole ends at the hole."""

from __future__ import annotations

import pytest

from pagedkv import BlockState
from pagedkv.errors import OutOfBlocksError

from .refused import refused
from .reuse import Make, Reuse, span


def _two_chains_cached(make: Make) -> tuple[Reuse, int, int]:
    """N=4, B=2: [1, 2] is cached and older than [7, 8], the other two blocks are in use."""
    cache = make(4, 2)
    b0 = cache.once([1, 2])[0]
    b1 = cache.once([7, 8])[0]
    cache.compute(1, [21, 22, 23])
    assert (cache.available, cache.cached) == (2, 2)
    return cache, b0, b1


def test_e1_a_request_does_not_evict_what_it_matched(make: Make) -> None:
    """b0 is the oldest cached block, and the request needs one more."""
    cache, b0, b1 = _two_chains_cached(make)
    assert cache.compute(2, [1, 2, 31]) == 2
    assert cache.table(2) == [b0, b1]
    assert (cache.refs(b0, b1), cache.available) == ([1, 1], 0)
    assert (cache.found([7, 8, 0]), cache.found([1, 2, 0])) == (0, 2)


def test_e1_matched_blocks_are_no_free_capacity(make: Make) -> None:
    cache, _, _ = _two_chains_cached(make)
    with refused(cache.manager, OutOfBlocksError) as caught:
        cache.admit(2, [1, 2, 31, 32, 33])
    assert (caught.value.needed, caught.value.available) == (2, 1)
    assert cache.available == 2
    assert (cache.found([1, 2, 0]), cache.found([7, 8, 0])) == (2, 2)


def test_e1_the_tail_of_the_own_chain_may_go_but_not_the_match(make: Make) -> None:
    """N=4, B=2: [1..6] is cached. A prompt with its first block needs two more: the clean one, and the deepest."""
    cache = make(4, 2)
    b0, b1, b2 = cache.once(span(1, 6))
    assert cache.compute(2, [1, 2, 31, 32, 33]) == 2
    assert cache.table(2) == [b0, 3, b2]
    assert cache.allocator.state(b1) == BlockState.CACHED
    assert cache.found([*span(1, 4), 0]) == 4


def test_e1_a_match_keeps_its_place_among_the_sequences_blocks(make: Make) -> None:
    """The whole pool is matched but the last block: nothing is left to evict, and nothing needs to be."""
    cache = make(3, 2)
    blocks = cache.once(span(1, 6))
    assert cache.compute(2, span(1, 6)) == 4
    assert cache.table(2)[:2] == blocks[:2]
    assert (cache.get_stats().evictions, cache.available) == (1, 0)


def test_e2_a_dropped_block_ends_the_hit(make: Make) -> None:
    cache = make(4, 2)
    blocks = cache.once(span(1, 7))
    assert cache.found([*span(1, 6), 9]) == 6
    cache.allocator.unpublish(blocks[1])
    assert (cache.found([*span(1, 6), 9]), cache.available) == (2, 4)
    cache.allocator.unpublish(blocks[0])
    assert (cache.found([*span(1, 6), 9]), cache.available) == (0, 4)


@pytest.mark.parametrize("dropped", [0, 1, 2])
def test_e2_what_lies_below_a_dropped_block_is_clean(make: Make, dropped: int) -> None:
    """It could never be found again: it must not be kept, and is handed out before what is still of use."""
    cache = make(4, 2)
    blocks = cache.once(span(1, 7))
    cache.allocator.unpublish(blocks[dropped])
    assert (cache.cached, cache.available) == (dropped, 4)
    assert set(cache.allocator.allocate(4 - dropped).tolist()) == {*blocks[dropped:3], 3}
    assert cache.found([*span(1, 6), 9]) == 2 * dropped


def test_e2_a_hole_is_closed_by_computing_again(make: Make) -> None:
    cache = make(4, 2)
    blocks = cache.once(span(1, 7))
    cache.allocator.unpublish(blocks[1])
    assert cache.compute(1, span(1, 7)) == 2
    cache.free([1])
    assert cache.found([*span(1, 6), 9]) == 6


def test_e2_a_hole_above_a_live_sequence_ends_its_publishing_only(make: Make) -> None:
    """S still reads its blocks; what it computes below the hole could not be reached and is not published."""
    cache = make(8, 2)
    cache.compute(1, span(1, 6))
    table = cache.table(1)
    cache.allocator.unpublish(table[0])
    assert cache.found([*span(1, 6), 9]) == 0
    cache.append([1], [4], tokens=span(7, 10))
    cache.commit([1], [10])
    assert (cache.table(1)[:3], cache.seq_length(1)) == (table, 10)
    assert cache.found([*span(1, 10), 0]) == 0
    cache.free([1])
    assert (cache.cached, cache.available) == (0, 8)


def test_e2_a_sequence_that_goes_back_above_the_hole_publishes_again(make: Make) -> None:
    cache = make(8, 2)
    cache.compute(1, span(1, 6))
    cache.allocator.unpublish(cache.table(1)[1])
    cache.truncate([1], [2])
    cache.append([1], [4], tokens=span(3, 6))
    cache.commit([1], [6])
    assert cache.found([*span(1, 6), 9]) == 6
