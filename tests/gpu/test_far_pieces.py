"""Case L1 in a layer-major pool with real memory: pieces beyond 4 GiB, checked byte by byte by torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from memory import pattern_by_hand, pieces_by_hand
from memory.plans import plan
from pagedkv import DevicePool, KVLayout

from .engine_side import on_gpu, random_memory

pytestmark = pytest.mark.gpu

DEVICE, GIB = "cuda:0", 1 << 30
NBYTES = 12 * GIB
LAYOUTS = {
    "K and V": KVLayout(2, 8, 128, "bfloat16", 16, order="layer"),
    "single bytes": KVLayout(3, 1, 125, "int8", 15, order="layer", v_head_dim=3),
    "scales": KVLayout(2, 8, 128, "float8_e4m3fn", 16, order="layer", scales=True),
}


class FarPieces:
    """A pool in random bytes, and a second copy of the bytes that the test keeps as it says they must be."""

    def __init__(self, torch: Any, layout: KVLayout) -> None:
        self.torch, self.layout, self.blocks = torch, layout, NBYTES // layout.block_bytes
        self.memory = random_memory(torch, layout.pool_bytes(self.blocks))
        self.expected = self.memory.clone()
        torch.cuda.synchronize()
        self.pool = DevicePool(layout, self.blocks, device=DEVICE, memory=self.memory)
        self.chosen = [0, 1, self.blocks // 2, self.blocks - 2, self.blocks - 1]

    def expect(self, pieces: list[tuple[int, int]], content: bytes) -> None:
        held = self.torch.frombuffer(bytearray(content), dtype=self.torch.uint8).to(self.memory.device)
        before = 0
        for start, size in pieces:
            self.expected[start : start + size] = held[before : before + size]
            before += size

    def parts(self) -> list[Any]:
        """Every part of every layer as [blocks, bytes of a block]."""
        extents = pieces_by_hand.block(self.layout, self.blocks, 0)
        return [self.expected[start : start + size * self.blocks].view(self.blocks, size) for start, size in extents]

    def check(self) -> None:
        """Every byte of the pool, by torch."""
        self.torch.cuda.synchronize()
        self.pool.stream.synchronize()
        for start in range(0, len(self.memory), GIB):
            assert self.torch.equal(self.memory[start : start + GIB], self.expected[start : start + GIB]), start


@pytest.fixture(params=LAYOUTS)
def far(request: pytest.FixtureRequest, torch: Any) -> Iterator[FarPieces]:
    far = FarPieces(torch, LAYOUTS[request.param])
    yield far
    far.pool.close()
    far.memory = far.expected = None
    torch.cuda.empty_cache()


def test_l1_blocks_in_pieces_are_filled_and_verified(far: FarPieces) -> None:
    far.pool.fill_blocks(far.chosen, far.chosen)
    for block in far.chosen:
        pieces = pieces_by_hand.block(far.layout, far.blocks, block)
        far.expect(pieces, pattern_by_hand.token(block, -1, far.layout.block_bytes))
    far.check()
    assert far.pool.verify_blocks(far.chosen, far.chosen) == 0
    for start, _ in pieces_by_hand.block(far.layout, far.blocks, far.chosen[-1]):
        far.memory[start] ^= 1
    far.torch.cuda.synchronize()
    assert far.pool.verify_blocks(far.chosen, far.chosen) == 1


def test_l1_tokens_in_pieces(far: FarPieces) -> None:
    slots = [block * far.layout.block_size + block % far.layout.block_size for block in far.chosen]
    far.pool.fill_tokens(77, range(len(slots)), slots)
    for position, slot in enumerate(slots):
        pieces = pieces_by_hand.token(far.layout, far.blocks, slot)
        far.expect(pieces, pattern_by_hand.token(77, position, far.layout.token_bytes))
    far.check()
    assert far.pool.verify_tokens(77, range(len(slots)), slots) == 0


def test_l1_few_blocks_in_pieces_are_copied_and_scrubbed(far: FarPieces) -> None:
    last = far.blocks - 1
    pairs = [(last, 5), (0, last - 5), (far.blocks // 2, 7)]
    far.pool.apply(plan(1, copies=pairs))
    far.pool.scrub_blocks([last, 1])
    for rows in far.parts():
        for source, target in pairs:
            rows[target] = rows[source]
        rows[last] = rows[1] = 0
    far.check()


def test_l1_many_blocks_in_pieces_are_copied_at_once(far: FarPieces) -> None:
    """The first half over the second in random order: 6 GiB in one launch."""
    half = far.blocks // 2
    order = np.random.default_rng(5).permutation(half)
    far.pool.apply(plan(1, copies=[(int(source), half + at) for at, source in enumerate(order)]))
    for rows in far.parts():
        rows[half : 2 * half] = rows[on_gpu(far.torch, order, "int64")]
    far.check()
