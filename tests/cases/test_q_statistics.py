"""Q: what the figures mean. Blocks are not tokens, shared blocks count once, and nothing divides by zero."""

from __future__ import annotations

import math

import pytest

from pagedkv import CacheStats, KVCacheManager

from .refused import table


def _seventeen_tokens_each() -> KVCacheManager:
    """N=30, B=16, ten sequences of 17 tokens."""
    manager = KVCacheManager(30, 16)
    for seq_id in range(10):
        manager.admit(seq_id, list(range(17)))
    manager.append(list(range(10)), [17] * 10)
    return manager


def test_q2_waste_of_shared_blocks_is_counted_once() -> None:
    """Part (d): three sequences of 17 tokens on the same two blocks waste 15 of 32 slots, not 45 of 96."""
    manager = KVCacheManager(30, 16)
    manager.admit(0, list(range(17)))
    manager.append([0], [17])
    manager.fork(0, [1, 2])
    stats = manager.get_stats()
    assert stats.internal_frag_percent == pytest.approx(100 * 15 / 32)
    assert (stats.allocated_blocks, stats.stored_tokens, stats.logical_tokens) == (2, 17, 51)


def test_q2_blocks_are_not_tokens() -> None:
    stats = _seventeen_tokens_each().get_stats()
    assert stats.allocated_blocks == stats.logical_blocks == 20
    assert stats.logical_tokens == stats.stored_tokens == 170
    assert stats.utilization_percent == pytest.approx(100 * 20 / 30, rel=1e-12)
    assert stats.token_utilization_percent == pytest.approx(100 * 170 / 480, rel=1e-12)
    assert stats.internal_frag_percent == pytest.approx(46.875, rel=1e-12)
    assert stats.external_frag_percent == 0
    assert (stats.active_sequences, stats.saved_blocks, stats.peak_allocated_blocks) == (10, 0, 20)


def test_q2_empty_pool() -> None:
    stats = KVCacheManager(30, 16).get_stats()
    figures = stats.as_dict()
    assert all(math.isfinite(value) for value in figures.values())
    assert {name for name, value in figures.items() if value} == {"total_blocks", "free_blocks", "clean_blocks"}
    assert stats.free_blocks == stats.clean_blocks == stats.total_blocks == 30


def test_q2_empty_again_after_use() -> None:
    manager = _seventeen_tokens_each()
    manager.free(list(range(10)))
    stats = manager.get_stats()
    assert stats.utilization_percent == stats.internal_frag_percent == stats.token_utilization_percent == 0
    assert (stats.stored_tokens, stats.logical_tokens, stats.logical_blocks) == (0, 0, 0)
    assert stats.peak_allocated_blocks == 20


def test_q2_reserved_blocks_are_allocated_but_store_nothing() -> None:
    manager = KVCacheManager(10, 4)
    manager.admit(1, list(range(16)))
    stats = manager.get_stats()
    assert (stats.allocated_blocks, stats.stored_tokens, stats.logical_tokens) == (4, 0, 0)
    assert stats.internal_frag_percent == 100
    manager.append([1], [6])
    assert manager.get_stats().internal_frag_percent == pytest.approx(62.5)


def test_q2_a_block_that_is_also_pinned_counts_once() -> None:
    """Waste counted once a holder would pass 100 % or fall below 0."""
    manager = KVCacheManager(10, 4)
    manager.admit(1, list(range(6)))
    manager.append([1], [6])
    before = manager.get_stats()
    manager.allocator.increment_ref(table(manager, 1) * 3)
    stats = manager.get_stats()
    assert stats.as_dict() == before.as_dict()
    assert stats.internal_frag_percent == pytest.approx(25)
    assert stats.saved_blocks == 0
    manager.free([1])
    left = manager.get_stats()
    assert (left.allocated_blocks, left.stored_tokens) == (2, 6), "the pins still hold the tokens"
    assert (left.logical_blocks, left.logical_tokens, left.saved_blocks) == (0, 0, 0)


def test_q2_rejected_tokens_are_not_stored() -> None:
    manager = KVCacheManager(10, 4)
    manager.admit(1, list(range(10)))
    manager.append([1], [10])
    manager.truncate([1], [5], keep_blocks=True)
    stats = manager.get_stats()
    assert (stats.stored_tokens, stats.logical_tokens, stats.allocated_blocks) == (5, 5, 3)


def test_q2_pending_blocks_are_allocated_but_neither_stored_nor_wasted() -> None:
    manager = KVCacheManager(10, 4)
    manager.admit(1, list(range(6)))
    manager.free([1], after=manager.append([1], [6]).step)
    stats = manager.get_stats()
    assert (stats.allocated_blocks, stats.pending_blocks, stats.free_blocks) == (2, 2, 8)
    assert stats.utilization_percent == 20
    assert (stats.stored_tokens, stats.internal_frag_percent, stats.token_utilization_percent) == (0, 0, 0)


def test_q2_peak_remembers_and_failed_calls_do_not_raise_it() -> None:
    manager = KVCacheManager(4, 4)
    manager.admit(1, list(range(8)))
    manager.append([1], [8])
    assert manager.try_admit(2, list(range(12))) is None
    manager.free([1])
    manager.admit(2, [1])
    stats = manager.get_stats()
    assert (stats.peak_allocated_blocks, stats.failed_admissions) == (2, 1)


def test_q2_evicted_blocks_are_counted_when_they_are_handed_out_again() -> None:
    manager = KVCacheManager(4, 4)
    manager.admit(1, list(range(12)))
    manager.append([1], [12])
    manager.allocator.publish(table(manager, 1))
    manager.free([1])
    stats = manager.get_stats()
    assert (stats.cached_blocks, stats.clean_blocks, stats.evictions, stats.allocated_blocks) == (3, 1, 0, 0)
    manager.admit(2, (), reserve=12)
    stats = manager.get_stats()
    assert (stats.cached_blocks, stats.clean_blocks, stats.evictions) == (1, 0, 2)


def test_q2_a_snapshot_does_not_move() -> None:
    manager = _seventeen_tokens_each()
    stats = manager.get_stats()
    assert isinstance(stats, CacheStats)
    before = stats.as_dict()
    manager.free(list(range(10)))
    assert stats.as_dict() == before
    with pytest.raises(AttributeError):
        stats.total_blocks = 7  # type: ignore[misc]
