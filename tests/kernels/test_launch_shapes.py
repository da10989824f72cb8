"""Launch shapes: every byte is covered once, the measured choices are made, and few variants are needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv.errors import InvalidArgumentError
from pagedkv.kernels.launch_shapes import (
    LARGEST_GRID_X,
    access_width,
    copy_shape,
    copy_variants,
    flat_grid,
    row_shape,
    table_grid,
)

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
