"""Kernels that move, write and check rows of the pool, under the sanitizers, against their NumPy twins."""

from __future__ import annotations

import numpy as np
import pytest

from pagedkv.kernels import reference
from pagedkv.kernels.launch_shapes import TABLE_THREADS, copy_shape, row_shape

from .host_build import HostKernels, KernelFaultError, Shifted

# Odd sizes, each access width, sizes around one chunk, and a cut last chunk.
_BLOCK_BYTES = [3, 16, 24, 1030, 4352, 8192, 8208, 20000]
_ROW_BYTES = [1, 7, 12, 16, 30, 64, 200, 600, 4096, 5000]
_IDS = np.array([2, -1, 0, 5, -7], np.int64)


def _pool(blocks: int, row_bytes: int) -> reference.Bytes:
    return np.random.default_rng(row_bytes).integers(0, 256, (blocks, row_bytes), np.uint8)


@pytest.mark.parametrize("block_bytes", _BLOCK_BYTES)
def test_copies_whole_blocks(host_kernels: HostKernels, block_bytes: int, reverse: bool) -> None:
    pool = _pool(7, block_bytes)
    # The pool's last block is both read and written: a missing guard runs over its end.
    pairs = np.array([[6, 0], [-1, 4], [2, 1], [2, 3]], np.int32)
    expected = pool.copy()
    reference.copy_rows(expected, pairs)
    shape = copy_shape(block_bytes, len(pairs))
    arguments = [pool, pairs, block_bytes, shape.chunks_per_block, len(pairs)]
    host_kernels.launch("copy_blocks", shape.macros, shape.grid, shape.threads, arguments, reverse=reverse)
    np.testing.assert_array_equal(pool, expected)


def test_large_chunks_copy_and_cut_the_last(host_kernels: HostKernels) -> None:
    """Many blocks choose 1024 threads; a grid over a few of them is the same kernel."""
    block_bytes = 9 * 32768 + 16
    shape = copy_shape(block_bytes, 10_000)
    assert (shape.threads, shape.macros["TAIL"]) == (1024, 1)
    pool, pairs = _pool(3, block_bytes), np.array([[1, 2], [1, 0]], np.int32)
    expected = pool.copy()
    reference.copy_rows(expected, pairs)
    grid = (len(pairs) * shape.chunks_per_block, 1)
    host_kernels.launch(
        "copy_blocks", shape.macros, grid, shape.threads, [pool, pairs, block_bytes, shape.chunks_per_block, len(pairs)]
    )
    np.testing.assert_array_equal(pool, expected)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 16])
