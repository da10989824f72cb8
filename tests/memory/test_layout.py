"""Layouts, sizes written as text, and addresses past every 32-bit limit (cases L1 and P1)."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from pagedkv import DevicePool, OpaqueLayout, open_cache
from pagedkv.backends.host_memory import memory_info
from pagedkv.errors import InvalidArgumentError
from pagedkv.layout import parse_bytes


@pytest.mark.parametrize("bad", [0, -1, 1.0, 1.5, math.nan, math.inf, True, "16", None, 2**63, np.float64(2)])
def test_layout_refuses_what_is_no_size(bad: object) -> None:
    with pytest.raises(InvalidArgumentError, match="token_bytes"):
        OpaqueLayout(bad, 16)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="block_size"):
        OpaqueLayout(16, bad)  # type: ignore[arg-type]


def test_layout_is_frozen_and_keeps_python_ints() -> None:
    layout = OpaqueLayout(np.int32(2**30), np.int32(4))  # type: ignore[arg-type]
    assert layout.block_bytes == 2**32
    assert type(layout.token_bytes) is int
    with pytest.raises(FrozenInstanceError):
        layout.token_bytes = 1  # type: ignore[misc]


def test_layout_refuses_a_block_past_63_bits() -> None:
    with pytest.raises(InvalidArgumentError, match="63 bits"):
        OpaqueLayout(2**62, 2)
    with pytest.raises(InvalidArgumentError, match="63 bits"):
        OpaqueLayout(2**40, 2**10).pool_bytes(2**13)


@pytest.mark.parametrize(("text", "size"), [
    ("1", 1), ("4096B", 4096), ("512KiB", 524288), ("256 MiB", 268435456), (" 80gib ", 85899345920), ("1TiB", 2**40),
    (7, 7), (np.int64(2**40), 2**40),
])  # fmt: skip
def test_sizes(text: object, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", [
    "", " ", "MiB", "1.5GiB", "-1", "1e9", "256MB", "1K", "1 2", "nan", "0", "0MiB", "9" * 30, "9999999999GiB",
    "1MiB\n1", 0, -5, 1.0, math.nan, True, None, [], b"1MiB",
])  # fmt: skip
def test_sizes_that_are_none(text: object) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_bytes(text)


@pytest.mark.parametrize(("token_bytes", "block_bytes", "block_3"), [
    (2 * 2 * 64 * 2, 8192, 24_576),  # fp16
    (2 * 2 * 64 * 1, 4096, 12_288),  # fp8
    (2 * 2 * 64 + 2 * 2 * 4, 4352, 13_056),  # fp8 with one fp32 scale a token and head
])  # fmt: skip
def test_p1_block_bytes_follow_the_element_size(token_bytes: int, block_bytes: int, block_3: int) -> None:
    layout = OpaqueLayout(token_bytes, 16)
    assert layout.block_bytes == block_bytes
    with DevicePool(layout, 4, device="host") as pool:
        assert pool.nbytes == 4 * block_bytes
        assert pool.block_ptr(3) - pool.base == block_3
        pool.fill_blocks(range(4), [1, 2, 3, 4])
        pool.copy_blocks([(0, 3)])
        assert pool.verify_blocks(range(4), [1, 2, 3, 1]) == 0


@pytest.mark.parametrize(("block_bytes", "block_id", "offset"), [
    (65536 * 2, 32767, 32767 * 65536 * 2),
    (65536 * 2, 32768, 2**32),
    (65536 * 2, 65535, 65535 * 65536 * 2),
    (65536 * 2, 65536, 2**33),
    (1_039_680, 2065, 2_146_939_200),
    (1_039_680, 2066, 2_147_978_880),
    (1_039_680, 4131, 4_294_918_080),
    (1_039_680, 4132, 4_295_957_760),
    (16384, 262144, 2**32),
])  # fmt: skip
def test_l1_block_addresses_do_not_wrap(block_bytes: int, block_id: int, offset: int) -> None:
    with DevicePool(OpaqueLayout(block_bytes // 16, 16), block_id + 1, device="null") as pool:
        assert pool.block_ptr(block_id) - pool.base == offset
        assert pool.block_ptr(np.int32(block_id)) - pool.base == offset  # type: ignore[arg-type]


def test_l1_token_addresses_and_slots_do_not_wrap() -> None:
    """Case (a): 4096 elements of 2 bytes a token, the last token of block 65535 is slot 1,048,575."""
    with DevicePool(OpaqueLayout(8192, 16), 65_537, device="null") as pool:
        assert pool.token_ptr(65_535, 15) - pool.base == 8_589_926_400
        assert pool.token_ptr(np.int32(65_535), np.int32(15)) - pool.base == 8_589_926_400  # type: ignore[arg-type]


def test_l1_a_cache_gives_addresses_past_32_bits() -> None:
    """The last token of a pool of 65,537 blocks, through the page table of the sequence that fills it."""
    with open_cache(65_537 * 131_072, 16, 8192, device="null") as cache:
        cache.register_sequence(1)
        slots = cache.append_tokens(1, 65_537 * 16)
        assert (slots.dtype.name, int(slots.max())) == ("int64", 65_537 * 16 - 1)
        where = [cache.get_token_ptr(1, int(i)) - cache.pool.base for i in (slots.argmax(), slots.argmin())]
        assert where == [65_536 * 131_072 + 15 * 8192, 0]
        assert cache.allocator.get_block_ptr(65_536) - cache.pool.base == 2**33


def test_l1_bytes_past_4_gib_are_reached() -> None:
    """Real bytes behind 2^32 and their low-order twin: lazily committed, so only the touched pages cost memory."""
    layout, nbytes = OpaqueLayout(4096, 16), 5 * 2**30
    memory = memory_info()
    if memory is not None and memory.total < nbytes:
        pytest.skip("a pool of 5 GiB is refused on this machine")
    num_blocks, beyond = layout.blocks_in(nbytes), 2**32 // layout.block_bytes
    with DevicePool(layout, num_blocks, device="host") as pool:
        pool.fill_blocks([0, beyond, num_blocks - 1], [1, 2, 3])
        pool.fill_tokens(7, [0], [(beyond + 1) * 16 + 1])
        assert pool.verify_blocks([0, beyond, num_blocks - 1], [1, 2, 3]) == 0
        assert pool.verify_tokens(7, [0], [(beyond + 1) * 16 + 1]) == 0
        assert not pool.bytes_of(1).any()
