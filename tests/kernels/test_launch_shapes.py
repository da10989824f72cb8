"""Launch shapes: every byte is covered once, the measured choices are made, and few variants are needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv import KVLayout
from pagedkv.errors import InvalidArgumentError
from pagedkv.kernels.launch_shapes import (
    LARGEST_GRID_X,
    LARGEST_GRID_Y,
    access_width,
    copy_shape,
    copy_variants,
    flat_grid,
    piece_shape,
    piece_variants,
    row_shape,
    table_grid,
)
from pagedkv.layout import Extents

_KIB, _MIB = 1024, 1024 * 1024
_SIZES = st.one_of(st.integers(1, 70_000), st.integers(1, 4096).map(lambda n: n * 1024), st.integers(1, 2**45))


@given(_SIZES, st.integers(1, 2**31 - 1), st.sampled_from([1, 2, 4, 8, 16]))
def test_chunks_cover_a_block_with_none_to_spare(block_bytes: int, count: int, alignment: int) -> None:
    shape = copy_shape(block_bytes, count, alignment)
    macros = shape.macros
    chunk = macros["THREADS"] * macros["UNROLL"] * macros["VEC"]
    assert shape.threads == macros["THREADS"]
    assert block_bytes % macros["VEC"] == alignment % macros["VEC"] == 0
    assert (shape.chunks_per_block - 1) * chunk < block_bytes <= shape.chunks_per_block * chunk
    assert macros["TAIL"] == int(block_bytes % chunk != 0)
    groups = -(-min(count, shape.blocks_a_launch) // shape.pairs_a_cta)
    assert shape.grid == (groups * shape.chunks_per_block, 1, 1)
    assert macros.get("PAIRS", 1) == shape.pairs_a_cta
    assert shape.blocks_a_launch * shape.chunks_per_block <= LARGEST_GRID_X or shape.blocks_a_launch == 1


@given(st.integers(1, 4 * _MIB), st.integers(1, 200_000))
def test_the_variants_named_beforehand_are_all_there_are(block_bytes: int, count: int) -> None:
    variants = copy_variants(block_bytes)
    assert copy_shape(block_bytes, count).macros in variants
    assert len(variants) <= 3


_EXTENTS = st.builds(
    lambda groups, sizes, blocks: Extents(
        groups, blocks * sum(sizes), tuple(sizes), tuple(blocks * sum(sizes[:i]) for i in range(len(sizes)))
    ),
    st.one_of(st.integers(1, 130), st.integers(1, 2**31 - 1)),
    st.lists(_SIZES, min_size=1, max_size=4),
    st.integers(1, 10_000),
)


@given(_EXTENTS, st.integers(1, 2**31 - 1), st.sampled_from([1, 2, 4, 8, 16]))
def test_chunks_cover_every_piece(extents: Extents, count: int, alignment: int) -> None:
    shape = piece_shape(extents, count, alignment)
    macros, parts = shape.macros, len(extents.sizes)
    chunk = macros["THREADS"] * macros["UNROLL"] * macros["VEC"]
    stride = extents.group_stride if extents.groups > 1 else 0
    assert all(number % macros["VEC"] == 0 for number in (*extents.sizes, *extents.starts, stride, alignment))
    assert (shape.chunks_per_block - 1) * chunk < max(extents.sizes) <= shape.chunks_per_block * chunk
    assert macros["TAIL"] == int(any(size % chunk for size in extents.sizes))
    assert (macros["PIECES"], macros.get("PAIRS", 1), shape.pairs_a_cta) == (1, 1, 1)
    assert shape.grid[0] == min(count, shape.blocks_a_launch) * shape.chunks_per_block
    assert shape.grid[1] % parts == 0 < shape.grid[1] <= min(LARGEST_GRID_Y, extents.groups * parts)
    assert shape.grid[0] <= LARGEST_GRID_X or shape.blocks_a_launch == 1


@given(_EXTENTS, st.integers(1, 200_000))
def test_the_variants_of_pieces_named_beforehand_are_all_there_are(extents: Extents, count: int) -> None:
    variants = piece_variants(extents)
    assert piece_shape(extents, count).macros in variants
    assert len(variants) <= 3


def test_pieces_of_a_model_get_the_shape_of_their_number() -> None:
    """One block of an 8B model is 64 pieces of 32 KiB, enough for every SM; many fill the device with large chunks."""
    extents = KVLayout(32, 8, 128, "bfloat16", 16, order="layer").extents(1000)
    one, many = piece_shape(extents, 1), piece_shape(extents, 500)
    assert (one.threads, one.grid) == (64, (4, 64, 1))
    assert (many.threads, many.grid) == (1024, (500, 64, 1))
    assert one.macros["VEC"] == many.macros["VEC"] == 16


def test_no_cta_takes_several_pairs_of_pieces() -> None:
    """Pieces of 64 KiB are many even where pairs are few: CTAs for eight pairs would have nothing to do."""
    extents = KVLayout(32, 8, 256, "bfloat16", 16, order="layer").extents(1000)
    for count in (1, 100, 10_000):
        shape = piece_shape(extents, count)
        assert "PAIRS" not in shape.macros
        assert shape.grid[0] == count * shape.chunks_per_block
    assert shape.macros["UNROLL"] == 2


def test_more_groups_than_the_grid_has_room_for() -> None:
    shape = piece_shape(Extents(100_000, 64, (16, 16, 16), (0, 16, 32)), 5)
    assert shape.grid[1] == 65_535 // 3 * 3


@pytest.mark.parametrize(
    ("block_bytes", "count", "threads", "unroll", "more"),
    [
        (8 * _KIB, 100_000, 64, 8, {}),
        (64 * _KIB, 100_000, 1024, 4, {"PAIRS": 8}),
        (512 * _KIB, 10_000, 1024, 2, {}),
        (2 * _MIB, 1000, 1024, 2, {}),
    ],
)
def test_many_blocks_get_the_shape_that_was_measured(
    block_bytes: int, count: int, threads: int, unroll: int, more: dict[str, int]
) -> None:
    expected = {"THREADS": threads, "UNROLL": unroll, "VEC": 16, "TAIL": 0, **more}
    assert copy_shape(block_bytes, count).macros == expected


def test_few_blocks_are_spread_over_the_device() -> None:
    """Eight blocks of 2 MiB: one round of small CTAs, not two uneven rounds of large ones; one block: no idle SMs."""
    shape = copy_shape(2 * _MIB, 8)
    assert (shape.threads, shape.grid[0]) == (64, 2048)
    assert copy_shape(512 * _KIB, 1).grid[0] >= 132
    assert copy_shape(64 * _KIB, 4).grid[0] >= 128


def test_a_list_beyond_the_grid_limit_is_cut() -> None:
    shape = copy_shape(2 * _MIB, 20_000_000)
    assert shape.chunks_per_block == 64
    assert shape.blocks_a_launch == 33_554_431
    fine = copy_shape(8 * _KIB, 2**31 - 1)
    assert (fine.chunks_per_block, fine.blocks_a_launch) == (1, 2**31 - 1)
    huge = copy_shape(2 * _MIB, 2**31 - 1)
    assert huge.grid[0] == 33_554_431 * 64 <= LARGEST_GRID_X


@given(_SIZES, st.integers(1, 2**40), st.sampled_from([1, 2, 4, 8, 16]))
def test_rows_are_all_covered(row_bytes: int, count: int, alignment: int) -> None:
    shape = row_shape(row_bytes, count, alignment)
    rows_a_cta = shape.macros["THREADS"] // shape.macros["LANES"]
    assert shape.macros["THREADS"] % shape.macros["LANES"] == 0
    assert row_bytes % shape.macros["VEC"] == alignment % shape.macros["VEC"] == 0
    covered = min(count, shape.rows_a_launch)
    assert (shape.grid[0] - 1) * rows_a_cta < covered <= shape.grid[0] * rows_a_cta
    assert shape.grid[0] <= LARGEST_GRID_X


def test_grids_of_tables() -> None:
    assert flat_grid(1) == (1, 1, 1)
    assert flat_grid(257) == (2, 1, 1)
    assert table_grid(64, 64) == (1, 64, 1)
    assert table_grid(70_000, 257) == (2, 65_535, 1)


def test_the_widest_access_that_size_and_start_allow() -> None:
    assert [access_width(size) for size in (1, 6, 12, 24, 4352)] == [1, 2, 4, 8, 16]
    assert access_width(4352, 8) == 8


@pytest.mark.parametrize(("size", "count"), [(0, 1), (-16, 1), (16, 0), (16.0, 1)])
def test_sizes_that_make_no_sense(size: int, count: int) -> None:
    with pytest.raises(InvalidArgumentError):
        copy_shape(size, count)
    with pytest.raises(InvalidArgumentError):
        row_shape(size, count)


@pytest.mark.parametrize("count", [0, -1, 1.0, True, None])
def test_counts_of_pieces_that_make_no_sense(count: object) -> None:
    with pytest.raises(InvalidArgumentError):
        piece_shape(KVLayout(2, 2, 8, "float16", 4, order="layer").extents(3), count)
