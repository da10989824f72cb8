"""Which variant of decode attention to launch, and into how many shares a batch is cut. Plain arithmetic.

Both depend on shapes alone, never on lengths, which only the device knows: kernels divide what they find there among
the shares (decode_shares.cuh), so no table that is wider than its sequences costs more than empty CTAs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from pagedkv.dtypes import COMPUTE_DTYPES, DTYPES
from pagedkv.errors import InvalidArgumentError
from pagedkv.kernels.attention_tensor import TILE, WARPS, TensorShape, tensor_variant

HEAD_DIMS = (64, 128, 256)
MOST_HEADS = 16
MOST_TOKENS = 4
THREADS = 32 * WARPS
# Tokens of a KV head that shares are measured in, and how many of those at least: below, a share costs more to begin
# and to merge than it saves.
_ROUND, SMALLEST_SHARE = 64, 4
SHORT = 256  # tokens: of sequences up to here, more CTAs an SM are faster, above it those that each get further
_MOST_SHARES = 65535  # of a grid's second axis
# Bytes that decode_tensor.cu loads at a time. decode_attention.cu loads four numbers, and where scales move those of 8
# bits it is by a multiple of 4 bytes.
_TENSOR_LOAD = 16
# Two numbers a share, then sums, maximum and weight a line.
MARKS_BYTES = 8 * (_MOST_SHARES + 1)
_LINES_BYTES = 32768 * (128 + 2) * 4
WORKSPACE_BYTES = MARKS_BYTES + _LINES_BYTES


@dataclass(frozen=True, slots=True)
class DecodeShape:
    """What a kernel is chosen by: elements of a head, query heads a KV head, tokens of a block, formats; query tokens a
    sequence, whether scores are capped, bytes of which every vector of K and V begins at a multiple, and whether the
    table has room for SHORT tokens a sequence at most.
    """

    head_dim: int
    ratio: int
    block_size: int
    queries: str
    stored: str
    scales: bool
    tokens: int = 1
    capped: bool = False
    alignment: int = 256
    short: bool = False

    @property
    def columns(self) -> int:
        """Queries of a KV head."""
        return self.ratio * self.tokens


@dataclass(frozen=True, slots=True)
class DecodeVariant:
    """A kernel, its macros, how many of its CTAs an SM holds, how many share the queries of a KV head, and the bytes of
    dynamic shared memory that each takes.
    """

    kernel: str
    macros: Mapping[str, int]
    ctas: int
    column_groups: int = 1
    shared: int = 0


def check_decode_shape(shape: DecodeShape, v_head_dim: int) -> None:
    """Raise InvalidArgumentError, which lists what kernels there are, for a shape that has none."""
    sizes = shape.head_dim in HEAD_DIMS and v_head_dim == shape.head_dim
    if sizes and 1 <= shape.ratio <= MOST_HEADS and 1 <= shape.tokens <= MOST_TOKENS:
        return
    raise InvalidArgumentError(
        f"head sizes {shape.head_dim} of K and {v_head_dim} of V with {shape.ratio} query heads a KV head and "
        f"{shape.tokens} query tokens a sequence; a GPU has kernels for head size {', '.join(map(str, HEAD_DIMS))}, "
        f"the same for K and V, 1 to {MOST_HEADS} query heads a KV head and 1 to {MOST_TOKENS} query tokens; "
        "device='host' takes any"
    )


def check_decode_sizes(sequences: int, tokens: int, block_bytes: int) -> None:
    """Raise InvalidArgumentError where kernels, which count rounds and bytes of a block in 32 bits, could not.

    tokens: of a row of the table; block_bytes: of all layers.
    """
    most = 2**31 * _ROUND // max(1, sequences)
    if tokens > most or block_bytes >= 2**32:
        raise InvalidArgumentError(
            f"{sequences} sequences in a table for {tokens} tokens each, blocks of {block_bytes} bytes; on a GPU so "
            f"many sequences can have {most} tokens, and a block less than 4 GiB: give a narrower table or smaller "
            "blocks"
        )


@lru_cache(maxsize=256)
def decode_variant(shape: DecodeShape, compute_capability: tuple[int, int]) -> DecodeVariant:
    """The kernel for a shape that `check_decode_shape` lets pass."""
    whole, small = shape.block_size % TILE == 0, DTYPES[shape.stored].itemsize == 1
    served = (small or shape.queries == shape.stored) and shape.queries != COMPUTE_DTYPES[0]
    if served and shape.alignment % _TENSOR_LOAD == 0 and compute_capability >= (8, 0):
        drafts = shape.tokens > 1
        kind = TensorShape(shape.head_dim, shape.columns, small, shape.scales, drafts, whole, shape.short)
        if (found := tensor_variant(kind, compute_capability)) is not None:
            macros = {**found.macros, "DRAFTS": int(drafts), "WHOLE": int(whole), **_macros(shape)}
            groups = -(-shape.columns // found.columns)
            return DecodeVariant("decode_tensor", macros, macros["CTAS"], groups, found.shared)
    # More columns would not fit a thread's registers.
    columns = min(8 if shape.head_dim <= 128 else 4, _power_of_2(shape.columns))
    ctas = 2 if columns * shape.head_dim >= 8 * 64 else 4
    macros = {"COLUMNS": columns, "CTAS": ctas, **_macros(shape)}
    return DecodeVariant("decode_attention", macros, ctas, -(-shape.columns // columns))


def shares_for(shape: DecodeShape, kv_heads: int, sequences: int, tokens: int, slots: int) -> int:
    """Shares to cut a batch into, where no sequence has more than `tokens` tokens and `slots` CTAs run at a time.

    slots: divided by the CTAs that share the queries of a KV head. So many shares that all run at the same time; never
    more than there can be tokens for, nor than the workspace has lines for, two for each query of a share.
    """
    lines = _LINES_BYTES // ((shape.head_dim + 2) * 4)
    rounds = sequences * -(-tokens // _ROUND)
    limit = min(-(-rounds // SMALLEST_SHARE), lines // (2 * kv_heads * shape.columns), _MOST_SHARES)
    return max(1, min(limit, slots // kv_heads))


def division(block_size: int) -> tuple[int, int]:
    """(magic, shift): position // block_size == position * magic >> shift for every position below 2^31, in 64 bits."""
    shift = 31 + (block_size - 1).bit_length()
    return -(-(1 << shift) // block_size), shift


def _macros(shape: DecodeShape) -> dict[str, int]:
    return {
        "HEAD_DIM": shape.head_dim,
        "QUERY": DTYPES[shape.queries].number,
        "STORED": DTYPES[shape.stored].number,
        "SCALES": int(shape.scales),
        "CAP": int(shape.capped),
        "LOG2_BLOCK": shape.block_size.bit_length() - 1 if shape.block_size & (shape.block_size - 1) == 0 else -1,
    }


def _power_of_2(number: int) -> int:
    return 1 << (number - 1).bit_length()
