"""L1: block id times stride passes 2^31 and 2^32 long before memory ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pagedkv import BlockAllocator, DevicePool, KVCacheManager, KVLayout
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


HEADS, HEAD_SIZE = 32, 128  # case (a): 65,536 elements a block of 16 tokens, K alone


@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
@pytest.mark.parametrize("block", [32_767, 32_768, 65_535, 65_536])
def test_l1_offsets_of_views_pass_every_32_bit_limit(block: int, kv_layout: Any) -> None:
    """Element offsets from a view's own strides on both sides of 2^31 and 2^32; K of all blocks comes first."""
    layout = KVLayout(1, HEADS, HEAD_SIZE, "float16", 16, order="layer", kv_layout=kv_layout)
    with DevicePool(layout, 65_537, device="null") as pool:
        views = pool.layer(0)
        k, v = views.k, views.v
        assert v is not None
        token_axis, head_axis = (1, 2) if kv_layout == "NHD" else (2, 1)
        first = block * k.strides[0]
        last = first + 15 * k.strides[token_axis] + 31 * k.strides[head_axis] + 127 * k.strides[3]
        assert (first, last) == (block * 65_536, block * 65_536 + 65_535)
        at = k.address + 2 * (first + 15 * k.strides[token_axis])
        assert at == pool.token_ptr(block, 15) == pool.token_ptr(np.int32(block), np.int32(15))  # type: ignore[arg-type]
        assert v.address - k.address == 2 * 65_537 * 65_536, "2^33 and more between K and V"
        assert pool.token_ptr(block, 0, 0, "v") == v.address + 2 * first


def test_l1_the_last_token_by_the_case() -> None:
    layout = KVLayout(1, HEADS, HEAD_SIZE, "float16", 16, order="layer")
    with DevicePool(layout, 65_536, device="null") as pool:
        k = pool.layer(0).k
        assert 65_535 * k.strides[0] + 15 * k.strides[1] == 4_294_963_200
        assert 65_535 * k.byte_strides[0] + 15 * k.byte_strides[1] == 8_589_926_400
        assert pool.token_ptr(65_535, 15) - pool.base == 8_589_926_400


@pytest.mark.parametrize("order", ["block", "layer"])
def test_l1_the_last_layer_of_a_large_pool(order: Any) -> None:
    """80 GiB and more: the last layer's V of the last block ends where the pool ends."""
    layout = KVLayout(32, 8, 128, "bfloat16", 16, order=order)
    blocks = 45_000
    with DevicePool(layout, blocks, device="null") as pool:
        assert pool.nbytes == 45_000 * 2**21 > 2**36
        v = pool.layer(31).v
        assert v is not None
        last = sum((n - 1) * stride for n, stride in zip(v.shape, v.byte_strides, strict=True))
        assert v.address + last + v.itemsize == pool.base + pool.nbytes
