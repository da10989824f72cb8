"""J1 with lookups: drafts are not findable before they are accepted, and a truncation takes nothing from the others."""

from __future__ import annotations

import pytest

from .reuse import Make, Reuse, span


def _with_drafts(make: Make) -> Reuse:
    """N=4, B=4: S=[1..6] committed, the drafts 91, 92, 93 written."""
    cache = make(4, 4)
    cache.compute(1, span(1, 6))
    cache.append([1], [3], tokens=[91, 92, 93])
    assert (cache.seq_length(1), len(cache.table(1))) == (9, 3)
    return cache


def test_j1_rejected_drafts_are_never_found(make: Make) -> None:
    cache = _with_drafts(make)
    assert cache.found([*span(1, 6), 91, 92, 0]) == 4
    cache.truncate([1], [7])
    assert (len(cache.table(1)), cache.available) == (2, 2)
    assert cache.found([*span(1, 6), 91, 92, 0]) == 4
    cache.append([1], [1], tokens=[8])
    cache.commit([1], [8])
    assert cache.found([*span(1, 6), 91, 92, 0]) == 4
    assert cache.found([*span(1, 6), 91, 8, 0]) == 8


def test_j1_the_cut_of_one_sequence_leaves_the_other_its_block_and_the_cache_its_content(make: Make) -> None:
    cache = make(4, 4)
    cache.compute(1, span(1, 8))
    cache.fork(1, [2])
    b0, b1 = cache.table(1)
    cache.truncate([1], [5])
    assert (cache.seq_length(1), cache.table(1), cache.refs(b1)) == (5, [b0, b1], [2])
    assert cache.found(span(1, 9)) == 8
    plan = cache.append([1], [1], tokens=[77])
    assert plan.copies.tolist() == [[b1, cache.table(1)[1]]]
    assert (cache.get_stats().cow_copies, cache.in_use) == (1, 3)
    assert (cache.table(2), cache.found(span(1, 9))) == ([b0, b1], 8)


def test_j1_drafts_whose_ids_come_late_with_those_accepted(make: Make) -> None:
    """The usual step: all writes committed by count, the accepted ids a step later, with the truncation."""
    cache = make(4, 4)
    cache.compute(1, span(1, 6))
    cache.append([1], [3])
    cache.commit([1], [9])
    assert cache.found([*span(1, 6), 91, 92, 0]) == 4
    cache.truncate([1], [8], keep_blocks=True)
    cache.commit([1], [8], tokens=[91, 8])
    assert [cache.found([*span(1, 6), *two, 0]) for two in ([91, 92], [91, 8])] == [4, 8]


def test_j1_committed_drafts_are_found_until_they_are_written_over(make: Make) -> None:
    """An engine may commit drafts with their ids: what lies in the block is then what is found, and no lie."""
    cache = _with_drafts(make)
    cache.commit([1], [9])
    assert cache.found([*span(1, 6), 91, 92, 0]) == 8
    cache.truncate([1], [7])
    assert cache.found([*span(1, 6), 91, 92, 0]) == 8
    cache.append([1], [1], tokens=[8])
    assert [cache.found([*span(1, 6), *two, 0]) for two in ([91, 92], [91, 8])] == [4, 4]
    cache.commit([1], [8])
    assert [cache.found([*span(1, 6), *two, 0]) for two in ([91, 92], [91, 8])] == [4, 8]


def test_j1_a_published_block_that_is_matched_is_not_written_by_its_first_owner(make: Make) -> None:
    """The other request found the drafts before they were rejected; it keeps them, the owner gets a copy."""
    cache = _with_drafts(make)
    cache.commit([1], [9])
    assert cache.compute(2, [*span(1, 6), 91, 92, 0]) == 8
    shared = cache.table(2)[1]
    cache.truncate([1], [7])
    plan = cache.append([1], [1], tokens=[8])
    assert plan.copies.tolist() == [[shared, cache.table(1)[1]]]
    cache.commit([1], [8])
    assert [cache.found([*span(1, 6), *two, 0]) for two in ([91, 92], [91, 8])] == [8, 8]


