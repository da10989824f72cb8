"""KVCache: a manager and a pool that fit, plans applied at once, addresses that lead to the bytes."""

from __future__ import annotations

import ctypes
import inspect

import numpy as np
import pytest

from pagedkv import DevicePool, KVCache, KVCacheManager, OpaqueLayout, open_cache
from pagedkv.errors import BackendError, InvalidArgumentError, OutOfBlocksError, SequenceStateError

from . import pattern_by_hand
from .faulty_backend import FaultyBackend


def test_the_base_case_pool() -> None:
    with open_cache("256MiB", 16, 512) as cache:
        stats = cache.get_stats()
        assert (stats.total_blocks, cache.block_size_tokens, cache.pool.nbytes) == (32768, 16, 268435456)
        assert (cache.allocator.pool_base, cache.allocator.block_size_bytes) == (cache.pool.base, 8192)
    assert cache.pool.closed


@pytest.mark.parametrize(("pool_bytes", "scratch", "blocks"), [
    (13 * 8192, 1, 12),  # case F4 (d): a block set apart is not sold as usable
    (13 * 8192 + 8191, 0, 13),
    ("104KiB", 12, 1),
])  # fmt: skip
def test_a_pool_never_exceeds_what_was_asked(pool_bytes: int | str, scratch: int, blocks: int) -> None:
    with open_cache(pool_bytes, 16, 512, scratch_blocks=scratch) as cache:
        assert (cache.manager.num_blocks, cache.manager.scratch_blocks) == (blocks, scratch)
        assert (cache.pool.num_blocks, cache.pool.scratch_blocks) == (blocks, scratch)
        assert cache.pool.nbytes == (blocks + scratch) * 8192


@pytest.mark.parametrize(("pool_bytes", "block_size", "token", "options"), [
    (8191, 16, 512, {}),
    ("8KiB", 16, 512, {"scratch_blocks": 1}),
    ("1MiB", 16, 512, {"scratch_blocks": -1}),
    (0, 16, 512, {}), (-8192, 16, 512, {}), (8192.0, 16, 512, {}), (float("nan"), 16, 512, {}), ("much", 16, 512, {}),
    (True, 16, 512, {}), (None, 16, 512, {}),
    ("1MiB", 0, 512, {}), ("1MiB", 1.5, 512, {}), ("1MiB", 16, 0, {}), ("1MiB", 16, -512, {}), ("1MiB", 16, "512", {}),
    ("1MiB", 16, OpaqueLayout(512, 32), {}),
    ("1MiB", 16, 512, {"watermark": 128}),
    ("1MiB", 16, 512, {"device": "tpu"}),
    (2**60, 16, 512, {"device": "null"}),
])  # fmt: skip
def test_sizes_that_make_no_cache(
    pool_bytes: object, block_size: object, token: object, options: dict[str, object]
) -> None:
    with pytest.raises(InvalidArgumentError):
        open_cache(pool_bytes, block_size, token, **options)  # type: ignore[arg-type]


def test_a_refused_manager_gives_the_memory_back() -> None:
    backend = FaultyBackend()
    with pytest.raises(InvalidArgumentError):
        open_cache("1MiB", 16, 512, device=backend, watermark=-1)
    assert "allocate" in backend.faults.calls
    assert backend.live_buffers == 0


def test_a_layout_and_the_callers_memory() -> None:
    memory = np.zeros(2**20, np.uint8)
    with open_cache("1MiB", 16, OpaqueLayout(512, 16), memory=memory) as cache:
        assert cache.pool.base == memory.ctypes.data
        cache.register_sequence(1, [7])
        cache.pool.fill_tokens(1, [0], [cache.append_token(1)])
    assert memory[:512].tobytes() == pattern_by_hand.token(1, 0, 512)


def test_a_manager_and_a_pool_must_fit() -> None:
    for blocks, size, scratch in ((9, 2, 0), (8, 4, 0), (8, 2, 1)):
        with pytest.raises(InvalidArgumentError, match="both the same"):
            KVCache(KVCacheManager(8, 2), DevicePool(OpaqueLayout(8, size), blocks, scratch_blocks=scratch))


