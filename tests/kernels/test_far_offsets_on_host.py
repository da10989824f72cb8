"""Offsets beyond 4 GiB and products beyond 2^31 (case L1), by addresses alone: nothing else there may be touched."""

from __future__ import annotations

import numpy as np
import pytest

from pagedkv import KVLayout
from pagedkv.kernels import reference
from pagedkv.kernels.launch_shapes import TABLE_THREADS, copy_shape, piece_shape, row_shape
from pagedkv.kernels.loader import kernel_source
from pagedkv.kernels.pieces import pieces_argument, row_extents

from .host_build import Argument, HostKernels, KernelFaultError, Sparse

# 65536 elements of 2 bytes a block: id 32768 is the first beyond int32 elements, 65536 wraps to block 0.
_BLOCK_BYTES = 131072
_FAR = [0, 16384, 32767, 32768, 65536]


def _far_pool(blocks: list[int]) -> tuple[Sparse, dict[int, reference.Bytes]]:
    generator = np.random.default_rng(1)
    content = {block: generator.integers(0, 256, (1, _BLOCK_BYTES), np.uint8) for block in blocks}
    pieces = {block * _BLOCK_BYTES: rows for block, rows in content.items()}
    return Sparse((max(blocks) + 1) * _BLOCK_BYTES, pieces), content


@pytest.mark.parametrize("far", _FAR[1:])
def test_copies_far_blocks(host_kernels: HostKernels, far: int) -> None:
    pool, content = _far_pool([far, 65537])
    before = content[far].copy()
    shape = copy_shape(_BLOCK_BYTES, 1)
    arguments: list[Argument] = [pool, np.array([[far, 65537]], np.int32), _BLOCK_BYTES, shape.chunks_per_block, 1]
    host_kernels.launch("copy_blocks", shape.macros, shape.grid, shape.threads, arguments)
    np.testing.assert_array_equal(content[65537], before)


@pytest.mark.parametrize(
    ("wrong", "block"),
    [("(u64)(int)((u32)source_id * (u32)block_bytes)", 16384), ("(u64)((u32)source_id * (u32)block_bytes)", 65536)],
    ids=["signed", "unsigned"],
)
def test_an_offset_in_32_bits_is_found(host_kernels: HostKernels, wrong: str, block: int) -> None:
    source = kernel_source("copy_blocks")
    planted = source.replace("(u64)source_id * block_bytes", wrong)
    assert planted != source
    shape = copy_shape(_BLOCK_BYTES, 1)
    program = host_kernels.build(planted, "copy_blocks", shape.macros)
    pool, _ = _far_pool([block, 65537])
    arguments: list[Argument] = [pool, np.array([[block, 65537]], np.int32), _BLOCK_BYTES, shape.chunks_per_block, 1]
    with pytest.raises(KernelFaultError, match="SEGV"):
        host_kernels.launch(program, shape.macros, shape.grid, shape.threads, arguments)


# K and V of two layers in pieces of 32 KiB, each part over more than 4 GiB.
_FAR_LAYOUT = KVLayout(2, 8, 128, "bfloat16", 16, order="layer")
_FAR_BLOCKS = 2**17 + 2


def _far_pieces(blocks: list[int]) -> tuple[Sparse, dict[int, list[reference.Bytes]]]:
    """The pool, and the pieces of some blocks, each where `part_view` says."""
    generator, size = np.random.default_rng(2), 32768
    content: dict[int, list[reference.Bytes]] = {}
    places: dict[int, reference.Bytes] = {}
    for block in blocks:
        content[block] = [generator.integers(0, 256, (1, size), np.uint8) for _ in range(4)]
        views = [_FAR_LAYOUT.part_view(layer, part, _FAR_BLOCKS) for layer in (0, 1) for part in ("k", "v")]
        places |= {v.offset + block * v.strides[0]: rows for v, rows in zip(views, content[block], strict=True)}
    return Sparse(_FAR_LAYOUT.pool_bytes(_FAR_BLOCKS), places), content


@pytest.mark.parametrize(("source", "destination"), [(0, 2**17 + 1), (2**17 + 1, 0), (2**16, 2**17)])
def test_copies_far_pieces(host_kernels: HostKernels, source: int, destination: int) -> None:
    pool, content = _far_pieces([source, destination])
    before = [rows.copy() for rows in content[source]]
    extents = _FAR_LAYOUT.extents(_FAR_BLOCKS)
    shape = piece_shape(extents, 1)
    pairs, where = np.array([[source, destination]], np.int32), pieces_argument(extents).copy()
    host_kernels.launch(
        "copy_blocks", shape.macros, shape.grid, shape.threads, [pool, pairs, where, shape.chunks_per_block, 1]
    )
    np.testing.assert_array_equal(content[destination], before)
    ids = np.array([source], np.int64)
    host_kernels.launch("scrub", shape.macros, shape.grid, shape.threads, [pool, ids, where, shape.chunks_per_block])
    assert not np.any(content[source])


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(u64)group * pieces.group_stride", "(u64)(group * (u32)pieces.group_stride)"),
        ("pieces.starts[part];", "(u32)pieces.starts[part];"),
        ("(u64)source_id * block_bytes", "(u64)((u32)source_id * (u32)block_bytes)"),
    ],
)
def test_a_piece_s_offset_in_32_bits_is_found(host_kernels: HostKernels, right: str, wrong: str) -> None:
    source = kernel_source("copy_blocks")
    planted = source.replace(right, wrong)
    assert planted != source
    extents = _FAR_LAYOUT.extents(_FAR_BLOCKS)
    shape = piece_shape(extents, 1)
    program = host_kernels.build(planted, "copy_blocks", shape.macros)
    pool, _ = _far_pieces([2**17 + 1, 70_000])
    pairs, where = np.array([[2**17 + 1, 70_000]], np.int32), pieces_argument(extents).copy()
    with pytest.raises(KernelFaultError, match="SEGV"):
        host_kernels.launch(
            program, shape.macros, shape.grid, shape.threads, [pool, pairs, where, shape.chunks_per_block, 1]
        )


