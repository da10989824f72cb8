"""Which variant of decode attention to launch, and how many pieces a sequence is cut into. Plain arithmetic.

The number of pieces depends on shapes alone, never on lengths, which only the device knows: a kernel cuts each sequence
into that many equal pieces by its own length, so no table that is wider than its sequences costs more than empty CTAs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from pagedkv.dtypes import COMPUTE_DTYPES, DTYPES
from pagedkv.errors import InvalidArgumentError

HEAD_DIMS = (64, 128)
MOST_HEADS = 16
THREADS = 128
_TILE = 16
# Below this a piece costs more to begin and to merge than it saves.
SMALLEST_PIECE = 256
# No CTA should have more tokens: one long sequence among many short ones would be all that is left running.
_LONGEST_PIECE = 16384
# Lines of the workspace, one a query head and piece.
MOST_LINES = 32768
WORKSPACE_BYTES = MOST_LINES * (HEAD_DIMS[-1] + 2) * 4
_LARGEST_GRID_Y = 65535
_FULL = 0.95


@dataclass(frozen=True, slots=True)
class DecodeShape:
    """What a kernel is chosen by: elements of a head, query heads a KV head, tokens of a block, formats."""

    head_dim: int
    ratio: int
    block_size: int
    queries: str
    stored: str
    scales: bool


@dataclass(frozen=True, slots=True)
class DecodeVariant:
    """A kernel, its macros, how many of its CTAs an SM holds, and how many share the query heads of a KV head."""

    kernel: str
    macros: Mapping[str, int]
    ctas: int
    head_groups: int = 1


def check_decode_shape(shape: DecodeShape, v_head_dim: int) -> None:
    """Raise InvalidArgumentError, which lists what kernels there are, for a shape that has none."""
    if shape.head_dim in HEAD_DIMS and v_head_dim == shape.head_dim and 1 <= shape.ratio <= MOST_HEADS:
        return
    raise InvalidArgumentError(
        f"head sizes {shape.head_dim} of K and {v_head_dim} of V with {shape.ratio} query heads a KV head; a GPU has "
        f"kernels for head size {' or '.join(map(str, HEAD_DIMS))}, the same for K and V, and 1 to {MOST_HEADS} query "
        "heads a KV head; device='host' takes any"
    )


@lru_cache(maxsize=256)
def decode_variant(shape: DecodeShape, compute_capability: tuple[int, int]) -> DecodeVariant:
    """The kernel for a shape that `check_decode_shape` lets pass."""
    formats = {"QUERY": DTYPES[shape.queries].number, "STORED": DTYPES[shape.stored].number}
    if shape.queries == shape.stored != COMPUTE_DTYPES[0] and compute_capability >= (8, 0):
        heads = 8 if shape.ratio <= 8 else 16
        ctas = 2 if heads == 16 else 3 if shape.head_dim == 128 else 4
        sizes = {"HEAD_DIM": shape.head_dim, "HEADS": heads, "WHOLE": int(shape.block_size % _TILE == 0)}
        return DecodeVariant("decode_tensor", {**sizes, **formats, "CTAS": ctas}, ctas)
    # More heads than 8 would not fit a thread's registers.
    heads = min(8, 1 << (shape.ratio - 1).bit_length())
    ctas = 2 if heads == 8 else 4
    sizes = {"HEAD_DIM": shape.head_dim, "HEADS": heads, "SCALES": int(shape.scales)}
    return DecodeVariant("decode_attention", {**sizes, **formats, "CTAS": ctas}, ctas, -(-shape.ratio // heads))


@lru_cache(maxsize=1024)
def pieces_for(items: int, lines: int, tokens: int, slots: int) -> int:
    """Pieces to cut each sequence of at most `tokens` tokens into, where `slots` CTAs run at a time.

    items: CTAs of sequences in one piece; lines: of the workspace that a piece of each takes, one a query head. The
    fewest pieces that leave almost no slot without work in the last round; more where a piece would be very long; never
    more than the workspace has lines for.
    """
    most = min(-(-tokens // SMALLEST_PIECE), MOST_LINES // lines, _LARGEST_GRID_Y)
    if most <= 1:
        return 1
    fewest = min(most, -(-tokens // _LONGEST_PIECE))
    candidates = range(fewest, min(most, fewest + 8 + slots // items) + 1)
    shares = {count: _share_of_rounds(items * count, slots) for count in candidates}
    return next((count for count in candidates if shares[count] >= _FULL), max(candidates, key=lambda c: shares[c]))


def division(block_size: int) -> tuple[int, int]:
    """(magic, shift): position // block_size == position * magic >> shift for every position below 2^31, in 64 bits."""
    shift = 31 + (block_size - 1).bit_length()
    return -(-(1 << shift) // block_size), shift


def _share_of_rounds(ctas: int, slots: int) -> float:
    return ctas / (-(-ctas // slots) * slots)
