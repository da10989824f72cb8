"""E4: a block is findable when it is full, its writes are enqueued and its ids are known, and not a call earlier."""

from __future__ import annotations

import pytest

from .reuse import Make, span


def test_e4_what_was_only_going_to_be_computed_is_not_found(make: Make) -> None:
    cache = make(4, 2)
    cache.admit(1, span(1, 5))
    cache.append([1], [5])
    cache.free([1])
    assert (cache.available, cache.cached, cache.found([1, 2, 3, 4, 9])) == (4, 0, 0)
    cache.admit(1, span(1, 5))
    cache.append([1], [5])
    cache.commit([1], [3])
    cache.free([1])
    assert (cache.found([1, 2, 3, 4, 9]), cache.cached) == (2, 1)


@pytest.mark.parametrize("appended", [0, 2, 5])
def test_e4_reserved_blocks_of_an_aborted_prompt_are_clean(make: Make, appended: int) -> None:
    cache = make(4, 2)
    cache.admit(1, span(1, 5))
    cache.append([1], [appended])
    cache.reserve([1], [6])
    cache.free([1])
    assert (cache.available, cache.cached, cache.found(span(1, 5))) == (4, 0, 0)


def test_e4_found_step_by_step_as_it_is_committed(make: Make) -> None:
    """B=4: after each committed token, exactly the full blocks."""
    cache = make(4, 4)
    cache.admit(1, span(1, 9))
    cache.append([1], [9])
    for committed in range(10):
        cache.commit([1], [committed])
        assert cache.found([*span(1, 9), 0]) == committed // 4 * 4


def test_e4_a_commit_that_raises_the_length_publishes(make: Make) -> None:
    """Written through reserved slots: the length comes with the commit."""
    cache = make(4, 4)
    cache.admit(1, span(1, 9))
    cache.commit([1], [9])
    assert (cache.seq_length(1), cache.found([*span(1, 9), 0])) == (9, 8)


def test_e4_append_alone_publishes_nothing(make: Make) -> None:
    cache = make(4, 4)
    cache.admit(1, [1, 2])
    cache.append([1], [2])
    cache.append([1], [4], tokens=span(3, 6))
    assert cache.found(span(1, 6)) == 0
    cache.commit([1], [3])
    assert cache.found(span(1, 6)) == 0
    cache.commit([1], [4])
    assert cache.found(span(1, 6)) == 4


@pytest.mark.parametrize("tokens", [None, [4]])
def test_e4_late_ids(make: Make, tokens: list[int] | None) -> None:
    """The writes are enqueued a step before the sampled id is known: the block waits for the id."""
    cache = make(4, 4)
    cache.compute(1, [1, 2, 3])
    cache.append([1], [1])
    cache.commit([1], [4])
    assert cache.found([1, 2, 3, 4, 9]) == 0
    cache.append([1], [1])
    cache.commit([1], [4], tokens=tokens)
    assert cache.found([1, 2, 3, 4, 9]) == (4 if tokens else 0)


def test_e4_late_ids_of_a_whole_prompt(make: Make) -> None:
    """A prompt admitted by length alone is as good as any other once its ids come."""
    cache = make(8, 4)
    cache.admit(1, (), reserve=9, salt=b"t")
    cache.append([1], [9])
    cache.commit([1], [9])
    assert cache.found([*span(1, 9), 0], salt=b"t") == 0
    cache.commit([1], [9], tokens=span(1, 9))
    assert (cache.found([*span(1, 9), 0], salt=b"t"), cache.found([*span(1, 9), 0])) == (8, 0)


def test_e4_a_sequence_of_unknown_ids_neither_hits_nor_is_found(make: Make) -> None:
    cache = make(8, 4)
    cache.once([0] * 8)
    assert cache.compute(1, [0] * 8) == 4
    cache.free([1])
    assert cache.admit(1, (), reserve=8).cached_tokens == 0
    cache.append([1], [8])
    cache.commit([1], [8])
    before = cache.cached
    cache.free([1])
    assert (cache.cached, cache.get_stats().hit_tokens) == (before, 4)


def test_e4_a_commit_never_goes_back(make: Make) -> None:
    cache = make(4, 4)
    cache.compute(1, span(1, 8))
    cache.commit([1], [2])
    assert (cache.committed_length(1), cache.found([*span(1, 8), 0])) == (8, 8)
