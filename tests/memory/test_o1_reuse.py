"""Case O1, the memory half: no block is reused while a kernel or a copy may still touch it."""

from __future__ import annotations

import pytest

from pagedkv import DevicePool, KVCacheManager, OpaqueLayout
from pagedkv.backends.host import HostBackend
from pagedkv.cache import KVCache
from pagedkv.errors import OutOfBlocksError

from . import pattern_by_hand

LAYOUT = OpaqueLayout(24, 2)


@pytest.fixture
def cache() -> KVCache:
    """N=2, B=2, streams that a test steps by hand; S, of 4 tokens, on both blocks."""
    backend = HostBackend(stepped=True)
    cache = KVCache(KVCacheManager(2, 2), DevicePool(LAYOUT, 2, device=backend))
    cache.register_sequence(1, [1, 2, 3, 4])
    return cache


def test_o1_blocks_wait_for_the_kernel_that_writes_them(cache: KVCache) -> None:
    plan = cache.append([1], [4])
    cache.pool.fill_tokens(1, range(4), plan.slots)  # the slow kernel
    cache.step_done(plan.step)
    cache.free([1], after=plan.step)
    while not cache.pool.finished_step():
        cache.retire_finished()
        stats = cache.get_stats()
        assert (stats.pending_blocks, stats.free_blocks) == (2, 0)
        with pytest.raises(OutOfBlocksError) as caught:
            cache.allocator.allocate(1)
        assert caught.value.pending == 2
        cache.pool.stream.step()  # type: ignore[attr-defined]
    assert cache.retire_finished() == plan.step
    stats = cache.get_stats()
    assert (stats.pending_blocks, stats.free_blocks) == (0, 2)
    assert sorted(cache.allocator.allocate(2).tolist()) == [0, 1]


def test_o1_a_swapped_out_sequence_has_the_values_after_the_kernel(cache: KVCache) -> None:
    """S is copied out while its kernel runs; T overwrites its blocks as soon as it may."""
    pool, copy_stream = cache.pool, cache.pool.backend.stream()
    plan = cache.append([1], [4])
    pool.fill_tokens(1, range(4), plan.slots)
    pool.fence(copy_stream)
    saved = pool.read_blocks(cache.get_page_table(1).entries, stream=copy_stream)
    pool.step_done(plan.step, also=[copy_stream])
    cache.free([1], after=plan.step)

    pool.stream.synchronize()
    cache.retire_finished()
    assert cache.try_admit(2, (), reserve=4) is None, "the kernel is done, the copy is not"
    copy_stream.synchronize()
    cache.retire_finished()
    cache.admit(2, (), reserve=4)
    pool.fill_tokens(2, range(4), cache.append([2], [4]).slots)
    pool.stream.synchronize()
    assert saved.tobytes() == pattern_by_hand.tokens(1, 4, 24)
    assert pool.verify_tokens(2, range(4), cache.slot_mapping([2])) == 0


def test_o1_a_copy_that_runs_ahead_is_held_by_its_fence(cache: KVCache) -> None:
    """However often the copy stream is given its turn, it takes nothing before the kernel has written."""
    pool, copy_stream = cache.pool, cache.pool.backend.stream()
    plan = cache.append([1], [4])
    pool.fill_tokens(1, range(4), plan.slots)
    pool.fence(copy_stream)
    saved = pool.read_blocks([0, 1], stream=copy_stream)
    assert not any(copy_stream.step() for _ in range(5))  # type: ignore[attr-defined]
    copy_stream.synchronize()
    assert saved.tobytes() == pattern_by_hand.tokens(1, 4, 24)


def test_o1_freed_without_after_is_reused_behind_the_kernel_on_the_same_stream(cache: KVCache) -> None:
    pool = cache.pool
    pool.fill_tokens(1, range(4), cache.append([1], [4]).slots)
    before = pool.read_blocks(cache.get_page_table(1).entries)
    cache.free([1])
    cache.register_sequence(2, [5, 6, 7, 8])
    pool.fill_tokens(2, range(4), cache.append([2], [4]).slots)
    pool.stream.synchronize()
    assert before.tobytes() == pattern_by_hand.tokens(1, 4, 24)
    assert pool.verify_tokens(2, range(4), cache.slot_mapping([2])) == 0


def test_o1_only_the_steps_that_finished_in_order_are_retired() -> None:
    """Three steps on one stream, a fourth whose copy stream lags: it holds back itself and what comes after."""
    backend = HostBackend(stepped=True)
    cache = KVCache(KVCacheManager(5, 1), DevicePool(OpaqueLayout(8, 1), 5, device=backend))
    lagging = backend.stream()
    for seq_id in range(5):
        cache.register_sequence(seq_id, [0])
        step = cache.append([seq_id], [1]).step
        if seq_id == 3:
            cache.pool.fence(lagging)
            cache.pool.read_blocks([seq_id], stream=lagging)
        cache.pool.step_done(step, also=[lagging] if seq_id == 3 else [])
        cache.free([seq_id], after=step)
    cache.pool.stream.synchronize()
    assert cache.retire_finished() == 3
    assert cache.get_stats().pending_blocks == 2
    lagging.synchronize()
    assert cache.retire_finished() == 5
    assert cache.get_stats().free_blocks == 5
