"""Case O1 on a GPU: a kernel that certainly still runs keeps its blocks from being handed out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memory import pattern_by_hand
from pagedkv import DevicePool, KVCacheManager, OpaqueLayout
from pagedkv.cache import KVCache
from pagedkv.errors import OutOfBlocksError

from .gate import Gate

pytestmark = pytest.mark.gpu

LAYOUT = OpaqueLayout(24, 2)


@pytest.fixture
def cache(warm: Callable[[OpaqueLayout], None]) -> KVCache:
    """N=2, B=2; S, of 4 tokens, gets both blocks."""
    warm(LAYOUT)
    cache = KVCache(KVCacheManager(2, 2), DevicePool(LAYOUT, 2, device="cuda:0"))
    cache.register_sequence(1, [1, 2, 3, 4])
    return cache


def handle(stream: Any) -> int:
    return int(stream.__cuda_stream__()[1])


def test_o1_blocks_wait_for_the_kernel_that_writes_them(cache: KVCache, new_gate: Callable[[], Gate]) -> None:
    pool = cache.pool
    plan = cache.append([1], [4])
    gate = new_gate()
    gate.hold(handle(pool.stream))
    pool.fill_tokens(1, range(4), plan.slots)
    cache.step_done(plan.step)
    cache.free([1], after=plan.step)
    for _ in range(100):
        assert cache.retire_finished() == 0
    stats = cache.get_stats()
    assert (stats.allocated_blocks, stats.pending_blocks, stats.free_blocks) == (2, 2, 0)
    with pytest.raises(OutOfBlocksError) as caught:
        cache.allocator.allocate(1)
    assert (caught.value.available, caught.value.pending) == (0, 2)
    assert cache.try_admit(2, (), reserve=1) is None
    gate.open()
    assert pool.wait_step(plan.step) == plan.step
    assert cache.retire_finished() == plan.step
    stats = cache.get_stats()
    assert (stats.pending_blocks, stats.free_blocks) == (0, 2)
    assert sorted(cache.allocator.allocate(2).tolist()) == [0, 1]
    pool.close()


def test_o1_a_swapped_out_sequence_has_the_values_after_the_kernel(
    torch: Any, cache: KVCache, new_gate: Callable[[], Gate]
) -> None:
    """S's kernel is held, then its copy; T overwrites the blocks as soon as it may."""
    pool, copy_stream = cache.pool, torch.cuda.Stream()
    saved = torch.full((2, LAYOUT.block_bytes), 0xA5, dtype=torch.uint8, pin_memory=True)
    plan = cache.append([1], [4])
    kernel, copy = new_gate(), new_gate()
    kernel.hold(handle(pool.stream))
    pool.fill_tokens(1, range(4), plan.slots)
    pool.fence(copy_stream.cuda_stream)
    copy.hold(copy_stream.cuda_stream)
    blocks = cache.get_page_table(1).entries
    pool.read_blocks(blocks, out=saved.numpy(), stream=copy_stream.cuda_stream)
    pool.step_done(plan.step, also=[copy_stream.cuda_stream])
    cache.free([1], after=plan.step)

    kernel.open()
    pool.stream.synchronize()
    assert cache.retire_finished() == 0
    assert cache.try_admit(2, (), reserve=4) is None, "the kernel is done, the copy is not"
    assert (saved.numpy() == 0xA5).all()
    copy.open()
    assert pool.wait_step(plan.step) == plan.step
    cache.retire_finished()
    cache.admit(2, (), reserve=4)
    pool.fill_tokens(2, range(4), cache.append([2], [4]).slots)
    pool.stream.synchronize()
    assert saved.numpy().tobytes() == pattern_by_hand.tokens(1, 4, 24)
    assert pool.verify_tokens(2, range(4), cache.slot_mapping([2])) == 0
    pool.close()


def test_o1_freed_without_after_is_reused_behind_the_kernel_on_the_same_stream(
    torch: Any, cache: KVCache, new_gate: Callable[[], Gate]
) -> None:
    pool = cache.pool
    saved = torch.full((2, LAYOUT.block_bytes), 0xA5, dtype=torch.uint8, pin_memory=True)
    plan = cache.append([1], [4])
    gate = new_gate()
    gate.hold(handle(pool.stream))
    pool.fill_tokens(1, range(4), plan.slots)
    pool.read_blocks(cache.get_page_table(1).entries, out=saved.numpy())
    cache.free([1])
    cache.register_sequence(2, [5, 6, 7, 8])
    pool.fill_tokens(2, range(4), cache.append([2], [4]).slots)
    gate.open()
    pool.stream.synchronize()
    assert saved.numpy().tobytes() == pattern_by_hand.tokens(1, 4, 24)
    assert pool.verify_tokens(2, range(4), cache.slot_mapping([2])) == 0
    pool.close()


def test_o1_steps_finish_in_order_though_a_later_one_is_done_first(
    torch: Any, warm: Callable[[OpaqueLayout], None], new_gate: Callable[[], Gate]
) -> None:
    """Three steps; the second's copy stream lags and holds back itself and the third."""
    warm(OpaqueLayout(8, 1))
    cache = KVCache(KVCacheManager(3, 1), DevicePool(OpaqueLayout(8, 1), 3, device="cuda:0"))
    lagging, gate = torch.cuda.Stream(), new_gate()
    for seq_id in range(3):
        cache.register_sequence(seq_id, [0])
        step = cache.append([seq_id], [1]).step
        if seq_id == 1:
            gate.hold(lagging.cuda_stream)
        cache.pool.step_done(step, also=[lagging.cuda_stream] if seq_id == 1 else [])
        cache.free([seq_id], after=step)
    cache.pool.stream.synchronize()
    assert cache.retire_finished() == 1
    assert cache.get_stats().pending_blocks == 2
    gate.open()
    lagging.synchronize()
    assert cache.retire_finished() == 3
    assert cache.get_stats().free_blocks == 3
    cache.pool.close()
