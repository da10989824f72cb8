"""B1: an admission that finds its prefix and then too few blocks leaves no reference, no order, no counter behind."""

from __future__ import annotations

import pytest

from pagedkv.errors import (
    InvalidArgumentError,
    NeverFitsError,
    OutOfBlocksError,
    PagedKVError,
    SequenceStateError,
)

from .refused import refused
from .reuse import Make, Reuse, span

PROMPT = [*span(1, 8), 11, 12, 13]


def _two_cached_two_in_use(make: Make) -> tuple[Reuse, list[int]]:
    """N=4, B=4: the two blocks of [1..8] are cached, S2=[101..105] has the others."""
    cache = make(4, 4)
    blocks = cache.once(span(1, 9))
    assert (cache.cached, cache.available) == (2, 4)
    cache.compute(2, span(101, 105))
    assert (cache.in_use, cache.available, cache.cached) == (2, 2, 2)
    return cache, blocks[:2]


def _fail(cache: Reuse, times: int = 3) -> None:
    before = cache.get_stats()
    for time in range(times):
        with refused(cache.manager, OutOfBlocksError) as caught:
            cache.admit(3, PROMPT)
        assert (caught.value.needed, caught.value.available, caught.value.pending) == (1, 0, 0)
        assert cache.manager.get_stats().failed_admissions == before.failed_admissions + time + 1
    after = cache.get_stats()
    assert (after.queried_tokens, after.hit_tokens) == (before.queried_tokens, before.hit_tokens)


def test_b1_three_failures_leak_nothing(make: Make) -> None:
    cache, blocks = _two_cached_two_in_use(make)
    _fail(cache)
    assert (cache.refs(*blocks), cache.available) == ([0, 0], 2)
    cache.free([2])
    assert (cache.available, cache.cached) == (4, 3)
    assert cache.compute(3, PROMPT) == 8
    assert cache.table(3)[:2] == blocks
    assert (cache.in_use, cache.available) == (3, 1)


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_b1_failures_do_not_change_the_order_of_eviction(make: Make, failures: int) -> None:
    """The deeper block of [1..8] went first, and goes first."""
    cache, blocks = _two_cached_two_in_use(make)
    _fail(cache, failures)
    assert cache.allocator.allocate(1).tolist() == [blocks[1]]
    assert cache.found(span(1, 9)) == 4


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_b1_a_failed_hit_is_no_use(make: Make, failures: int) -> None:
    """The older of two chains stays the older one, though only its hit was asked for."""
    cache = make(4, 4)
    cache.once(span(1, 5))
    cache.once(span(6, 10))
    cache.allocator.allocate(2)
    for _ in range(failures):
        with refused(cache.manager, OutOfBlocksError) as caught:
            cache.admit(3, [1, 2, 3, 4, *span(11, 18)])
        assert (caught.value.needed, caught.value.available) == (2, 1)
    cache.allocator.allocate(1)
    assert (cache.found(span(1, 5)), cache.found(span(6, 10))) == (0, 4)


def test_b1_try_admit_says_none_and_leaves_as_little(make: Make) -> None:
    cache, blocks = _two_cached_two_in_use(make)
    for _ in range(3):
        assert cache.try_admit(3, PROMPT) is None
    assert (cache.refs(*blocks), cache.available, 3 in cache.manager) == ([0, 0], 2, False)
    assert cache.found(PROMPT) == 8


@pytest.mark.parametrize(("pinned", "fits"), [(2, True), (3, False), (4, False)])
def test_b1_the_watermark_counts_matched_blocks_as_taken(make: Make, pinned: int, fits: bool) -> None:
    """N=6, watermark 1: [1..9] takes one block and brings two cached ones into use; one more must be left."""
    cache = make(6, 4, watermark=1)
    cache.once(span(1, 9))
    cache.allocator.allocate(pinned)
    if fits:
        assert cache.compute(3, span(1, 9)) == 8
        assert cache.available == 1
        return
    with refused(cache.manager, OutOfBlocksError) as caught:
        cache.admit(3, span(1, 9))
    assert (caught.value.needed, caught.value.available) == (1, 4 - pinned)


@pytest.mark.parametrize(("pinned", "fits"), [(3, True), (4, False)])
def test_b1_the_watermark_where_only_cached_blocks_are_taken(make: Make, pinned: int, fits: bool) -> None:
    cache = make(6, 4, watermark=1)
    blocks = cache.once(span(1, 8))
    cache.allocator.allocate(pinned)
    if fits:
        assert cache.admit(3, span(1, 8), max_hit_tokens=8).cached_tokens == 8
        assert (cache.table(3), cache.available) == (blocks, 1)
    else:
        with refused(cache.manager, OutOfBlocksError):
            cache.admit(3, span(1, 8), max_hit_tokens=8)


def test_b1_whoever_takes_nothing_needs_nothing(make: Make) -> None:
    """All matched blocks are in use by another: no block leaves the free ones, however few there are."""
    cache = make(3, 4, watermark=1)
    cache.compute(1, span(1, 8))
    cache.allocator.allocate(1)
    assert cache.available == 0
    assert cache.admit(2, span(1, 8), max_hit_tokens=8).cached_tokens == 8
    assert cache.refs(*cache.table(1)) == [2, 2]
    with refused(cache.manager, OutOfBlocksError):
        cache.admit(3, span(1, 8))


REFUSED: list[tuple[type[PagedKVError], int, dict[str, object]]] = [
    (SequenceStateError, 7, {}),
    (NeverFitsError, 3, {"reserve": 17}),
    (InvalidArgumentError, 3, {"reserve": -1}),
    (InvalidArgumentError, 3, {"salt": "text"}),
    (InvalidArgumentError, 3, {"max_hit_tokens": -1}),
    (InvalidArgumentError, 3, {"spans": [(0, 12, b"")]}),
]


@pytest.mark.parametrize("index", range(len(REFUSED)))
def test_b1_no_refusal_leaves_a_reference(make: Make, index: int) -> None:
    error, seq_id, how = REFUSED[index]
    cache = make(4, 4)
    blocks = cache.once(span(1, 9))
    cache.admit(7, (), reserve=0)
    with refused(cache.manager, error):
        cache.admit(seq_id, PROMPT, **how)
    assert cache.refs(*blocks[:2]) == [0, 0]
    assert cache.found(PROMPT) == 8
