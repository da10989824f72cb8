"""`BlockAllocator` by itself: order, states, pins, publication, addresses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pagedkv import BlockAllocator, BlockState
from pagedkv.errors import InvalidArgumentError, NeverFitsError, OutOfBlocksError, SequenceStateError


def test_a_new_pool_hands_out_block_0_first() -> None:
    allocator = BlockAllocator(4)
    assert allocator.allocate(2).tolist() == [0, 1]
    assert allocator.allocate().tolist() == [2]
    assert allocator.allocate(1).dtype == np.int32


def test_what_was_given_back_last_is_handed_out_first() -> None:
    allocator = BlockAllocator(5)
    allocator.allocate(4)
    allocator.free([0, 1])
    allocator.free(3)
    assert allocator.allocate(3).tolist() == [3, 0, 1], "within one release the head is handed out first"
    assert allocator.allocate(1).tolist() == [4], "blocks never used come after those used"


def test_counts_add_up() -> None:
    allocator = BlockAllocator(6)
    allocator.allocate(4)
    allocator.publish([0, 1])
    allocator.free([0, 2])
    assert (allocator.num_free_blocks, allocator.num_allocated_blocks, allocator.num_total_blocks) == (4, 2, 6)
    assert (allocator.num_pending_blocks, allocator.num_cached_blocks, allocator.evictions) == (0, 1, 0)
    states = [allocator.state(block).name for block in range(6)]
    assert states == ["CACHED", "IN_USE", "CLEAN", "IN_USE", "CLEAN", "CLEAN"]


def test_cached_blocks_are_evicted_last_and_oldest_release_first() -> None:
    allocator = BlockAllocator(5)
    allocator.allocate(5)
    allocator.publish([0, 1, 2, 3])
    allocator.free([2])
    allocator.free([0, 1])
    allocator.free([3, 4])
    assert allocator.allocate(1).tolist() == [4], "clean before cached"
    assert allocator.evictions == 0
    assert allocator.allocate(4).tolist() == [2, 1, 0, 3], "within one release the deepest is evicted first"
    assert allocator.evictions == 4


def test_an_evicted_block_is_no_longer_findable() -> None:
    allocator = BlockAllocator(1)
    allocator.allocate(1)
    allocator.publish(0)
    allocator.free(0)
    assert allocator.allocate(1).tolist() == [0]
    allocator.free(0)
    assert allocator.state(0) == BlockState.CLEAN


def test_a_cached_block_is_revived_by_a_reference() -> None:
    allocator = BlockAllocator(2)
    allocator.allocate(2)
    allocator.publish([0, 1])
    allocator.free([0, 1])
    allocator.increment_ref([0, 0])
    assert (allocator.get_ref_count(0), allocator.state(0)) == (2, BlockState.IN_USE)
    assert allocator.allocate(1).tolist() == [1]
    allocator.free([0, 0])
    assert allocator.state(0) == BlockState.CACHED, "reviving does not take the content's mark away"


def test_unpublish() -> None:
    allocator = BlockAllocator(3)
    allocator.allocate(3)
    allocator.publish([0, 1])
    allocator.free([0])
    allocator.unpublish([0, 1])
    allocator.free([1])
    assert [allocator.state(block).name for block in range(3)] == ["CLEAN", "CLEAN", "IN_USE"]
    assert allocator.allocate(2).tolist() == [1, 0]


@pytest.mark.parametrize("method", ["increment_ref", "publish", "unpublish", "free"])
def test_a_clean_block_takes_part_in_nothing(method: str) -> None:
    allocator = BlockAllocator(2)
    (held,) = allocator.allocate(1).tolist()
    with pytest.raises(SequenceStateError):
        getattr(allocator, method)([held, 1])
    assert (allocator.get_ref_count(held), allocator.num_free_blocks) == (1, 1)
    allocator.free(held)
    assert allocator.state(held) == BlockState.CLEAN, "the refused call has not published the good block"


@pytest.mark.parametrize("block", [-1, 2, 2**31, 2**32, 2**63, -(2**63) - 1])
def test_block_ids_outside_the_pool(block: int) -> None:
    """2**32 cut to 32 bits would be block 0."""
    allocator = BlockAllocator(2, block_size_bytes=8, pool_base=1024)
    allocator.allocate(1)
    calls: list[Any] = [
        allocator.get_ref_count,
        allocator.get_block_ptr,
        allocator.block,
        allocator.state,
        allocator.increment_ref,
        allocator.free,
        allocator.publish,
        allocator.unpublish,
        lambda bad: allocator.free([0, bad]),
        lambda bad: allocator.increment_ref([0, bad]),
    ]
    for call in calls:
        with pytest.raises(InvalidArgumentError):
            call(block)
    assert allocator.get_ref_count(0) == 1


@pytest.mark.parametrize("kind", [int, np.int8, np.int32, np.uint32, np.int64, np.uint64])
def test_one_id_may_be_any_integer(kind: Any) -> None:
    """Ids come out of `allocate` as NumPy scalars."""
    allocator = BlockAllocator(2)
    block = kind(allocator.allocate(1)[0])
    allocator.increment_ref(block)
    allocator.publish(block)
    allocator.unpublish(block)
    allocator.free(block)
    assert allocator.get_ref_count(block) == 1


def test_addresses_need_a_pool() -> None:
    allocator = BlockAllocator(4)
    assert allocator.block(3).device_ptr is None
    with pytest.raises(SequenceStateError):
        allocator.get_block_ptr(3)
    allocator.bind_pool(2**47, 2**21)
    assert (allocator.pool_base, allocator.block_size_bytes) == (2**47, 2**21)
    assert allocator.get_block_ptr(3) == allocator.block(3).device_ptr == 2**47 + 3 * 2**21


@pytest.mark.parametrize("base", [-1, 2**64, 1.5, "0", None])
def test_pool_bases_that_are_no_addresses(base: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        BlockAllocator(4, 8, base)
    with pytest.raises(InvalidArgumentError):
        BlockAllocator(4).bind_pool(base, 8)


def test_block_is_a_snapshot() -> None:
    allocator = BlockAllocator(2)
    allocator.allocate(1)
    block = allocator.block(0)
    assert (block.block_id, block.ref_count, block.state, block.fill) == (0, 1, BlockState.IN_USE, 0)
    allocator.free(0)
    assert (block.ref_count, block.state) == (1, BlockState.IN_USE)
    with pytest.raises(AttributeError):
        block.ref_count = 7  # type: ignore[misc]


def test_errors_tell_never_from_not_now() -> None:
    allocator = BlockAllocator(4)
    allocator.allocate(3)
    with pytest.raises(OutOfBlocksError) as transient:
        allocator.allocate(2)
    assert (transient.value.needed, transient.value.available, transient.value.pending) == (2, 1, 0)
    with pytest.raises(NeverFitsError) as permanent:
        allocator.allocate(5)
    assert (permanent.value.needed, permanent.value.total) == (5, 4)
    assert allocator.allocate(1).tolist() == [3]


def test_ids_that_come_out_are_the_caller_s() -> None:
    allocator = BlockAllocator(4)
    ids = allocator.allocate(4)
    ids[:] = 0
    del allocator
    assert ids.tolist() == [0, 0, 0, 0]
