"""Prefix caching turned off, forgotten, and counted; the index as many calls at a time."""

from __future__ import annotations

from threading import Thread

import pytest

from cases.refused import observable, refused
from cases.reuse import Make, Reuse, span
from pagedkv import BlockState, KVCacheManager, open_cache
from pagedkv.errors import OutOfBlocksError

PROMPT = span(1, 9)


@pytest.fixture(params=[False, True], ids=["hashed", "equal_hashes"])
def make(request: pytest.FixtureRequest) -> Make:
    return lambda *sizes, **options: Reuse(*sizes, _constant_hash=request.param, **options)


def test_off_unless_asked_for() -> None:
    manager = KVCacheManager(8, 4)
    for seq_id in (1, 2):
        assert manager.admit(seq_id, PROMPT, salt=b"t", spans=[(0, 1, b"x")], max_hit_tokens=9).cached_tokens == 0
        manager.append([seq_id], [9])
        manager.commit([seq_id], [9])
        assert manager.lookup(PROMPT) == 0
        manager.free([seq_id])
    stats = manager.get_stats()
    assert (stats.cached_blocks, stats.queried_tokens, stats.hit_tokens, stats.evictions) == (0, 0, 0, 0)
    assert (len(manager.drain_events()), manager.reset_prefix_cache()) == (0, True)
    manager.admit(1, ())
    assert manager.reset_prefix_cache() is False
    manager.check()


def test_reset_refuses_while_a_sequence_lives(make: Make) -> None:
    cache = make(8, 4)
    cache.once(PROMPT)
    cache.admit(1, (), reserve=0)
    before = observable(cache.manager)
    assert cache.reset_prefix_cache() is False
    assert (observable(cache.manager), cache.found(PROMPT)) == (before, 8)
    cache.free([1])
    assert cache.reset_prefix_cache() is True
    assert (cache.found(PROMPT), cache.cached, cache.available) == (0, 0, 8)
    assert cache.reset_prefix_cache() is True


def test_after_a_reset_the_lowest_block_is_handed_out_first(make: Make) -> None:
    cache = make(6, 4)
    cache.once(PROMPT)
    cache.once(span(11, 22))
    assert cache.cached == 5
    cache.reset_prefix_cache()
    assert cache.allocator.allocate(5).tolist() == [0, 1, 2, 3, 4]


def test_reset_takes_pinned_blocks_out(make: Make) -> None:
    """Whoever holds a block by a pin keeps it and its bytes; nobody finds it any more, and it is clean afterwards."""
    cache = make(8, 4)
    blocks = cache.once(PROMPT)
    cache.allocator.increment_ref(blocks[1])
    assert cache.reset_prefix_cache() is True
    assert (cache.refs(blocks[1]), cache.found(PROMPT)) == ([1], 0)
    cache.allocator.free(blocks[1])
    assert (cache.allocator.state(blocks[1]), cache.available) == (BlockState.CLEAN, 8)


def test_a_reset_cache_learns_again(make: Make) -> None:
    cache = make(8, 4)
    for turn in range(3):
        assert cache.compute(1, PROMPT, salt=b"t") == 0
        cache.free([1])
        assert cache.compute(1, PROMPT, salt=b"t") == 8
        cache.free([1])
        assert cache.reset_prefix_cache() is True
        assert (cache.get_stats().queried_tokens, cache.get_stats().hit_tokens) == (18 * (turn + 1), 8 * (turn + 1))


def test_what_is_counted(make: Make) -> None:
    """Admissions that succeed count; lookups, refusals and evictions of clean blocks do not."""
    cache = make(4, 4)
    cache.once(PROMPT)
    cache.found(PROMPT)
    cache.admit(1, span(1, 8))
    with refused(cache.manager, OutOfBlocksError):
        cache.admit(2, span(1, 16))
    stats = cache.get_stats()
    assert (stats.queried_tokens, stats.hit_tokens, stats.failed_admissions) == (17, 4, 1)
    assert (stats.cached_blocks, stats.clean_blocks, stats.evictions) == (1, 1, 0)
    cache.allocator.allocate(2)
    stats = cache.get_stats()
    assert (stats.cached_blocks, stats.clean_blocks, stats.evictions) == (0, 0, 1)


def test_a_pin_brings_a_cached_block_back_and_it_stays_findable(make: Make) -> None:
    cache = make(8, 4)
    blocks = cache.once(PROMPT)
    cache.allocator.increment_ref(blocks[:2])
    assert (cache.in_use, cache.found(PROMPT), cache.get_stats().stored_tokens) == (2, 8, 8)
    assert cache.compute(1, PROMPT) == 8
    assert cache.refs(*blocks[:2]) == [2, 2]
    cache.truncate([1], [5])
    plan = cache.append([1], [1], tokens=[77])
    assert plan.copies[:, 0].tolist() == [blocks[1]], "a pinned block is copied, not written"
    assert cache.found(PROMPT) == 8
    cache.allocator.free(blocks[:2])
    assert (cache.cached, cache.found(PROMPT)) == (1, 8)


def test_scratch_blocks_take_no_part(make: Make) -> None:
    cache = make(3, 4, scratch_blocks=2)
    cache.once(PROMPT)
    assert cache.compute(1, PROMPT) == 8
    assert cache.block_table([1], width=5).tolist() == [[0, 1, 2, 3, 3]]


def test_the_facade_passes_everything_through() -> None:
    with open_cache(8 * 4 * 16, 4, 16, device="host", prefix_caching=True) as cache:
        cache.admit(1, PROMPT, salt=b"t", spans=[(0, 1, b"x")], reserve=0)
        cache.append([1], [9])
        cache.commit([1], [9])
        assert len(cache.drain_events()) == 3
        assert cache.lookup(PROMPT, salt=b"t", spans=[(0, 1, b"x")]) == 8
        assert cache.lookup(PROMPT, salt=b"t", spans=[(0, 1, b"x")], max_hit_tokens=4) == 4
        assert (cache.lookup(PROMPT), cache.reset_prefix_cache()) == (0, False)
        admission = cache.try_admit(2, PROMPT, salt=b"t", spans=[(0, 1, b"x")])
        assert admission is not None
        assert admission.cached_tokens == 8
        cache.append([2], [1])
        entries = cache.get_page_table(2).entries
        assert cache.pool.tables.array[cache.row(2), : len(entries)].tolist() == entries.tolist()
        cache.free([1, 2])
        assert (cache.reset_prefix_cache(), cache.lookup(PROMPT, salt=b"t", spans=[(0, 1, b"x")])) == (True, 0)


def test_threads_find_only_what_was_stored() -> None:
    """Each thread has a salt of its own and the same tokens; some are evicted meanwhile."""
    manager = KVCacheManager(40, 4, prefix_caching=True)
    wrong: list[object] = []

    def work(number: int) -> None:
        salt = bytes([number])
        for turn in range(200):
            prompt = [turn % 3] * 4 + [number] * 5
            admission = manager.try_admit(number, prompt, salt=salt)
            if admission is None:
                continue
            manager.append([number], [9 - admission.cached_tokens])
            manager.commit([number], [9])
            if manager.lookup(prompt, salt=salt) != 8 or manager.lookup(prompt, salt=b"nobody"):
                wrong.append((number, turn))
            manager.drain_events()
            manager.free([number])

    threads = [Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    manager.check()
    stats = manager.get_stats()
    assert (stats.free_blocks, stats.active_sequences) == (40, 0)
    assert 0 < stats.hit_tokens < stats.queried_tokens
