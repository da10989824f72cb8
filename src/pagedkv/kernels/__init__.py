"""The kernels' interface, and the exact pattern that fill and verify kernels write and expect.

Every backend implements `Kernels`; `reference.py` is the twin in NumPy that the others are compared with. A
kernel only puts work on a stream. Argument arrays are read before the call returns: the caller may reuse them
at once. The caller (the pool) has checked that every id, slot, row and column lies inside.

The token-unique pattern
------------------------
All arithmetic is modulo 2^64; ids are taken as two's complement; `>>` is a logical shift. With
G = 0x9E3779B97F4A7C15::

    mix(z):  z ^= z >> 30;  z *= 0xBF58476D1CE4E5B9;  z ^= z >> 27;  z *= 0x94D049BB133111EB;  return z ^ (z >> 31)

    key(seq_id, position)  =  mix(mix(seq_id + G) + (position + 1) * G)
    word(key, i)           =  key + i * G        i = 0, 1, 2 ... the 8-byte word within the token

(`mix` is the finalizer of splitmix64.) Words are stored little-endian; where a token's size is not a multiple of 8,
the last word is cut to its low-order bytes. Per word one addition and, per token, two mixes: cheap enough that a
check of bytes runs at the speed of memory. `mix` is a bijection, so the positions of one sequence never share a key,
and no key is that of fresh zeros except by a chance of 2^-64. A block's pattern under a tag is that of one "token" of
`block_bytes` bytes with `key(tag, -1)`, which no token has.

Where a block lies in pieces (layout.py, `Extents`), its bytes are the pieces, one after another, and a token's bytes
are its equal share of each piece, in the same order.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from pagedkv.arguments import IntArray
from pagedkv.kernels.kv import DecodeBatch, KVKernels, TokenKV
from pagedkv.kernels.memory import Place, PoolMemory, StridedPlace, TableBatch, TableMemory, TokenBatch
from pagedkv.streams import Buffer, Stream

__all__ = [
    "DecodeBatch",
    "KVKernels",
    "Kernels",
    "Place",
    "PoolMemory",
    "SeparateLaunches",
    "StridedPlace",
    "TableBatch",
    "TableMemory",
    "TokenBatch",
    "TokenKV",
]


class Kernels(KVKernels, Protocol):
    """The device work of a pool. Every method puts it on `stream` and returns; BackendError if that fails."""

    def prepare(self, memory: PoolMemory) -> None:
        """Make ready what `carry_out` needs (compile, load), so that no step pays for it."""

    def carry_out(
        self,
        memory: PoolMemory,
        copies: npt.NDArray[np.int32],
        table: TableMemory | None,
        updates: npt.NDArray[np.int32],
        stream: Stream,
    ) -> None:
        """A plan's part on the device: copy_blocks, then scatter_table; one upload, at most two launches."""

    def copy_blocks(self, memory: PoolMemory, pairs: npt.NDArray[np.int32], stream: Stream) -> None:
        """Copy whole blocks; `pairs` is int32 [n, 2] (source, destination); no destination is also a source."""

    def fill_blocks(self, memory: PoolMemory, block_ids: IntArray, tags: IntArray, stream: Stream) -> None:
        """Write each block's pattern under its tag; both arrays int64 [n]."""

    def verify_blocks(
        self, memory: PoolMemory, block_ids: IntArray, tags: IntArray, counter: Buffer, stream: Stream
    ) -> None:
        """Add to `counter` (int64) the number of blocks that do not hold their tag's pattern."""

    def fill_tokens(self, memory: PoolMemory, tokens: TokenBatch, stream: Stream) -> None:
        """Write each token's pattern into its slot."""

    def verify_tokens(self, memory: PoolMemory, tokens: TokenBatch, counter: Buffer, stream: Stream) -> None:
        """Add to `counter` (int64) the number of tokens whose slot does not hold their pattern."""

    def fill_floats(
        self, memory: PoolMemory, block_ids: IntArray, values: npt.NDArray[np.float32], stream: Stream
    ) -> None:
        """Write values[i] to every float32 of block block_ids[i]; every piece of a block is a multiple of 4 bytes."""

    def verify_floats(
        self,
        memory: PoolMemory,
        block_ids: IntArray,
        values: npt.NDArray[np.float32],
        counter: Buffer,
        stream: Stream,
    ) -> None:
        """Add to `counter` (int64) the number of floats of block block_ids[i] that are not values[i]."""

    def scrub_blocks(self, memory: PoolMemory, block_ids: IntArray, stream: Stream) -> None:
        """Write zeros over whole blocks."""

    def gather_table(self, table: TableMemory, batch: TableBatch, out: Place, pad: int, stream: Stream) -> None:
        """Dense block table of a batch: out int32 [n, columns] gets each row's blocks by length, then `pad`."""

    def slots(
        self, table: TableMemory, batch: TableBatch, positions: Place, out: Place, stream: Stream, *, limited: bool
    ) -> None:
        """out int64 [n]: the slot of position i in row i, -1 for what has none (`limited`: or beyond its length)."""

    def csr(
        self, table: TableMemory, batch: TableBatch, indptr: Place, indices: Place, last_page_len: Place, stream: Stream
    ) -> None:
        """FlashInfer's int32 indptr [n + 1], indices, last_page_len [n]."""

    def grow_table(self, old: TableMemory, new: TableMemory, pad: int, stream: Stream) -> None:
        """Copy `old` into the upper left corner of `new`, which is no smaller, and `pad` into the rest."""

    def scatter_table(self, table: TableMemory, updates: npt.NDArray[np.int32], stream: Stream) -> None:
        """Set table[row, column] = block; `updates` is int32 [k, 3] (row, column, block), no entry twice."""


class SeparateLaunches:
    """`prepare` and `carry_out` for backends that compile nothing and upload nothing: a plan is one call a part."""

    def prepare(self, memory: PoolMemory) -> None:
        """Nothing to compile here."""

    def prepare_attention(self, memory: PoolMemory, batch: DecodeBatch, stream: Stream) -> None:
        """Nothing to compile here, and no shape that is not taken."""

    def carry_out(
        self: Kernels,
        memory: PoolMemory,
        copies: npt.NDArray[np.int32],
        table: TableMemory | None,
        updates: npt.NDArray[np.int32],
        stream: Stream,
    ) -> None:
        """See `Kernels.carry_out`."""
        if len(copies):
            self.copy_blocks(memory, copies, stream)
        if len(updates) and table is not None:
            self.scatter_table(table, updates, stream)
