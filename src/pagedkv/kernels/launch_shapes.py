"""Which variant of a kernel to launch, and over how many thread blocks (CTAs), from the sizes at hand.

Plain arithmetic, no device needed. The choices for copies are measured on an H200 (132 SMs, CUDA 13), as a share of
one device-to-device copy of the same bytes: 32 KiB chunks (1024 threads, 2 loads of 16 bytes each) reach 93.4 % at
blocks of 512 KiB and 95.8 % at 2 MiB; 64 KiB chunks (1024 threads, 4 loads), eight blocks a CTA, 92.5 % at 64 KiB,
where one block a CTA reaches 91.8 %; 8 KiB chunks (64 threads, 8 loads) 90.2 % at 8 KiB, where 128 threads with 4 loads
reach 90.0 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd

from pagedkv.arguments import whole_number
from pagedkv.layout import Extents

WIDEST_ACCESS = 16
LARGEST_GRID_X = 2**31 - 1
LARGEST_GRID_Y = 65535
TABLE_THREADS = 256
# Updates that scatter_inline takes as an argument: what a decode step of a few hundred sequences needs, and the most
# that fits CUDA's 4,096 bytes of arguments.
INLINE_CAPACITIES = (64, 320)
SCAN_THREADS = 1024

Grid = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class CopyShape:
    """How to launch copy_blocks or scrub: macros, threads a CTA, CTAs a block (or its largest piece), and the grid of a
    copy's first launch.

    A CTA of copy_blocks takes `pairs_a_cta` pairs, one of scrub always one block.

    `blocks_a_launch` pairs (or blocks) fit one grid; the host cuts a longer list into launches of that many.
    """

    macros: Mapping[str, int]
    threads: int
    chunks_per_block: int
    blocks_a_launch: int
    grid: Grid
    pairs_a_cta: int = 1


@dataclass(frozen=True, slots=True)
class RowShape:
    """How to launch fill_rows or verify_rows (add the macro POSITIONS). `rows_a_launch` rows fit one grid."""

    macros: Mapping[str, int]
    threads: int
    rows_a_launch: int
    grid: Grid


@dataclass(frozen=True, slots=True)
class _Variant:
    threads: int
    unroll: int
    pairs: int = 1

    @property
    def words(self) -> int:
        return self.threads * self.unroll


_HUGE, _LARGE, _MEDIUM, _FINE = _Variant(1024, 4, 8), _Variant(1024, 2), _Variant(64, 8), _Variant(32, 4)
# For blocks below one medium chunk: the smallest that holds the block, so that one CTA moves it.
_WHOLE_BLOCK = (_Variant(32, 1), _Variant(32, 2), _FINE, _Variant(64, 4), _MEDIUM)
# Large chunks pay once there are four rounds of them for 132 SMs with two CTAs each; below that the last, partly filled
# round costs more than they save. Fine ones spread what would not give every SM one medium chunk.
_FEWEST_LARGE_CHUNKS = 4 * 2 * 132
_FEWEST_MEDIUM_CHUNKS = 132
# A block of 64 KiB is one chunk; a CTA that takes eight of them waits for their ids once. Two rounds of such CTAs.
_FEWEST_HUGE_BLOCKS = 8 * 2 * 2 * 132
# The most that a cut last chunk may waste before a smaller chunk is better: one in eight.
_FEWEST_CHUNKS_WITH_TAIL = 8


def access_width(nbytes: int, alignment: int = WIDEST_ACCESS) -> int:
    """The widest access in bytes (1, 2, 4, 8, 16) for rows of `nbytes` that start at a multiple of `alignment`."""
    return gcd(nbytes, alignment, WIDEST_ACCESS)


@lru_cache(maxsize=4096, typed=True)  # 16.0 must not find what 16 left
def copy_shape(block_bytes: int, n_pairs: int, alignment: int = WIDEST_ACCESS) -> CopyShape:
    """The shape for copying `n_pairs` blocks of a pool whose address is a multiple of `alignment`.

    Raises InvalidArgumentError for sizes below 1. Modifies nothing.
    """
    whole_number(block_bytes, "block_bytes", minimum=1)
    whole_number(n_pairs, "n_pairs", minimum=1)
    width = access_width(block_bytes, alignment)
    words = block_bytes // width
    return _copy_shape(_copy_variant(words, n_pairs), words, width, n_pairs)


def copy_variants(block_bytes: int, alignment: int = WIDEST_ACCESS) -> list[Mapping[str, int]]:
    """The macros of every variant that `copy_shape` chooses for blocks of this size, to be compiled beforehand."""
    counts = _counts_that_matter(block_bytes // access_width(block_bytes, alignment))
    return _distinct(lambda count: copy_shape(block_bytes, count, alignment), counts)


@lru_cache(maxsize=4096, typed=True)  # 16.0 must not find what 16 left
def piece_shape(extents: Extents, n_pairs: int, alignment: int = WIDEST_ACCESS) -> CopyShape:
    """The shape for copying (or scrubbing) `n_pairs` blocks that lie in pieces: all pieces of all blocks in one launch.

    Chosen as if every piece were a block of the largest piece's size; a smaller piece leaves its last chunks idle.
    `alignment`: of the pool's address. Raises InvalidArgumentError for a count below 1. Modifies nothing.
    """
    whole_number(n_pairs, "n_pairs", minimum=1)
    width = access_width(extents.alignment, alignment)
    words, parts = max(extents.sizes) // width, len(extents.sizes)
    variant = _copy_variant(words, n_pairs * extents.groups * parts)
    if variant is _HUGE:  # eight pairs a CTA would need eight pairs, not eight pieces
        variant = _LARGE
    shape = _copy_shape(variant, words, width, n_pairs)
    tail = int(any(size % (variant.words * width) for size in extents.sizes))
    rows = parts * min(extents.groups, LARGEST_GRID_Y // parts)
    return replace(shape, macros={**shape.macros, "TAIL": tail, "PIECES": 1}, grid=(shape.grid[0], rows, 1))


def piece_variants(extents: Extents, alignment: int = WIDEST_ACCESS) -> list[Mapping[str, int]]:
    """The macros of every variant that `piece_shape` chooses for these pieces, to be compiled beforehand."""
    counts = _counts_that_matter(max(extents.sizes) // access_width(extents.alignment, alignment))
    pieces = extents.groups * len(extents.sizes)
    pairs = {max(1, -(-count // pieces) + more) for count in counts for more in (-1, 0)}
    return _distinct(lambda count: piece_shape(extents, count, alignment), sorted(pairs))


@lru_cache(maxsize=4096, typed=True)  # 16.0 must not find what 16 left
def row_shape(row_bytes: int, n_rows: int, alignment: int = WIDEST_ACCESS) -> RowShape:
    """The shape for filling or verifying `n_rows` rows (tokens, blocks) that start at a multiple of `alignment`.

    Raises InvalidArgumentError for sizes below 1. Modifies nothing.
    """
    whole_number(row_bytes, "row_bytes", minimum=1)
    whole_number(n_rows, "n_rows", minimum=1)
    width = access_width(row_bytes, alignment)
    elements = row_bytes // width
    lanes = 8 if elements <= 16 else 32 if elements <= 256 else TABLE_THREADS
    rows_a_cta = TABLE_THREADS // lanes
    rows_a_launch = LARGEST_GRID_X * rows_a_cta
    grid = (-(-min(n_rows, rows_a_launch) // rows_a_cta), 1, 1)
    return RowShape({"THREADS": TABLE_THREADS, "LANES": lanes, "VEC": width}, TABLE_THREADS, rows_a_launch, grid)


def flat_grid(items: int, threads: int = TABLE_THREADS) -> Grid:
    """One thread an item: scatter_table and slots."""
    return (-(-items // threads), 1, 1)


def table_grid(rows: int, columns: int) -> Grid:
    """One thread a table entry: grow_table, gather_table and csr_indices. Rows beyond the grid's are strided over."""
    return (-(-columns // TABLE_THREADS), min(rows, LARGEST_GRID_Y), 1)


def _copy_variant(words: int, count: int) -> _Variant:
    if words < _MEDIUM.words:
        return next(variant for variant in _WHOLE_BLOCK if variant.words >= words)
    if words == _HUGE.words:
        return _HUGE if count >= _FEWEST_HUGE_BLOCKS else _medium_or_fine(words, count)
    large_chunks = words // _LARGE.words
    wastes_little = words % _LARGE.words == 0 or large_chunks >= _FEWEST_CHUNKS_WITH_TAIL
    if large_chunks and wastes_little and large_chunks * count >= _FEWEST_LARGE_CHUNKS:
        return _LARGE
    return _medium_or_fine(words, count)


def _medium_or_fine(words: int, count: int) -> _Variant:
    return _MEDIUM if words // _MEDIUM.words * count >= _FEWEST_MEDIUM_CHUNKS else _FINE


def _copy_shape(variant: _Variant, words: int, width: int, count: int) -> CopyShape:
    chunks = -(-words // variant.words)
    blocks_a_launch = max(1, LARGEST_GRID_X // chunks)
    macros = {
        "THREADS": variant.threads,
        "UNROLL": variant.unroll,
        "VEC": width,
        "TAIL": int(words % variant.words != 0),
    }
    if variant.pairs > 1:
        macros["PAIRS"] = variant.pairs
    grid = (-(-min(count, blocks_a_launch) // variant.pairs) * chunks, 1, 1)
    return CopyShape(macros, variant.threads, chunks, blocks_a_launch, grid, variant.pairs)


def _distinct(shape_for: Callable[[int], CopyShape], counts: list[int]) -> list[Mapping[str, int]]:
    shapes = [shape_for(count) for count in counts]
    return list({tuple(shape.macros.items()): shape.macros for shape in shapes}.values())


def _counts_that_matter(words: int) -> list[int]:
    """One count for each side of every threshold of `_copy_variant`."""
    thresholds = (
        -(-_FEWEST_LARGE_CHUNKS // max(1, words // _LARGE.words)),
        _FEWEST_HUGE_BLOCKS,
        -(-_FEWEST_MEDIUM_CHUNKS // max(1, words // _MEDIUM.words)),
    )
    return sorted({count for edge in thresholds for count in (max(1, edge - 1), edge)})
