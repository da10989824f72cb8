"""G3 with lookups: what forks and beams hold and publish together is found whoever ends first."""

from __future__ import annotations

from itertools import permutations

import pytest

from pagedkv.errors import SequenceStateError

from .refused import refused
from .reuse import Make, span


def test_g3_a_prompt_is_found_after_its_first_owner_ended(make: Make) -> None:
    cache = make(4, 4)
    cache.compute(1, span(1, 8))
    cache.fork(1, [2])
    blocks = cache.table(1)
    cache.free([1])
    assert (cache.refs(*blocks), cache.in_use, cache.available) == ([1, 1], 2, 2)
    assert cache.found(span(1, 9)) == 8
    with refused(cache.manager, SequenceStateError):
        cache.free([1])
    cache.free([2])
    assert (cache.available, cache.cached, cache.found(span(1, 9))) == (4, 2, 8)


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
@pytest.mark.parametrize("together", [False, True])
def test_g3_any_order(make: Make, order: tuple[int, ...], together: bool) -> None:
    cache = make(4, 4)
    cache.compute(1, span(1, 8))
    cache.fork(1, [2, 3])
    for batch in [order] if together else [[seq_id] for seq_id in order]:
        cache.free(batch)
        assert cache.found(span(1, 9)) == 8
    assert (cache.cached, cache.available) == (2, 4)


@pytest.mark.parametrize("first", [1, 2])
def test_g3_a_shared_block_is_published_by_whoever_commits_it_first(make: Make, first: int) -> None:
    """Forked before the commit: both have the block and the ids, and it is one content and one block."""
    cache = make(4, 4)
    cache.admit(1, span(1, 8))
    cache.append([1], [8])
    cache.fork(1, [2])
    cache.commit([first], [8])
    assert cache.found(span(1, 9)) == 8
    cache.commit([3 - first], [8])
    cache.free([1, 2])
    assert (cache.cached, cache.found(span(1, 9))) == (2, 8)


def test_g3_forks_publish_their_own_continuations(make: Make) -> None:
    """The tail [5, 6] is shared and copied on write; each child's full block is its own content."""
    cache = make(8, 4)
    cache.compute(1, span(1, 6))
    cache.fork(1, [2, 3])
    cache.append([1, 2, 3], [2, 2, 2], tokens=[7, 8, 27, 28, 37, 38])
    assert [cache.found([*span(1, 6), n + 7, n + 8, 0]) for n in (0, 20, 30)] == [4, 4, 4]
    cache.commit([3], [8])
    assert [cache.found([*span(1, 6), n + 7, n + 8, 0]) for n in (0, 20, 30)] == [4, 4, 8]
    cache.commit([1, 2], [8, 8])
    assert [cache.found([*span(1, 6), n + 7, n + 8, 0]) for n in (0, 20, 30)] == [8, 8, 8]
    cache.free([2, 1, 3])
    assert (cache.cached, cache.available) == (4, 8)


def test_g3_forks_with_equal_continuations_are_copies_of_one_content(make: Make) -> None:
    cache = make(8, 4)
    cache.compute(1, span(1, 6))
    cache.fork(1, [2])
    cache.append([1, 2], [2, 2], tokens=[7, 8, 7, 8])
    cache.commit([1, 2], [8, 8])
    cache.free([1])
    assert cache.found(span(1, 9)) == 8
    cache.free([2])
    assert (cache.cached, cache.found(span(1, 9))) == (3, 8)


@pytest.mark.parametrize("commit_first", [False, True])
def test_g3_beams_publish_what_they_have_become(make: Make, commit_first: bool) -> None:
    """B=2. X and Y go on with 10 and 20; both become Y; then 11 and 12."""
    cache = make(8, 2)
    cache.compute(1, [1, 2, 3])
    cache.fork(1, [2])
    cache.append([1, 2], [1, 1], tokens=[10, 20])
    if commit_first:
        cache.commit([1, 2], [4, 4])
    cache.reorder([1, 2], [1, 1])
    cache.append([1, 2], [2, 2], tokens=[11, 0, 12, 0])
    cache.commit([1, 2], [6, 6])
    hits = [cache.found([1, 2, 3, *rest, 9]) for rest in ([10], [20], [20, 11, 0], [20, 12, 0], [20, 11, 1])]
    assert hits == [4 if commit_first else 2, 4, 6, 6, 4]
    cache.free([2, 1])
    # [1, 2], [3, 20], [11, 0], [12, 0]; and [3, 10] if it was committed before X left it.
    assert cache.cached == 4 + commit_first


def test_g3_a_reorder_takes_late_ids_along(make: Make) -> None:
    """The beam that is taken over brings its known ids; what is missing is missing in both, and may differ."""
    cache = make(8, 2)
    cache.compute(1, [1, 2, 3])
    cache.fork(1, [2])
    cache.append([1, 2], [1, 1])
    cache.commit([2], [4], tokens=[20])
    cache.reorder([1, 2], [1, 1])
    cache.append([1, 2], [2, 2])
    cache.commit([1, 2], [6, 6], tokens=[11, 0, 12, 0])
    assert [cache.found([1, 2, 3, 20, last, 0, 9]) for last in (11, 12, 13)] == [6, 6, 4]


def test_g3_a_hit_can_be_forked_at_once(make: Make) -> None:
    cache = make(8, 4)
    blocks = cache.once(span(1, 9))
    cache.admit(1, span(1, 9))
    cache.fork(1, [2, 3])
    assert (cache.refs(*blocks[:2]), cache.seq_lens([2, 3]).tolist()) == ([3, 3], [8, 8])
    cache.append([1, 2, 3], [1, 1, 1], tokens=None)
    cache.commit([1, 2, 3], [9, 9, 9])
    cache.free([1, 2, 3])
    assert (cache.cached, cache.found(span(1, 9))) == (2, 8)
