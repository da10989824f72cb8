"""How blocks lie in a pool: the part that every layout shares, and opaque tokens.

A block is `block_bytes` bytes, in one extent (block-major, the default) or in one extent for each layer and part
(layer-major). `extents` says where they are; kernels and transfers see nothing else of a layout. Every offset is a
Python int, so a pool past 4 GiB is not a special case. A block id becomes an address here and in kv_layout.py, and
nowhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import gcd
from typing import Protocol, runtime_checkable

from pagedkv.arguments import INT32_MAX, INT64_MAX, whole_number
from pagedkv.errors import InvalidArgumentError

_UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SIZE = re.compile(r"\s*([0-9]+)\s*([A-Za-z]*)\s*")


@dataclass(frozen=True, slots=True)
class Extents:
    """Where the pieces of blocks lie: `groups` groups alike, each with one run of pieces a size.

    Piece p of block b in group g is sizes[p] bytes at g * group_stride + starts[p] + b * sizes[p] from the pool's
    start. A block's bytes are its pieces, group by group. One group with one size: block-major.
    """

    groups: int
    group_stride: int
    sizes: tuple[int, ...]
    starts: tuple[int, ...]

    @property
    def contiguous(self) -> bool:
        """Whether a block is one extent."""
        return self.groups == 1 and len(self.sizes) == 1

    @property
    def alignment(self) -> int:
        """The largest number that divides every size and offset."""
        return gcd(self.group_stride if self.groups > 1 else 0, *self.sizes, *self.starts)

    def pieces(self, block_id: int) -> list[tuple[int, int]]:
        """(offset from the pool's start, bytes) of every piece of a block, in the order of its bytes."""
        return [
            (group * self.group_stride + start + block_id * size, size)
            for group in range(self.groups)
            for start, size in zip(self.starts, self.sizes, strict=True)
        ]


@runtime_checkable
class Layout(Protocol):
    """What a pool needs to know of a layout; `BlockLayout` has most of it."""

    @property
    def token_bytes(self) -> int:
        """Bytes of a token over all layers, K and V."""

    @property
    def block_size(self) -> int:
        """Tokens of a block."""

    @property
    def block_bytes(self) -> int:
        """Bytes of a block = block_size * token_bytes."""

    def pool_bytes(self, num_blocks: int) -> int:
        """Bytes of a pool of `num_blocks` blocks."""

    def blocks_in(self, pool_bytes: int) -> int:
        """Whole blocks that fit `pool_bytes` bytes."""

    def extents(self, num_blocks: int) -> Extents:
        """Where the blocks of a pool of `num_blocks` blocks lie."""

    def token_offset(self, block_id: int, offset: int, num_blocks: int, layer: int = 0, part: str = "k") -> int:
        """Bytes from the pool's start to token `offset` of a block."""


class BlockLayout:
    """Sizes of blocks and pools from the bytes of a token; layouts derive from it."""

    __slots__ = ()

    token_bytes: int
    block_size: int

    @property
    def block_bytes(self) -> int:
        """Bytes of one block = block_size * token_bytes."""
        return self.block_size * self.token_bytes

    def pool_bytes(self, num_blocks: int) -> int:
        """Bytes of a pool of `num_blocks` blocks. Raises InvalidArgumentError when they do not fit 63 bits."""
        count = whole_number(num_blocks, "num_blocks", maximum=INT32_MAX)
        if count * self.block_bytes > INT64_MAX:
            raise InvalidArgumentError(
                f"{count} blocks of {self.block_bytes} bytes do not fit 63 bits; ask for fewer or smaller blocks"
            )
        return count * self.block_bytes

    def blocks_in(self, pool_bytes: int) -> int:
        """Whole blocks that fit `pool_bytes` bytes; the remainder is left unused."""
        return whole_number(pool_bytes, "pool_bytes") // self.block_bytes

    def extents(self, num_blocks: int) -> Extents:
        """Where the blocks of a pool of `num_blocks` blocks lie: each in one extent."""
        return Extents(1, self.pool_bytes(num_blocks), (self.block_bytes,), (0,))

    def _check_block(self) -> None:
        if self.block_bytes > INT64_MAX:
            raise InvalidArgumentError(
                f"a block of {self.block_size} tokens of {self.token_bytes} bytes does not fit 63 bits; make it smaller"
            )


@dataclass(frozen=True, slots=True)
class OpaqueLayout(BlockLayout):
    """Opaque tokens: `token_bytes` bytes a token (all layers, K and V), `block_size` tokens a block.

    Block-major: block `b` is one extent of `block_bytes` at `b * block_bytes`, and its tokens follow each other inside.
    For engines with a layout of their own inside a block, and for planning. Raises InvalidArgumentError unless both are
    whole numbers from 1 on and a block's bytes fit 63 bits. Immutable.
    """

    token_bytes: int
    block_size: int

    def __post_init__(self) -> None:
        # object.__setattr__: the frozen way to keep plain ints where NumPy integers came in; those would wrap.
        object.__setattr__(self, "token_bytes", whole_number(self.token_bytes, "token_bytes", minimum=1))
        object.__setattr__(
            self, "block_size", whole_number(self.block_size, "block_size", minimum=1, maximum=INT32_MAX)
        )
        self._check_block()

    def token_offset(self, block_id: int, offset: int, num_blocks: int, layer: int = 0, part: str = "k") -> int:
        """Bytes from the pool's start to token `offset` (0 .. block_size - 1) of a block.

        Raises InvalidArgumentError for a block outside, the offset, and for a layer or part: opaque tokens have
        layer 0, part "k" only.
        """
        if layer != 0 or part != "k":
            raise InvalidArgumentError(f"layer {layer!r}, part {part!r}: opaque tokens have layer 0, part 'k' only")
        block, place = place_of(self, block_id, offset, num_blocks)
        return block * self.block_bytes + place * self.token_bytes


def place_of(layout: BlockLayout, block_id: int, offset: int, num_blocks: int) -> tuple[int, int]:
    """(block id, offset in the block) as Python ints: NumPy's would wrap. Raises InvalidArgumentError outside."""
    count = whole_number(num_blocks, "num_blocks", minimum=1, maximum=INT32_MAX)
    block = whole_number(block_id, "block id", maximum=count - 1)
    return block, whole_number(offset, "offset in the block", maximum=layout.block_size - 1)


def parse_bytes(size: object) -> int:
    """Bytes of `size`: a whole number, or text such as "4096", "512KiB", "256 MiB", "80GiB".

    Units are powers of 1024 in any letter case; "MB" is refused, because half its users mean MiB. Raises
    InvalidArgumentError for anything else, below 1 and beyond 63 bits. Modifies nothing.
    """
    if not isinstance(size, str):
        return whole_number(size, "size in bytes", minimum=1)
    match = _SIZE.fullmatch(size)
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None or len(match[1]) > 20:
        raise InvalidArgumentError(
            f"size {size[:40]!r} is not understood; write a whole number and B, KiB, MiB, GiB or TiB"
        )
    return whole_number(int(match[1]) * unit, f"size {size!r} in bytes", minimum=1)
