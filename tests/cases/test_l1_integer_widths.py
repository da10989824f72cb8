"""L1: block id times stride passes 2^31 and 2^32 long before memory ends."""

from __future__ import annotations

import numpy as np
import pytest

from pagedkv import BlockAllocator, KVCacheManager
from pagedkv.errors import InvalidArgumentError

from .refused import refused, table

BASE = 0x7F00_0000_0000


@pytest.mark.parametrize(
    ("elements_per_block", "block", "elements"),
    [
        (65536, 32767, 2_147_418_112),
        (65536, 32768, 2_147_483_648),
        (65536, 65535, 4_294_901_760),
        (65536, 65536, 4_294_967_296),
        (1_039_680, 2065, 2_146_939_200),
        (1_039_680, 2066, 2_147_978_880),
        (1_039_680, 4131, 4_294_918_080),
        (1_039_680, 4132, 4_295_957_760),
        (16_384, 262_144, 4_294_967_296),
    ],
)
def test_l1_addresses_are_64_bits_wide(elements_per_block: int, block: int, elements: int) -> None:
    """Offsets on both sides of 2^31 and 2^32, at two bytes an element."""
    allocator = BlockAllocator(block + 1, block_size_bytes=2 * elements_per_block, pool_base=BASE)
    assert allocator.get_block_ptr(block) == BASE + 2 * elements
    assert allocator.block(block).device_ptr == BASE + 2 * elements


def test_l1_slots_of_high_blocks() -> None:
    manager = KVCacheManager(65_537, 16)
    allocator = manager.allocator
    ids = allocator.allocate(65_537)
    allocator.free(ids[-2:])
    manager.admit(1, (), reserve=0)
    manager.append([1], [16])
    assert table(manager, 1) == [65_535]
    assert int(manager.slot_mapping([1])[15]) == 1_048_575
    manager.append([1], [1])
    assert int(manager.slot_mapping([1])[16]) == 65_536 * 16
    manager.check()


@pytest.mark.parametrize("block_size", [2**26, 2**26 + 1, 2**27 - 1])
def test_l1_slots_beyond_32_bits(block_size: int) -> None:
    """A slot number is a token position in the whole pool: it passes 2^31 and 2^32 long before memory ends."""
    manager = KVCacheManager(96, block_size)
    manager.allocator.allocate(72)
    manager.admit(1, (), reserve=0)
    plan = manager.append([1], [1])
    assert plan.slots.dtype == np.int64
    assert plan.slots.tolist() == [72 * block_size]
    assert manager.slot_mapping([1]).tolist() == [72 * block_size]
    assert 72 * block_size > 2**32


def test_l1_lengths_near_the_end_of_int32() -> None:
    manager = KVCacheManager(32, 2**26)
    manager.admit(1, (), reserve=0)
    manager.append([1], [0])
    manager.reserve([1], [2**31 - 1])
    manager.commit([1], [2**31 - 1])
    assert manager.seq_length(1) == 2**31 - 1
    assert manager.get_stats().logical_tokens == 2**31 - 1
    last = table(manager, 1)[-1]
    assert manager.slot_mapping([1], starts=[2**31 - 2]).tolist() == [last * 2**26 + 2**26 - 2]
    with refused(manager, InvalidArgumentError):
        manager.append([1], [1])