def test_a_cta_that_takes_eight_pairs_takes_no_ninth(host_kernels: HostKernels, count: int) -> None:
    """The list ends where it ends: its margin is guarded, and blocks that nobody named keep their bytes."""
    block_bytes = 65536
    shape = copy_shape(block_bytes, 10_000)
    assert (shape.pairs_a_cta, shape.macros["PAIRS"]) == (8, 8)
    pool, pairs = _pool(33, block_bytes), np.arange(32, dtype=np.int32).reshape(16, 2)[:count].copy()
    pairs[0, 0] = -1
    expected = pool.copy()
    reference.copy_rows(expected, pairs)
    arguments = [pool, pairs, block_bytes, shape.chunks_per_block, count]
    host_kernels.launch("copy_blocks", shape.macros, (-(-count // 8), 1), shape.threads, arguments)
    np.testing.assert_array_equal(pool, expected)


@pytest.mark.parametrize("block_bytes", [3, 1030, 8192, 20000])
def test_scrubs_whole_blocks(host_kernels: HostKernels, block_bytes: int) -> None:
    pool = _pool(6, block_bytes)
    expected = pool.copy()
    reference.scrub_rows(expected, _IDS)
    shape = copy_shape(block_bytes, len(_IDS))
    arguments = [pool, _IDS, block_bytes, shape.chunks_per_block]
    host_kernels.launch("scrub", shape.macros, shape.grid, shape.threads, arguments)
    np.testing.assert_array_equal(pool, expected)


@pytest.mark.parametrize("row_bytes", _ROW_BYTES)
def test_fills_tokens_and_finds_every_wrong_one(host_kernels: HostKernels, row_bytes: int, reverse: bool) -> None:
    slots = np.array([8, -1, 0, 5, 11, 3], np.int64)
    owners = np.array([-(2**63), 1, 7, 7, 2**63 - 1, 0], np.int64)
    positions = np.array([0, 5, 2**31, 2**31 + 1, 2**62, 1], np.int64)
    pool = _pool(12, row_bytes)
    expected = pool.copy()
    reference.fill_rows(expected, slots, reference.token_keys(owners, positions))
    shape = row_shape(row_bytes, len(slots))
    macros = {**shape.macros, "POSITIONS": 1}
    arguments = [pool, owners, positions, slots, len(slots), row_bytes]
    host_kernels.launch("fill_rows", macros, shape.grid, shape.threads, arguments, reverse=reverse)
    np.testing.assert_array_equal(pool, expected)

    counter = np.array([100], np.uint64)
    host_kernels.launch("verify_rows", macros, shape.grid, shape.threads, [*arguments, counter], reverse=reverse)
    assert counter[0] == 100
    pool[8, -1] ^= 1  # one bit in the last byte
    pool[5] ^= 255  # every byte of a row is one wrong row
    pool[1] ^= 255  # nobody's
    host_kernels.launch("verify_rows", macros, shape.grid, shape.threads, [*arguments, counter], reverse=reverse)
    assert counter[0] == 102


@pytest.mark.parametrize("row_bytes", [24, 4096, 20000])
def test_a_block_has_the_pattern_of_its_tag(host_kernels: HostKernels, row_bytes: int) -> None:
    tags = np.array([0, 1, -1, 2**40, 9], np.int64)
    pool = _pool(6, row_bytes)
    expected = pool.copy()
    reference.fill_rows(expected, _IDS, reference.block_keys(tags))
    shape = row_shape(row_bytes, len(_IDS))
    macros = {**shape.macros, "POSITIONS": 0}
    arguments = [pool, tags, None, _IDS, len(_IDS), row_bytes]
    host_kernels.launch("fill_rows", macros, shape.grid, shape.threads, arguments)
    np.testing.assert_array_equal(pool, expected)
    pool[0, 17] ^= 4
    counter = np.zeros(1, np.uint64)
    host_kernels.launch("verify_rows", macros, shape.grid, shape.threads, [*arguments, counter])
    assert counter[0] == reference.count_wrong(pool, _IDS, reference.block_keys(tags)) == 1


def test_floats_of_whole_blocks(host_kernels: HostKernels, reverse: bool) -> None:
    pool = np.zeros((6, 1000), np.float32)
    values = (np.arange(len(_IDS), dtype=np.float32) + 1) * np.float32(1.5)
    expected = pool.copy()
    reference.fill_floats(expected, _IDS, values)
    grid, macros = (len(_IDS), 1), {"THREADS": TABLE_THREADS}
    arguments = [pool, _IDS, values, pool.shape[1] * 4]
    host_kernels.launch("fill_float", macros, grid, TABLE_THREADS, arguments, reverse=reverse)
    np.testing.assert_array_equal(pool, expected)

    pool[2, 3:6], pool[5, 999], pool[1] = np.nan, 0, 8  # block 1 is nobody's
    counter = np.array([7], np.uint64)
    host_kernels.launch("verify_float", macros, grid, TABLE_THREADS, [*arguments, counter], reverse=reverse)
    assert counter[0] - 7 == reference.count_wrong_floats(pool, _IDS, values) == 4


def test_the_pool_s_alignment_limits_the_access(host_kernels: HostKernels) -> None:
    """A pool that starts 8 bytes off gets 8-byte accesses; 16-byte ones there are found."""
    pool, pairs = _pool(4, 4096), np.array([[1, 2]], np.int32)
    expected = pool.copy()
    reference.copy_rows(expected, pairs)
    narrow, wide = copy_shape(4096, 1, alignment=8), copy_shape(4096, 1)
    assert (narrow.macros["VEC"], wide.macros["VEC"]) == (8, 16)
    for shape in (wide, narrow):
        arguments = [Shifted(pool, 8), pairs, 4096, shape.chunks_per_block, len(pairs)]
        if shape is wide:
            with pytest.raises(KernelFaultError, match="misaligned address"):
                host_kernels.launch("copy_blocks", shape.macros, shape.grid, shape.threads, arguments)
        else:
            host_kernels.launch("copy_blocks", shape.macros, shape.grid, shape.threads, arguments)
    np.testing.assert_array_equal(pool, expected)
