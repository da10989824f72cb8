"""What kernels act on: the pool, block tables, batches of tokens, and the caller's arrays in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from pagedkv.arguments import IntArray
from pagedkv.layout import Extents, Layout
from pagedkv.streams import Buffer


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """The pool as kernels see it: `num_blocks` blocks (scratch blocks included) of `layout` from `buffer`'s start;
    `extents` is where they lie.
    """

    buffer: Buffer
    layout: Layout
    num_blocks: int
    extents: Extents


@dataclass(frozen=True, slots=True)
class TableMemory:
    """Block tables as kernels see them: int32 [rows, width], C-contiguous, from `buffer`'s start."""

    buffer: Buffer
    rows: int
    width: int


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Tokens by owner, position and place: three int64 arrays of one length. A slot below 0 is skipped
    (padding).
    """

    seq_ids: IntArray
    positions: IntArray
    slots: IntArray


class Place(Protocol):
    """A compact array on the device: a caller's, at a fixed address."""

    @property
    def address(self) -> int:
        """Its first byte."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each dimension."""

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""

    @property
    def array(self) -> Any:
        """The NumPy view, on the host only."""


@dataclass(frozen=True, slots=True)
class TableBatch:
    """Rows of the tables to export, int32 [n] (below 0: padding), and their lengths in tokens, int32 [n]."""

    rows: Place
    lengths: Place
    block_size: int


@dataclass(frozen=True, slots=True)
class StridedPlace:
    """A caller's tensor on the device, in place: strides in elements, the last one 1; `dtype` as in dtypes.DTYPES, or
    "int32", "int64".

    `array` is the NumPy view of the same memory, on the host only (bfloat16 and 8-bit floats as unsigned integers). The
    caller keeps the memory alive until the work that uses it is done.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    array: Any
