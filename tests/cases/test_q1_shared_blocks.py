"""Q1: a block that several sequences hold is one block, in every figure and at every moment."""

from __future__ import annotations

from itertools import permutations

import pytest

from pagedkv import CacheStats, KVCacheManager

from .refused import table
from .reuse import Make


def _ten_tokens_and_two_forks() -> KVCacheManager:
    """N=10, B=4, S of 10 tokens and its forks C1 and C2."""
    manager = KVCacheManager(10, 4)
    manager.admit(0, list(range(10)))
    manager.append([0], [10])
    manager.fork(0, [1, 2])
    return manager


def _places(stats: CacheStats) -> int:
    in_use = stats.allocated_blocks - stats.pending_blocks
    return in_use + stats.cached_blocks + stats.clean_blocks + stats.pending_blocks


@pytest.mark.parametrize("order", list(permutations((0, 1, 2))))
@pytest.mark.parametrize("batches", [[1, 1, 1], [3], [2, 1], [1, 2]])
def test_q1_shared_blocks_are_counted_once(order: tuple[int, ...], batches: list[int]) -> None:
    manager = _ten_tokens_and_two_forks()
    stats = manager.get_stats()
    assert (stats.allocated_blocks, stats.logical_blocks, stats.saved_blocks) == (3, 9, 6)
    assert (stats.logical_tokens, stats.stored_tokens) == (30, 10)
    assert stats.utilization_percent == pytest.approx(30)
    assert stats.token_utilization_percent == pytest.approx(25)
    assert stats.internal_frag_percent == pytest.approx(100 * 2 / 12)
    assert _places(stats) == 10

    writers = list(order)
    for size in batches:
        batch, writers = writers[:size], writers[size:]
        manager.append(batch, [1] * size)
        assert _places(manager.get_stats()) == 10
    stats = manager.get_stats()
    assert (stats.cow_copies, stats.allocated_blocks, stats.logical_blocks, stats.saved_blocks) == (2, 5, 9, 4)
    assert (stats.logical_tokens, stats.stored_tokens) == (33, 4 + 4 + 3 + 3 + 3)
    assert stats.utilization_percent == pytest.approx(50)
    assert stats.internal_frag_percent == pytest.approx(100 * 3 / 20)

    manager.free(order)
    stats = manager.get_stats()
    assert (stats.allocated_blocks, stats.clean_blocks, stats.cached_blocks) == (0, 10, 0)
    assert (stats.logical_blocks, stats.saved_blocks, stats.logical_tokens, stats.stored_tokens) == (0, 0, 0, 0)
    assert stats.peak_allocated_blocks == 5


def test_q1_members_that_end_one_by_one_are_counted_out_once() -> None:
    manager = _ten_tokens_and_two_forks()
    for ended, (allocated, saved, logical) in ((0, (3, 3, 20)), (2, (3, 0, 10)), (1, (0, 0, 0))):
        manager.free([ended])
        stats = manager.get_stats()
        assert (stats.allocated_blocks, stats.saved_blocks, stats.logical_tokens) == (allocated, saved, logical)
        assert stats.stored_tokens == min(10, logical)
        assert _places(stats) == 10


def test_q1_published_blocks_of_a_group_are_cached_once() -> None:
    manager = _ten_tokens_and_two_forks()
    manager.allocator.publish(table(manager, 0)[:2])
    manager.append([1, 2, 0], [1, 1, 1])
    manager.free([0, 1, 2])
    stats = manager.get_stats()
    assert (stats.allocated_blocks, stats.cached_blocks, stats.clean_blocks, stats.free_blocks) == (0, 2, 8, 10)


@pytest.mark.parametrize("order", list(permutations((0, 1, 2))))
def test_q1_what_a_group_leaves_in_the_cache_is_counted_once(make: Make, order: tuple[int, ...]) -> None:
    """S of ten known, committed tokens: its two full blocks are cached, the three tails are clean."""
    cache = make(10, 4)
    cache.compute(0, list(range(10)))
    cache.fork(0, [1, 2])
    cache.append([1, 2, 0], [1, 1, 1])
    for left, ended in enumerate(reversed(order)):
        assert _places(cache.get_stats()) == 10
        cache.free([ended])
        stats = cache.get_stats()
        assert (stats.cached_blocks, stats.allocated_blocks) == ((0, 4 - left) if left < 2 else (2, 0))
    assert (stats.clean_blocks, stats.stored_tokens, stats.logical_tokens) == (8, 0, 0)
    assert (stats.queried_tokens, stats.hit_tokens, stats.evictions) == (10, 0, 0)


def test_q1_a_matched_block_is_stored_once(make: Make) -> None:
    """Cached blocks hold tokens that count as stored only while somebody holds them."""
    cache = make(10, 4)
    cache.once(list(range(10)))
    assert cache.get_stats().stored_tokens == 0
    for seq_id in (1, 2, 3):
        assert cache.compute(seq_id, list(range(10))) == 8
    stats = cache.get_stats()
    assert (stats.allocated_blocks, stats.logical_blocks, stats.saved_blocks) == (5, 9, 4)
    assert (stats.logical_tokens, stats.stored_tokens) == (30, 8 + 2 + 2 + 2)
    assert (stats.queried_tokens, stats.hit_tokens) == (40, 24)
    assert (stats.peak_allocated_blocks, stats.utilization_percent) == (5, pytest.approx(50))


def test_q1_a_group_that_waits_for_a_step_is_pending_once() -> None:
    manager = _ten_tokens_and_two_forks()
    step = manager.append([1], [1]).step
    manager.free([0, 1, 2], after=step)
    stats = manager.get_stats()
    assert (stats.pending_blocks, stats.allocated_blocks, stats.clean_blocks) == (4, 4, 6)
    assert (stats.stored_tokens, stats.logical_blocks, stats.saved_blocks) == (0, 0, 0)
    manager.retire(step)
    assert manager.get_stats().clean_blocks == 10


def test_q1_a_reorder_changes_what_is_saved() -> None:
    manager = _ten_tokens_and_two_forks()
    manager.append([1, 2, 0], [1, 1, 1])
    manager.reorder([0, 1, 2], [1, 1, 1])
    stats = manager.get_stats()
    assert (stats.allocated_blocks, stats.logical_blocks, stats.saved_blocks) == (3, 9, 6)
    assert (stats.logical_tokens, stats.stored_tokens, stats.cow_copies) == (33, 11, 2)
