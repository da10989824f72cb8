"""Verification is worth something only if it reports what it must: one byte, written by somebody else."""

from __future__ import annotations

from typing import Any

import pytest

from pagedkv import OpaqueLayout

from .engine_side import adopted_pool

pytestmark = pytest.mark.gpu

LAYOUTS = [OpaqueLayout(512, 16), OpaqueLayout(13, 3), OpaqueLayout(1, 5), OpaqueLayout(40_000, 2)]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_corrupted_byte_is_reported(torch: Any, layout: OpaqueLayout) -> None:
    pool, memory = adopted_pool(torch, layout, 16)
    size = layout.block_bytes
    slots = range(4 * layout.block_size, 8 * layout.block_size)
    pool.fill_tokens(5, range(len(slots)), slots)
    pool.fill_blocks([1, 2], [10, 20])
    assert pool.verify_tokens(5, range(len(slots)), slots) == pool.verify_blocks([1, 2], [10, 20]) == 0
    for place in (0, size // 2, size - 1):
        for block in (2, 5):
            for bit in (1, 128):
                memory[block * size + place] ^= bit
                torch.cuda.synchronize()
                assert pool.verify_blocks([1, 2], [10, 20]) == (block == 2)
                assert pool.verify_tokens(5, range(len(slots)), slots) == (block == 5)
                memory[block * size + place] ^= bit
                torch.cuda.synchronize()
    assert pool.verify_tokens(5, range(len(slots)), slots) == pool.verify_blocks([1, 2], [10, 20]) == 0
    pool.close()


def test_every_wrong_token_counts_once(torch: Any) -> None:
    layout = OpaqueLayout(512, 16)
    pool, memory = adopted_pool(torch, layout, 64)
    slots = range(64 * 16)
    pool.fill_tokens(5, slots, slots)
    memory.view(-1, 512)[::3, 1::2] += 1
    torch.cuda.synchronize()
    assert pool.verify_tokens(5, slots, slots) == -(-64 * 16 // 3)
    assert pool.verify_tokens(5, [1, 0], [0, 1]) == 2, "right bytes in the wrong place are wrong"
    pool.close()