def test_fills_and_verifies_far_pieces_of_tokens(host_kernels: HostKernels) -> None:
    blocks = [0, 2**16, 2**17 + 1]
    pool, content = _far_pieces(blocks)
    slots, owners, positions = np.array(blocks) * 16 + 15, np.arange(3), np.full(3, 2**33)
    tokens = row_extents(_FAR_LAYOUT.extents(_FAR_BLOCKS), 16)
    shape = row_shape(2048, 3)
    macros = {**shape.macros, "PIECES": 1, "POSITIONS": 1}
    arguments: list[Argument] = [pool, owners, positions, slots, 3, pieces_argument(tokens).copy()]
    host_kernels.launch("fill_rows", macros, shape.grid, shape.threads, arguments)
    written = [np.concatenate([rows[0, 15 * 2048 :] for rows in content[block]]) for block in blocks]
    np.testing.assert_array_equal(written, reference.pattern(reference.token_keys(owners, positions), 8192))

    content[2**17 + 1][3][0, 15 * 2048] ^= 1
    counter = np.zeros(1, np.uint64)
    host_kernels.launch("verify_rows", macros, shape.grid, shape.threads, [*arguments, counter])
    assert counter[0] == 1


def test_fills_and_verifies_far_pieces_of_floats(host_kernels: HostKernels) -> None:
    ids, values = np.array([2**17 + 1, 0], np.int64), np.array([1.5, 2.5], np.float32)
    pool, content = _far_pieces(ids.tolist())
    macros = {"THREADS": TABLE_THREADS, "PIECES": 1}
    arguments: list[Argument] = [pool, ids, values, pieces_argument(_FAR_LAYOUT.extents(_FAR_BLOCKS)).copy()]
    host_kernels.launch("fill_float", macros, (2, 1), TABLE_THREADS, arguments)
    for block, value in zip(ids.tolist(), values, strict=True):
        assert {float(number) for rows in content[block] for number in rows.view(np.float32).ravel()} == {value}
    content[2**17 + 1][2][0, :8] = 0
    counter = np.zeros(1, np.uint64)
    host_kernels.launch("verify_float", macros, (2, 1), TABLE_THREADS, [*arguments, counter])
    assert counter[0] == 2


def test_fills_and_verifies_far_tokens(host_kernels: HostKernels) -> None:
    row_bytes = 4096
    slots = np.array([0, 524288, 1048575, 1048576, 2097152], np.int64)
    content = {int(slot): np.zeros((1, row_bytes), np.uint8) for slot in slots}
    pool = Sparse((int(slots[-1]) + 1) * row_bytes, {slot * row_bytes: row for slot, row in content.items()})
    owners, positions = np.arange(5), np.full(5, 2**33)
    shape = row_shape(row_bytes, 5)
    macros = {**shape.macros, "POSITIONS": 1}
    arguments: list[Argument] = [pool, owners, positions, slots, 5, row_bytes]
    host_kernels.launch("fill_rows", macros, shape.grid, shape.threads, arguments)
    expected = reference.pattern(reference.token_keys(owners, positions), row_bytes)
    np.testing.assert_array_equal(np.concatenate(list(content.values())), expected)

    content[1048576][0, 5] ^= 1
    counter = np.zeros(1, np.uint64)
    host_kernels.launch("verify_rows", macros, shape.grid, shape.threads, [*arguments, counter])
    assert counter[0] == 1


def test_reads_and_writes_far_table_entries(host_kernels: HostKernels) -> None:
    width, rows, last = 2**16, 2**16, 2**16 - 1
    end = np.zeros(1, np.int32)
    table = Sparse(rows * width * 4, {(last * width + last) * 4: end})
    macros = {"THREADS": TABLE_THREADS}
    host_kernels.launch(
        "scatter_table", macros, (1, 1), TABLE_THREADS, [table, width, np.array([[last, last, 41]], np.int32), 1]
    )
    assert end.tolist() == [41]
    out = np.zeros(1, np.int64)
    where, position = np.array([last], np.int32), np.array([last * 16 + 3], np.int64)
    arguments: list[Argument] = [table, rows, width, where, position, None, 1, 16, out]
    host_kernels.launch("slots", {**macros, "POSITION_BYTES": 8}, (1, 1), TABLE_THREADS, arguments)
    assert out.tolist() == [41 * 16 + 3]
