"""Case L1 with real memory: blocks beyond 4 GiB and beyond 2^31 elements, where 32-bit offsets wrap to other blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from memory import pattern_by_hand
from memory.plans import plan
from pagedkv import DevicePool, OpaqueLayout
from pagedkv.kernels import PoolMemory

from .engine_side import on_gpu, random_memory

pytestmark = pytest.mark.gpu

GIB = 1 << 30
LAYOUTS = {
    "8 KiB blocks in 6 GiB": (OpaqueLayout(512, 16), 6 * GIB),
    "2 MiB blocks in 6 GiB": (OpaqueLayout(1 << 17, 16), 6 * GIB),
    "64 KiB blocks in 12 GiB": (OpaqueLayout(4096, 16), 12 * GIB),  # more than 2^31 elements of four bytes
    "1-byte tokens in 6 GiB": (OpaqueLayout(1, 4096), 6 * GIB),  # slots beyond 2^32
}


class FarPool:
    """A pool in random bytes, and a second copy of the bytes that the test keeps as it says they must be."""

    def __init__(self, torch: Any, layout: OpaqueLayout, nbytes: int) -> None:
        self.torch, self.layout = torch, layout
        self.memory = random_memory(torch, nbytes)
        self.expected = self.memory.clone()
        torch.cuda.synchronize()
        self.blocks = nbytes // layout.block_bytes
        self.pool = DevicePool(layout, self.blocks, device="cuda:0", memory=self.memory)
        edges = [0, *(limit // layout.block_bytes for limit in (1 << 31, 1 << 32)), self.blocks - 1]
        self.near = sorted(
            {block for edge in edges for block in (edge - 1, edge, edge + 1) if 0 <= block < self.blocks}
        )

    def expect(self, start: int, content: bytes) -> None:
        held = self.torch.frombuffer(bytearray(content), dtype=self.torch.uint8)
        self.expected[start : start + len(content)] = held.cuda()

    def check(self) -> None:
        """Every byte of the pool, by torch."""
        self.pool.stream.synchronize()
        for start in range(0, len(self.memory), GIB):
            assert self.torch.equal(self.memory[start : start + GIB], self.expected[start : start + GIB]), start

    def view(self, block: int) -> Any:
        size = self.layout.block_bytes
        return self.expected[block * size : (block + 1) * size]


@pytest.fixture(params=LAYOUTS)
def far(request: pytest.FixtureRequest, torch: Any) -> Iterator[FarPool]:
    far = FarPool(torch, *LAYOUTS[request.param])
    yield far
    far.pool.close()
    far.memory = far.expected = None
    torch.cuda.empty_cache()


def test_l1_blocks_are_filled_and_verified_at_both_ends(far: FarPool) -> None:
    far.pool.fill_blocks(far.near, far.near)
    for block in far.near:
        far.expect(block * far.layout.block_bytes, pattern_by_hand.token(block, -1, far.layout.block_bytes))
    far.check()
    assert far.pool.verify_blocks(far.near, far.near) == 0
    far.memory[far.near[-1] * far.layout.block_bytes + 1] ^= 1
    far.torch.cuda.synchronize()
    assert far.pool.verify_blocks(far.near, far.near) == 1


def test_l1_blocks_are_copied_between_the_ends(far: FarPool) -> None:
    inner = sorted({block + 8 for block in far.near} - set(far.near))
    targets = [block for block in inner if block < far.blocks][: len(far.near)]
    pairs = list(zip(far.near[::-1], targets, strict=False))
    pairs.append((1000, far.blocks - 5))  # near to far, past every limit
    pairs.append((far.blocks - 6, 1001))
    far.pool.copy_blocks(pairs)
    for source, target in pairs:
        far.view(target).copy_(far.view(source))
    far.torch.cuda.synchronize()
    far.check()


def test_l1_many_blocks_are_copied_at_once(far: FarPool) -> None:
    """The first half over the second in random order: 3 GiB and more in one launch."""
    half = far.blocks // 2
    order = np.random.default_rng(5).permutation(half)
    far.pool.apply(plan(1, copies=[(int(source), half + at) for at, source in enumerate(order)]))
    rows = far.expected.view(far.blocks, far.layout.block_bytes)
    rows[half : 2 * half] = rows[on_gpu(far.torch, order, "int64")]
    far.torch.cuda.synchronize()
    far.check()


def test_l1_tokens_at_both_ends(far: FarPool) -> None:
    size, last = far.layout.token_bytes, far.blocks * far.layout.block_size - 1
    slots = [0, (1 << 31) // size, (1 << 32) // size - 1, (1 << 32) // size, last]
    far.pool.fill_tokens(77, range(len(slots)), slots)
    for position, slot in enumerate(slots):
        far.expect(slot * size, pattern_by_hand.token(77, position, size))
    far.check()
    assert far.pool.verify_tokens(77, range(len(slots)), slots) == 0


def test_l1_blocks_are_scrubbed_at_both_ends(far: FarPool) -> None:
    backend = far.pool.backend
    memory = PoolMemory(backend.adopt(far.memory), far.layout, far.blocks, far.layout.extents(far.blocks))
    backend.kernels.scrub_blocks(memory, np.array(far.near, np.int64), far.pool.stream)
    for block in far.near:
        far.view(block).zero_()
    far.torch.cuda.synchronize()
    far.check()


def test_l1_slots_are_64_bits_wide(far: FarPool) -> None:
    last, size = far.blocks - 1, far.layout.block_size
    far.pool.apply(plan(1, updates=[(0, 0, last), (0, 1, 0)]))
    rows, positions = on_gpu(far.torch, [0, 0, 0], "int32"), on_gpu(far.torch, [0, size - 1, size], "int64")
    slots = far.torch.full((3,), -9, dtype=far.torch.int64, device="cuda")
    far.torch.cuda.synchronize()
    far.pool.tables.slots(rows, positions, slots)
    far.pool.stream.synchronize()
    assert slots.tolist() == [last * size, last * size + size - 1, 0]
    assert far.pool.block_ptr(last) == far.memory.data_ptr() + last * far.layout.block_bytes