@pytest.mark.parametrize("keep_blocks", [False, True])
@pytest.mark.parametrize("length", range(9))
def test_j1_a_truncation_alone_takes_nothing_from_the_cache(make: Make, length: int, keep_blocks: bool) -> None:
    cache = make(8, 4)
    cache.compute(1, span(1, 8))
    cache.truncate([1], [length], keep_blocks=keep_blocks)
    assert cache.found([*span(1, 8), 0]) == 8
    cache.append([1], [8 - length], tokens=span(length + 1, 8))
    cache.commit([1], [8])
    assert cache.found([*span(1, 8), 0]) == 8
    cache.free([1])
    assert cache.found([*span(1, 8), 0]) == 8


@pytest.mark.parametrize("keep_blocks", [False, True])
@pytest.mark.parametrize("length", range(9))
def test_j1_what_is_written_behind_the_cut_is_found(make: Make, length: int, keep_blocks: bool) -> None:
    cache = make(8, 4)
    cache.compute(1, span(1, 8))
    cache.truncate([1], [length], keep_blocks=keep_blocks)
    cache.append([1], [8 - length], tokens=span(length + 11, 18))
    cache.commit([1], [8])
    assert cache.found([*span(1, length), *span(length + 11, 18), 0]) == 8
    cache.free([1])
    assert cache.found([*span(1, length), *span(length + 11, 18), 0]) == 8
    # Blocks that were kept were written over from the cut on; those given back are still what they were.
    assert cache.found([*span(1, 8), 0]) == (8 if length % 4 == 0 and not keep_blocks else length // 4 * 4)


@pytest.mark.parametrize("lengths", [(5, 7, 8), (7, 6, 5, 8), (2, 1, 0, 8), (4, 3, 8), (8, 8)])
def test_j1_cut_after_cut(make: Make, lengths: tuple[int, ...]) -> None:
    """Each time some old tokens are kept and new ones written; in the end the cache knows the last text."""
    cache = make(8, 4)
    text = span(1, 8)
    cache.compute(1, text)
    for turn, length in enumerate(lengths):
        text = text[: min(length, len(text))]
        cache.truncate([1], [len(text)])
        written = [100 * turn + i for i in range(8 - len(text))]
        cache.append([1], [len(written)], tokens=written)
        text = [*text, *written]
        if turn % 2 == 0:
            cache.commit([1], [8])
    cache.commit([1], [8])
    assert cache.found([*text, 0]) == 8


def test_j1_a_cut_below_what_came_from_the_cache(make: Make) -> None:
    """The ids of matched blocks are not the sequence's own; those in front of the cut are still known."""
    cache = make(8, 4)
    old = cache.once(span(1, 9))
    assert cache.compute(1, span(1, 9)) == 8
    cache.truncate([1], [6])
    cache.append([1], [2], tokens=[77, 78])
    cache.commit([1], [8])
    assert cache.table(1)[:2] == old[:2], "the sole holder writes in place"
    assert [cache.found(p) for p in ([*span(1, 6), 77, 78, 0], span(1, 9))] == [8, 4]


def test_j1_a_commit_over_reserved_slots_writes_too(make: Make) -> None:
    cache = make(8, 4)
    cache.compute(1, span(1, 8))
    cache.truncate([1], [5], keep_blocks=True)
    cache.commit([1], [8], tokens=[6, 7, 9])
    assert [cache.found(p) for p in ([*span(1, 8), 0], [*span(1, 7), 9, 0])] == [4, 8]


def test_j1_a_reservation_over_a_published_block_takes_it_out(make: Make) -> None:
    """Reserved positions may be written at once, without any further call."""
    cache = make(8, 4)
    cache.compute(1, span(1, 8))
    cache.truncate([1], [5], keep_blocks=True)
    assert cache.found(span(1, 9)) == 8
    cache.reserve([1], [6])
    assert cache.found(span(1, 9)) == 4
