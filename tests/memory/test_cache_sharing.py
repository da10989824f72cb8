"""KVCache.fork, fork_sequence and reorder: the device-resident tables are right as soon as the call returns."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike

from cases.refused import observable, refused
from pagedkv import DevicePool, KVCache, KVCacheManager, OpaqueLayout, StepPlan, open_cache
from pagedkv.errors import BackendError, InvalidArgumentError, SequenceStateError


@pytest.fixture
def cache() -> KVCache:
    return open_cache(16 * 4 * 8, 4, 8, device="host")


def _assert_rows(cache: KVCache) -> None:
    """The device-resident row of every sequence names its blocks."""
    for seq_id in cache.seq_ids().tolist():
        entries = cache.get_page_table(seq_id).entries
        assert cache.pool.tables.array[cache.row(seq_id), : len(entries)].tolist() == entries.tolist()


def test_the_cache_writes_the_rows_of_the_children_at_once(cache: KVCache) -> None:
    cache.register_sequence(1, range(10))
    cache.append_tokens(1, 10)
    cache.fork(1, np.array([7, 8]))
    _assert_rows(cache)
    cache.append([7, 1], [1, 1])
    cache.fork_sequence(7, 9)
    _assert_rows(cache)
    assert (cache.pool.applied_step, cache.manager.last_step) == (4, 4)
    assert cache.seq_lens([7, 8, 9]).tolist() == [11, 10, 11]
    cache.fork(1, [])
    _assert_rows(cache)


def test_a_fork_that_the_cache_refuses_plans_nothing(cache: KVCache) -> None:
    cache.register_sequence(1, range(10))
    cache.append_tokens(1, 10)
    for parent, children in ((9, [7]), (1, [7, 1])):
        with refused(cache.manager, SequenceStateError):
            cache.fork(parent, children)
    for wrong in ([7, 7], [7.0]):
        with refused(cache.manager, InvalidArgumentError):
            cache.fork(1, wrong)
    assert cache.pool.applied_step == 1
    cache.close()
    before = observable(cache.manager)
    with pytest.raises(BackendError, match="closed"):
        cache.fork(1, [7])
    assert observable(cache.manager) == before


def test_the_cache_applies_a_reorder_at_once(cache: KVCache) -> None:
    cache.register_sequence(1, range(6))
    cache.append_tokens(1, 6)
    cache.fork(1, [2, 3])
    cache.append([2, 3], [3, 1])
    for ids, parents in (([1, 2, 3], [1, 1, 0]), ([3, 1], [1, 0]), ([2, 3, 1], [1, 2, 0]), ([1], [0]), ([], [])):
        lengths = [cache.seq_length(ids[parent]) for parent in parents]
        plan = cache.reorder(ids, parents)
        _assert_rows(cache)
        assert plan.lengths.tolist() == cache.seq_lens(ids).tolist() == lengths
        assert cache.pool.applied_step == plan.step == cache.manager.last_step
    cache.append([1, 2, 3], [1, 1, 1])
    _assert_rows(cache)


def test_rows_of_a_fork_grow_the_tables(cache: KVCache) -> None:
    """The first tables have 64 rows; the rows beyond them are there when the fork returns, the old ones too."""
    cache.register_sequence(1, range(6))
    cache.append_tokens(1, 6)
    cache.fork(1, range(10, 80))
    assert cache.pool.tables.rows >= 71
    _assert_rows(cache)
    cache.free(range(10, 79))
    cache.reorder([79, 1], [1, 0])
    _assert_rows(cache)


def test_a_row_that_served_another_sequence_is_written_anew(cache: KVCache) -> None:
    for seq_id in (1, 2):
        cache.register_sequence(seq_id, range(10))
        cache.append_tokens(seq_id, 10)
    cache.free_sequence(2)
    cache.fork(1, [3])
    assert cache.row(3) == 1
    _assert_rows(cache)
    cache.fork_sequence(3, 2)
    _assert_rows(cache)


def test_a_reorder_that_the_cache_refuses_plans_nothing(cache: KVCache) -> None:
    cache.register_sequence(1, range(6))
    cache.append_tokens(1, 6)
    for ids, parents in (([1], [1]), ([1], [-1]), ([1], []), ([1, 1], [0, 0])):
        with refused(cache.manager, InvalidArgumentError):
            cache.reorder(ids, parents)
    with refused(cache.manager, SequenceStateError):
        cache.reorder([1, 9], [0, 0])
    assert cache.pool.applied_step == 1
    cache.close()
    before = observable(cache.manager)
    with pytest.raises(BackendError, match="closed"):
        cache.reorder([1], [0])
    assert observable(cache.manager) == before


class PlansNothing(KVCacheManager):
    """Has too little memory for a plan, as a fork of thousands of children of a long prompt may have."""

    short_of_memory = False

    def reserve(self, seq_ids: ArrayLike, upto: ArrayLike) -> StepPlan:
        if self.short_of_memory:
            raise MemoryError
        return super().reserve(seq_ids, upto)


def test_a_fork_whose_plan_finds_no_memory_changes_nothing() -> None:
    manager = PlansNothing(16, 4)
    with KVCache(manager, DevicePool(OpaqueLayout(8, 4), 16, device="host")) as cache:
        cache.register_sequence(1, range(10))
        cache.append_tokens(1, 10)
        manager.short_of_memory = True
        before = observable(manager)
        with pytest.raises(MemoryError):
            cache.fork(1, [2, 3])
        assert observable(manager) == before
        manager.short_of_memory = False
        cache.fork(1, [2, 3])
        _assert_rows(cache)
