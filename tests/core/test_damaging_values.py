"""Values of the right type that would do damage: addresses that wrap, one array for three, a step below zero."""

from __future__ import annotations

import numpy as np
import pytest

from pagedkv import BlockAllocator, InvalidArgumentError, KVCacheManager, StepPlan


@pytest.mark.parametrize(("base", "size"), [(2**64 - 8, 16), (2**64 - 64, 16), (1, 2**62), (0, 2**63 - 1)])
def test_addresses_of_a_pool_fit_64_bits(base: int, size: int) -> None:
    allocator = BlockAllocator(4, 8, 4096)
    with pytest.raises(InvalidArgumentError, match="64 bits"):
        allocator.bind_pool(base, size)
    assert allocator.get_block_ptr(3) == 4096 + 24


def test_the_highest_pool_has_the_highest_addresses() -> None:
    allocator = BlockAllocator(4, 16, 2**64 - 65)
    assert allocator.get_block_ptr(3) + 16 == 2**64 - 1


def test_csr_arrays_that_share_memory_are_refused() -> None:
    manager = KVCacheManager(4, 4)
    manager.admit(1, [1])
    manager.append([1], [1])
    whole = np.full(9, 7, np.int32)
    for out in ((whole, whole, whole), (whole[:3], whole[2:4], whole[5:]), (whole[:2], whole[4:5], whole[1:2])):
        with pytest.raises(InvalidArgumentError, match="share memory"):
            manager.csr([1], out=out)
        assert whole.tolist() == [7] * 9
    manager.csr([1], out=(whole[:2], whole[2:3], whole[3:4]))
    assert whole[:4].tolist() == [0, 1, 0, 1]


def test_equal_statistics_have_equal_hashes() -> None:
    manager = KVCacheManager(4, 4)
    one, other = manager.get_stats(), manager.get_stats()
    manager.admit(1, [1])
    assert one == other
    assert len({one, other, manager.get_stats()}) == 2


def test_a_plan_of_a_negative_step_is_damaged() -> None:
    manager = KVCacheManager(4, 4)
    data = bytearray(manager.append([], []).to_bytes())
    data[8:16] = (-1).to_bytes(8, "little", signed=True)
    with pytest.raises(InvalidArgumentError, match="step -1"):
        StepPlan.from_bytes(bytes(data))
