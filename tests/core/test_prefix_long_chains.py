"""Texts of many blocks that part at every place: a chain is found to where it parts, however it is kept inside."""

from __future__ import annotations

import random

import pytest

from cases.reuse import Reuse, span

LENGTH = 40
TEXT = span(1, LENGTH)


def _branch(place: int, first: int = 1000) -> list[int]:
    """TEXT up to `place`, then six tokens of its own."""
    return [*TEXT[:place], *(first + 100 * place + i for i in range(6))]


@pytest.fixture(params=[False, True], ids=["hashed", "equal_hashes"])
def cache(request: pytest.FixtureRequest) -> Reuse:
    """B=1, room for everything: the text and a branch at each of its places."""
    return Reuse(400, 1, _constant_hash=request.param)


@pytest.mark.parametrize("order", ["up", "down", "mixed"])
def test_branches_at_every_place(cache: Reuse, order: str) -> None:
    places = list(range(LENGTH + 1))
    if order == "down":
        places.reverse()
    if order == "mixed":
        random.Random(5).shuffle(places)
    cache.once(TEXT)
    known = {LENGTH: [TEXT]}
    for place in places:
        assert cache.lookup([*_branch(place), 0]) == place
        assert cache.compute(1, _branch(place)) == place
        cache.free([1])
        known.setdefault(place, []).append(_branch(place))
    for texts in known.values():
        for text in texts:
            assert cache.lookup([*text, 0]) == len(text)
            assert cache.lookup([*text[:-1], 0, 0]) == len(text) - 1
    assert cache.cached == LENGTH + 6 * (LENGTH + 1)


@pytest.mark.parametrize("place", range(LENGTH))
def test_losing_a_block_loses_what_is_below_and_nothing_else(cache: Reuse, place: int) -> None:
    blocks = cache.once(TEXT)
    for branch in (5, 11, 12, 13, 23, 24, 25, 36):
        cache.once(_branch(branch))
    cache.allocator.unpublish(blocks[place])
    assert cache.lookup([*TEXT, 0]) == place
    for branch in (5, 11, 12, 13, 23, 24, 25, 36):
        assert cache.lookup([*_branch(branch), 0]) == (branch + 6 if branch <= place else place)
    assert cache.cached == place + 6 * sum(branch <= place for branch in (5, 11, 12, 13, 23, 24, 25, 36))
    assert cache.compute(1, TEXT) == place
    assert cache.lookup([*TEXT, 0]) == LENGTH
    cache.drain_events()
    assert len(cache.drain_events()) == 0


@pytest.mark.parametrize("place", [1, 5, 11, 12, 13, 24, 30])
def test_a_text_that_grows_again_after_a_loss_has_new_serials(cache: Reuse, place: int) -> None:
    """Cut, grown, cut again: no serial of a lost content comes back for another one."""
    cache.drain_events()
    seen: set[int] = set()
    for turn in range(6):
        text = [*TEXT[:place], *(500 * (turn + 1) + i for i in range(LENGTH - place))]
        blocks = cache.once(text)
        events = cache.drain_events()
        stored = events.serials[events.kinds == 0].tolist()
        assert len(stored) == len(set(stored)) == (LENGTH if turn == 0 else LENGTH - place)
        assert seen.isdisjoint(stored)
        seen |= set(stored)
        parents = events.parents[events.kinds == 0].tolist()
        assert parents[1:] == stored[:-1]
        cache.allocator.unpublish(blocks[place])
        assert cache.drain_events().kinds.tolist() == [1] * (LENGTH - place)


def test_a_grown_text_is_one_chain_whatever_the_steps(cache: Reuse) -> None:
    """Token by token, with late ids, against at once."""
    cache.compute(1, TEXT[:1])
    for length in range(2, LENGTH + 1):
        cache.append([1], [1])
        cache.commit([1], [length], tokens=[length])
        assert cache.lookup([*TEXT, 0]) == length
    assert cache.compute(2, [*TEXT, 0]) == LENGTH
    assert cache.table(2)[:LENGTH] == cache.table(1)
