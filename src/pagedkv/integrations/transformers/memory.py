"""The memory behind a cache: opened when the first K and V show what a layer holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.errors import InvalidArgumentError
from pagedkv.integrations.transformers.rows import Rows
from pagedkv.integrations.transformers.store import Shape, Store
from pagedkv.kv_layout import KVLayout
from pagedkv.layout import parse_bytes
from pagedkv.manager import KVCacheManager


@dataclass(frozen=True, slots=True)
class Size:
    """What the user asked for. Raises InvalidArgumentError."""

    num_layers: int
    block_size: int
    num_blocks: int | None
    pool_bytes: int | str | None
    dtype: object = None
    layout_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.num_blocks is None) == (self.pool_bytes is None):
            raise InvalidArgumentError(
                f"num_blocks is {self.num_blocks!r}, pool_bytes is {self.pool_bytes!r}; give one of them"
            )
        if self.num_blocks is not None:
            whole_number(self.num_blocks, "num_blocks", minimum=1, maximum=INT32_MAX)
        if self.pool_bytes is not None:
            parse_bytes(self.pool_bytes)
        # Heads and their size are not known yet; the rest of the layout is checked here, not in the first step.
        self.layout(1, 1, 1, "float32" if self.dtype is None else self.dtype)

    def layout(self, heads: int, k_dim: int, v_dim: int, dtype: object) -> KVLayout:
        """The layout for these heads."""
        return KVLayout(
            self.num_layers,
            heads,
            k_dim,
            dtype,  # type: ignore[arg-type]
            self.block_size,
            v_head_dim=v_dim,
            **self.layout_options,
        )

    def blocks(self, layout: KVLayout) -> int:
        """Blocks of the pool. Raises InvalidArgumentError when pool_bytes does not hold one."""
        if self.num_blocks is not None:
            return self.num_blocks
        size = parse_bytes(self.pool_bytes)
        if (count := layout.blocks_in(size)) < 1:
            raise InvalidArgumentError(f"pool_bytes is {size}, one block is {layout.block_bytes} bytes; give more")
        return min(count, INT32_MAX)


class Memory:
    """A manager, the pool that it decides about, and the rows of the batch."""

    def __init__(self, size: Size, shape: Shape) -> None:
        layout = size.layout(shape.heads, shape.k_dim, shape.v_dim, shape.dtype if size.dtype is None else size.dtype)
        blocks = size.blocks(layout)
        self.store = Store(layout, blocks, shape)
        self.manager = KVCacheManager(blocks, size.block_size)
        self.rows = Rows(self.manager)

    def bytes_of(self, blocks: int) -> int:
        """Bytes of that many blocks."""
        return blocks * self.store.layout.block_bytes
