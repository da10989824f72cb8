"""Kernels over blocks that lie in pieces (layer-major pools), under the sanitizers, against their NumPy twins."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from pagedkv import KVLayout
from pagedkv.kernels import reference
from pagedkv.kernels.launch_shapes import TABLE_THREADS, Grid, piece_shape, row_shape
from pagedkv.kernels.pieces import pieces_argument, row_extents, row_views
from pagedkv.layout import Extents

from .host_build import Argument, Array, HostKernels, KernelFaultError, Shifted

_BLOCKS = 7
_LAYOUTS = [
    KVLayout(3, 2, 8, "bfloat16", 4, order="layer"),
    KVLayout(2, 3, 5, "int8", 3, order="layer", v_head_dim=7),  # single bytes
    KVLayout(2, 2, 64, "float8_e4m3fn", 16, order="layer", scales=True),  # four parts, two sizes
    KVLayout.latent(3, 576, "bfloat16", 16, order="layer"),  # one part
    KVLayout(1, 8, 128, "bfloat16", 5, order="layer", v_head_dim=40),  # one group; V ends chunks before K does
    KVLayout(2, 1, 256, "float16", 16, order="layer", v_head_dim=128, kv_layout="HND"),  # whole chunks of both
]
_IDS = np.array([2, -1, 0, 6, -7], np.int64)
_PAIRS = np.array([[6, 0], [-1, 4], [2, 1], [2, 3]], np.int32)
layouts = pytest.mark.parametrize("layout", _LAYOUTS, ids=str)


def _pool(layout: KVLayout) -> tuple[reference.Bytes, Extents]:
    """The pool in random bytes, which end where its last block ends."""
    generator = np.random.default_rng(layout.block_bytes)
    pool = generator.integers(0, 256, layout.pool_bytes(_BLOCKS), np.uint8)
    return pool, layout.extents(_BLOCKS)


def _argument(extents: Extents) -> Array:
    return pieces_argument(extents).copy()


def _copied(pool: reference.Bytes, extents: Extents) -> reference.Bytes:
    expected = pool.copy()
    for rows in row_views(expected, extents, _BLOCKS):
        reference.copy_rows(rows, _PAIRS)
    return expected


@layouts
def test_copies_every_piece_of_whole_blocks(host_kernels: HostKernels, layout: KVLayout, reverse: bool) -> None:
    pool, extents = _pool(layout)
    expected = _copied(pool, extents)
    shape = piece_shape(extents, len(_PAIRS))
    arguments: list[Argument] = [pool, _PAIRS, _argument(extents), shape.chunks_per_block, len(_PAIRS)]
    host_kernels.launch("copy_blocks", shape.macros, shape.grid, shape.threads, arguments, reverse=reverse)
    np.testing.assert_array_equal(pool, expected)


@pytest.mark.parametrize("groups_of_the_grid", [1, 2])
def test_groups_beyond_the_grid_are_strided_over(host_kernels: HostKernels, groups_of_the_grid: int) -> None:
    pool, extents = _pool(_LAYOUTS[0])
    expected = _copied(pool, extents)
    shape, rows = piece_shape(extents, len(_PAIRS)), groups_of_the_grid * len(extents.sizes)
    assert shape.grid[1] > rows
    grid, where = (shape.grid[0], rows), _argument(extents)
    arguments: list[Argument] = [pool, _PAIRS, where, shape.chunks_per_block, len(_PAIRS)]
    host_kernels.launch("copy_blocks", shape.macros, grid, shape.threads, arguments)
    np.testing.assert_array_equal(pool, expected)
    for view in row_views(expected, extents, _BLOCKS):
        reference.scrub_rows(view, _IDS)
    scrub = {**shape.macros, "TAIL": 1}
    ids = len(_IDS) * shape.chunks_per_block
    host_kernels.launch("scrub", scrub, (ids, rows), shape.threads, [pool, _IDS, where, shape.chunks_per_block])
    np.testing.assert_array_equal(pool, expected)


def test_large_chunks_copy_pieces_and_cut_the_last(host_kernels: HostKernels) -> None:
    """Many blocks choose 1024 threads; a grid over a few of them is the same kernel."""
    layout = KVLayout(2, 2, 1032, "bfloat16", 80, order="layer", v_head_dim=8)
    extents = layout.extents(3)
    shape = piece_shape(extents, 10_000)
    assert (shape.threads, shape.macros["TAIL"], shape.chunks_per_block) == (1024, 1, 11)
    pool = np.random.default_rng(3).integers(0, 256, layout.pool_bytes(3), np.uint8)
    pairs, expected = np.array([[1, 2], [1, 0]], np.int32), pool.copy()
    for rows in row_views(expected, extents, 3):
        reference.copy_rows(rows, pairs)
    grid = (len(pairs) * shape.chunks_per_block, shape.grid[1])
    arguments: list[Argument] = [pool, pairs, _argument(extents), shape.chunks_per_block, len(pairs)]
    host_kernels.launch("copy_blocks", shape.macros, grid, shape.threads, arguments)
    np.testing.assert_array_equal(pool, expected)


@layouts
def test_scrubs_every_piece_of_whole_blocks(host_kernels: HostKernels, layout: KVLayout) -> None:
    pool, extents = _pool(layout)
    expected = pool.copy()
    for rows in row_views(expected, extents, _BLOCKS):
        reference.scrub_rows(rows, _IDS)
    shape = piece_shape(extents, len(_IDS))
    arguments: list[Argument] = [pool, _IDS, _argument(extents), shape.chunks_per_block]
    host_kernels.launch("scrub", shape.macros, shape.grid, shape.threads, arguments)
    np.testing.assert_array_equal(pool, expected)


def _rows_launch(extents: Extents, count: int, positions: int) -> tuple[Mapping[str, int], Grid]:
    shape = row_shape(max(extents.sizes), count, extents.alignment)
    return {**shape.macros, "PIECES": 1, "POSITIONS": positions}, shape.grid


@layouts
def test_fills_tokens_and_finds_every_wrong_one(host_kernels: HostKernels, layout: KVLayout, reverse: bool) -> None:
    size = layout.block_size
    slots = np.array([8, -1, 0, 5, _BLOCKS * size - 1, 3], np.int64)
    owners = np.array([-(2**63), 1, 7, 7, 2**63 - 1, 0], np.int64)
    positions = np.array([0, 5, 2**31, 2**31 + 1, 2**62, 1], np.int64)
    pool, extents = _pool(layout)
    tokens = row_extents(extents, size)
    expected = pool.copy()
    keys = reference.token_keys(owners, positions)
    reference.fill_pieces(row_views(expected, tokens, _BLOCKS * size), slots, keys)
    macros, grid = _rows_launch(tokens, len(slots), 1)
    arguments: list[Argument] = [pool, owners, positions, slots, len(slots), _argument(tokens)]
    host_kernels.launch("fill_rows", macros, grid, TABLE_THREADS, arguments, reverse=reverse)
    np.testing.assert_array_equal(pool, expected)

    counter = np.array([100], np.uint64)
    host_kernels.launch("verify_rows", macros, grid, TABLE_THREADS, [*arguments, counter], reverse=reverse)
    assert counter[0] == 100
    views = row_views(pool, tokens, _BLOCKS * size)
    views[-1][8, -1] ^= 1  # one bit in the last byte
    for view in views:
        view[5] ^= 255  # every byte of every piece of a token is one wrong token
        view[1] ^= 255  # nobody's
    views[0][3, 0] ^= 1
    host_kernels.launch("verify_rows", macros, grid, TABLE_THREADS, [*arguments, counter], reverse=reverse)
    assert counter[0] == 103
    assert reference.count_wrong_pieces(views, slots, keys) == 3


@layouts
def test_a_block_has_the_pattern_of_its_tag(host_kernels: HostKernels, layout: KVLayout) -> None:
    tags = np.array([0, 1, -1, 2**40, 9], np.int64)
    pool, extents = _pool(layout)
    expected = pool.copy()
    reference.fill_pieces(row_views(expected, extents, _BLOCKS), _IDS, reference.block_keys(tags))
    macros, grid = _rows_launch(extents, len(_IDS), 0)
    arguments: list[Argument] = [pool, tags, None, _IDS, len(_IDS), _argument(extents)]
    host_kernels.launch("fill_rows", macros, grid, TABLE_THREADS, arguments)
    np.testing.assert_array_equal(pool, expected)
    for view in row_views(pool, extents, _BLOCKS):
        view[0, 4] ^= 4
    counter = np.zeros(1, np.uint64)
    host_kernels.launch("verify_rows", macros, grid, TABLE_THREADS, [*arguments, counter])
    assert counter[0] == 1


def test_floats_of_every_piece(host_kernels: HostKernels, reverse: bool) -> None:
    pool, extents = _pool(_LAYOUTS[2])
    pool[:] = 0
    values = (np.arange(len(_IDS), dtype=np.float32) + 1) * np.float32(1.5)
    expected = pool.copy()
    for rows in row_views(expected, extents, _BLOCKS):
        reference.fill_floats(rows.view(np.float32), _IDS, values)
    grid, macros = (len(_IDS), 1), {"THREADS": TABLE_THREADS, "PIECES": 1}
    arguments: list[Argument] = [pool, _IDS, values, _argument(extents)]
    host_kernels.launch("fill_float", macros, grid, TABLE_THREADS, arguments, reverse=reverse)
    np.testing.assert_array_equal(pool, expected)

    views = [rows.view(np.float32) for rows in row_views(pool, extents, _BLOCKS)]
    views[0][2, 3:6], views[-1][6, -1], views[1][1] = np.nan, 0, 8  # block 1 is nobody's
    counter = np.array([7], np.uint64)
    host_kernels.launch("verify_float", macros, grid, TABLE_THREADS, [*arguments, counter], reverse=reverse)
    assert counter[0] - 7 == sum(reference.count_wrong_floats(view, _IDS, values) for view in views) == 4


def test_the_alignment_of_pool_and_pieces_limits_the_access(host_kernels: HostKernels) -> None:
    pool, extents = _pool(_LAYOUTS[0])
    expected = _copied(pool, extents)
    narrow, wide = piece_shape(extents, len(_PAIRS), alignment=8), piece_shape(extents, len(_PAIRS))
    assert (narrow.macros["VEC"], wide.macros["VEC"]) == (8, 16)
    for shape in (wide, narrow):
        arguments: list[Argument] = [Shifted(pool, 8), _PAIRS, _argument(extents), shape.chunks_per_block, len(_PAIRS)]
        if shape is wide:
            with pytest.raises(KernelFaultError, match="misaligned address"):
                host_kernels.launch("copy_blocks", shape.macros, shape.grid, shape.threads, arguments)
        else:
            host_kernels.launch("copy_blocks", shape.macros, shape.grid, shape.threads, arguments)
    np.testing.assert_array_equal(pool, expected)
