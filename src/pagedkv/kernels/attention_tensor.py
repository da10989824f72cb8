"""How decode_tensor.cu is made for a shape: columns a warp, tiles in flight and CTAs an SM.

A warp's sums take a register for each column and each 32 elements of a head, so few columns leave registers for a whole
tile of K and V, and many do not: their tiles come into shared memory, which Hopper and later data center GPUs have
enough of, and an engine to copy with. Elsewhere many columns are shared among warps that read the same tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TILE = 16
WARPS = 4
# 228 KiB of shared memory an SM.
_LARGE_SHARED = (9, 10)


@dataclass(frozen=True, slots=True)
class TensorShape:
    """head_dim; columns: queries of a KV head; small: K and V have 8 bits; scales: of their own; drafts: several query
    tokens a sequence; whole: no tile lies in two blocks; short: sequences are, so that CTAs wait more than they read.
    """

    head_dim: int
    columns: int
    small: bool
    scales: bool
    drafts: bool
    whole: bool
    short: bool = False


@dataclass(frozen=True, slots=True)
class TensorVariant:
    """Macros of decode_tensor.cu, columns of a CTA, and bytes of dynamic shared memory."""

    macros: Mapping[str, int]
    columns: int
    shared: int


def tensor_variant(shape: TensorShape, compute_capability: tuple[int, int]) -> TensorVariant | None:
    """The fastest that was measured on an H200; None where registers do not suffice."""
    lines = shape.head_dim * (1 if shape.small else 2) >= 128  # boxes have whole lines
    if lines and shape.whole and compute_capability[0] in _LARGE_SHARED and _wants_shared_memory(shape):
        return _by_shared_memory(shape)
    # A thread keeps six block ids where tiles are not whole, for which heads of 256 leave no registers.
    return _by_registers(shape) if shape.whole or shape.head_dim <= 128 else None


def _wants_shared_memory(shape: TensorShape) -> bool:
    """Whether tiles in shared memory, which can be had, are faster than tiles in registers."""
    if shape.columns > 16 or shape.head_dim == 256:
        return True
    if shape.small:  # conversion takes registers, scales do too
        return shape.columns > 8 or shape.scales
    return shape.head_dim == 128 and shape.columns <= 8


def _by_registers(shape: TensorShape) -> TensorVariant:
    small, drafts = shape.small, shape.drafts
    columns = 8 if shape.head_dim == 256 or shape.columns <= 8 or (drafts and not shape.whole) else 16
    groups = min(WARPS, _power_of_2(-(-shape.columns // columns)))
    if shape.head_dim == 256:
        ctas = 2
    elif columns == 16:
        ctas = 3 if shape.head_dim == 64 and not drafts else 2
    elif small or shape.head_dim == 64:
        ctas = 3 if drafts or (shape.scales and not shape.whole) else 4
    else:
        ctas = 2 if drafts else 3
    # Queries in shared memory cost time, in registers they cost those of others.
    staged = shape.head_dim == 256 or not shape.whole or (columns == 16 and small) or (columns == 8 and drafts)
    macros = {"COLUMNS": columns, "GROUPS": groups, "CTAS": ctas, "STAGED": int(staged), "STAGES": 0, "SHARED": 0}
    return TensorVariant(macros, columns * groups, 0)


def _by_shared_memory(shape: TensorShape) -> TensorVariant:
    columns = min(_power_of_2(max(8, shape.columns)), 16 if shape.head_dim == 256 else 32)
    if shape.head_dim == 256:
        deep, ctas = (2, 2) if shape.small else (3, 1) if shape.columns <= 16 else (1, 2)
    elif shape.head_dim == 64:
        deep, ctas = 3, 3
    elif shape.small:
        deep, ctas = (3, 2) if columns == 32 else (2, 3)
    else:  # deeper, or with more CTAs, the memory's queues only grow
        deep, ctas = 2, 3 if columns == 8 and shape.short else 2
    shared = shared_bytes(shape, columns, deep)
    macros = {"COLUMNS": columns, "GROUPS": 1, "CTAS": ctas, "STAGED": 1, "STAGES": deep, "SHARED": shared}
    return TensorVariant(macros, columns, shared)


def shared_bytes(shape: TensorShape, columns: int, stages: int) -> int:
    """The size of sums_t (decode_pieces.cuh) with STAGES, from a multiple of 1024 on: with less nothing compiles."""
    stage = TILE * 2 * shape.head_dim * (1 if shape.small else 2)
    own = max(stages * stage, columns * shape.head_dim * 4)
    scales = 2 * TILE if shape.scales else 1
    shared = columns * (shape.head_dim * 2 + 4) + WARPS * (8 * columns + 2 * 64 * 4) + 8
    return 1024 + _up(WARPS * (own + stages * (8 + 4 * scales)) + shared, 1024)


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _power_of_2(number: int) -> int:
    return 1 << (number - 1).bit_length()
