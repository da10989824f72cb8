"""Where the bytes of tokens and blocks lie, from what layouts say of their parts and not from `Extents`."""

from __future__ import annotations

from pagedkv import KVLayout
from pagedkv.layout import Layout

Pieces = list[tuple[int, int]]


def block(layout: Layout, num_blocks: int, block_id: int) -> Pieces:
    """(offset from the pool's start, bytes) of each piece of a block, in the order of its bytes."""
    return _pieces(layout, num_blocks, block_id, 0, layout.block_size)


def token(layout: Layout, num_blocks: int, slot: int) -> Pieces:
    """The same of the token in a slot: its share of each piece of its block."""
    return _pieces(layout, num_blocks, *divmod(slot, layout.block_size), 1)


def token_in_block(layout: Layout, slot: int) -> list[int]:
    """Where the bytes of the token in a slot are among the bytes of its block."""
    place = slot % layout.block_size
    if not isinstance(layout, KVLayout) or layout.order == "block":
        return list(range(place * layout.token_bytes, (place + 1) * layout.token_bytes))
    found: list[int] = []
    before = 0
    for _ in range(layout.num_layers):
        for part in layout.parts:
            found += range(before + place * part.token_bytes, before + (place + 1) * part.token_bytes)
            before += layout.block_size * part.token_bytes
    return found


def _pieces(layout: Layout, num_blocks: int, block_id: int, first: int, tokens: int) -> Pieces:
    if not isinstance(layout, KVLayout) or layout.order == "block":
        return [(block_id * layout.block_bytes + first * layout.token_bytes, tokens * layout.token_bytes)]
    parts = [(layer, part.name) for layer in range(layout.num_layers) for part in layout.parts]
    views = [layout.part_view(layer, name, num_blocks) for layer, name in parts]
    return [
        (view.offset + block_id * view.strides[0] + first * view.part.token_bytes, tokens * view.part.token_bytes)
        for view in views
    ]