def test_step_by_step_names_and_pointers_to_the_bytes() -> None:
    with open_cache(64 * 96, 4, 24) as cache:
        assert cache.register_sequence(-5, [1, 2, 3]) == 0
        slots = [*cache.append_tokens(-5, 3).tolist(), *(cache.append_token(-5) for _ in range(7))]
        assert slots == cache.slot_mapping([-5]).tolist()
        cache.pool.fill_tokens(-5, range(10), slots)
        for index in range(10):
            held = ctypes.string_at(cache.get_token_ptr(-5, index), 24)
            assert held == pattern_by_hand.token(-5, index, 24)
        block = cache.allocator.block(cache.get_page_table(-5).get_physical_id(2))
        assert (block.ref_count, block.device_ptr) == (1, cache.get_token_ptr(-5, 8))
        cache.truncate_sequence(-5, 4)
        assert (cache.seq_length(-5), cache.get_stats().allocated_blocks) == (4, 1)
        cache.free_sequence(-5)
        assert -5 not in cache
        cache.check()


@pytest.mark.parametrize(("index", "layer", "part"), [
    (-1, 0, "k"), (4, 0, "k"), (2**31, 0, "k"), (1.0, 0, "k"), (None, 0, "k"), (0, 1, "k"), (0, -1, "k"), (0, 0, "v"),
])  # fmt: skip
def test_pointers_that_are_none(index: object, layer: int, part: str) -> None:
    with open_cache("1MiB", 4, 24) as cache:
        cache.register_sequence(1, [1])
        cache.append_token(1)
        with pytest.raises(InvalidArgumentError):
            cache.get_token_ptr(1, index, layer, part)  # type: ignore[arg-type]
        with pytest.raises(SequenceStateError):
            cache.get_token_ptr(2, 0)


def test_every_plan_is_applied_and_the_tables_follow() -> None:
    with open_cache(20 * 64, 2, 32, scratch_blocks=2) as cache:
        for seq_id in (1, 2, 3):
            cache.admit(seq_id, (), reserve=0)
        plans = [cache.append([1, 2], [3, 4]), cache.reserve([3], [6]), cache.try_append([3, 1], [2, 2]),
                 cache.try_reserve([2], [5]), cache.append([1, 2, 3], [30, 1, 1], partial=True)]  # fmt: skip
        assert [plan.step for plan in plans if plan] == [1, 2, 3, 4, 5]
        assert cache.pool.applied_step == 5
        for seq_id in (1, 2, 3):
            entries = cache.get_page_table(seq_id).entries
            assert cache.pool.tables.array[cache.row(seq_id), : len(entries)].tolist() == entries.tolist()


def test_nothing_is_applied_where_nothing_is_planned() -> None:
    with open_cache(2 * 64, 2, 32) as cache:
        cache.register_sequence(1, [1, 2, 3, 4])
        cache.append_tokens(1, 4)
        assert cache.try_append([1], [0]) is not None
        cache.allocator.increment_ref(0)
        with pytest.raises(SequenceStateError):
            cache.append([9], [1])
        cache.register_sequence(2, ())
        assert cache.try_append([2], [1]) is None
        assert cache.try_reserve([2], [1]) is None
        assert cache.try_admit(3, [1]) is None
        with pytest.raises(OutOfBlocksError):
            cache.append_token(2)
        assert (cache.pool.applied_step, cache.manager.last_step) == (2, 2)


def test_finished_steps_give_back_what_was_pending() -> None:
    with open_cache(4 * 64, 2, 32) as cache:
        cache.register_sequence(1, [1, 2, 3])
        step = cache.append([1], [3]).step
        cache.commit([1], [3])
        assert (cache.committed_length(1), cache.capacity_tokens(1), cache.seq_ids().tolist()) == (3, 4, [1])
        cache.free([1], after=step)
        assert cache.get_stats().pending_blocks == 2
        cache.step_done(step)
        assert cache.retire_finished() == step
        assert cache.get_stats().free_blocks == 4


def test_reads_of_a_closed_cache_still_work_and_plans_do_not() -> None:
    cache = open_cache(4 * 64, 2, 32)
    cache.register_sequence(1, [1, 2, 3])
    cache.append_tokens(1, 3)
    cache.close()
    cache.close()
    assert cache.block_table([1]).tolist() == [[0, 1]]
    with pytest.raises(BackendError, match="closed"):
        cache.append_token(1)
    assert cache.seq_length(1) == 3


def test_the_facade_has_the_managers_names() -> None:
    """A method that the manager gains must be thought of here; sizes and options are the manager's own."""
    sizes = {
        "num_blocks",
        "prefix_caching",
        "block_size",
        "max_tokens",
        "watermark",
        "scratch_blocks",
        "last_step",
        "retired_step",
        "table_width",
    }
    names = {name for name, _ in inspect.getmembers(KVCacheManager) if not name.startswith("_")}
    assert names - sizes <= set(dir(KVCache))
