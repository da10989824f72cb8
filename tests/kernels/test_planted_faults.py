"""The host build finds what it is there for: faults planted in kernels are reported."""

from __future__ import annotations

import numpy as np
import pytest

from pagedkv import KVLayout
from pagedkv.kernels.launch_shapes import TABLE_THREADS, copy_shape, piece_shape
from pagedkv.kernels.loader import kernel_source
from pagedkv.kernels.pieces import pieces_argument

from .host_build import Argument, HostKernels, KernelFaultError


def _launch_planted(kernels: HostKernels, name: str, change: tuple[str, str], arguments: list[Argument]) -> None:
    source = kernel_source(name)
    planted = source.replace(*change)
    assert planted != source
    macros = {"THREADS": TABLE_THREADS}
    macros |= {"POSITION_BYTES": 4} if name == "slots" else {}
    kernels.launch(kernels.build(planted, name, macros), macros, (1, 1), TABLE_THREADS, arguments)


@pytest.mark.parametrize(("source", "destination", "access"), [(1, 0, "READ"), (0, 1, "WRITE")])
def test_a_copy_without_its_guard(host_kernels: HostKernels, source: int, destination: int, access: str) -> None:
    pool, shape = np.zeros((2, 4352), np.uint8), copy_shape(4352, 1)
    macros = {**shape.macros, "TAIL": 0}
    arguments: list[Argument] = [pool, np.array([[source, destination]], np.int32), 4352, 1, 1]
    with pytest.raises(KernelFaultError, match=rf"use-after-poison[\s\S]*{access} of size"):
        host_kernels.launch("copy_blocks", macros, shape.grid, shape.threads, arguments)


def test_a_smaller_piece_without_its_guard(host_kernels: HostKernels) -> None:
    """Chunks of the largest piece's end read and write past the end of a smaller one: here past the pool's."""
    layout = KVLayout(1, 1, 512, "float16", 16, order="layer", v_head_dim=256)
    extents, pool = layout.extents(2), np.zeros(layout.pool_bytes(2), np.uint8)
    shape = piece_shape(extents, 1)
    assert shape.macros["TAIL"] == 0
    source = kernel_source("copy_blocks")
    planted = source.replace("if ((u64)chunk * (THREADS * UNROLL) >= words) return;", "")
    assert planted != source
    pairs, where = np.array([[0, 1]], np.int32), pieces_argument(extents).copy()
    arguments: list[Argument] = [pool, pairs, where, shape.chunks_per_block, 1]
    host_kernels.launch("copy_blocks", shape.macros, shape.grid, shape.threads, arguments)
    program = host_kernels.build(planted, "copy_blocks", shape.macros)
    with pytest.raises(KernelFaultError, match=r"use-after-poison[\s\S]*WRITE of size"):
        host_kernels.launch(program, shape.macros, shape.grid, shape.threads, arguments)


def test_a_column_that_is_not_checked(host_kernels: HostKernels) -> None:
    """Case L2: a position past the row reads the next row, or past the table."""
    table, rows = np.zeros((1, 8), np.int32), np.zeros(1, np.int32)
    arguments: list[Argument] = [table, 1, 8, rows, np.array([9 * 16], np.int32), None, 1, 16, np.zeros(1, np.int64)]
    with pytest.raises(KernelFaultError, match="use-after-poison"):
        _launch_planted(host_kernels, "slots", ("column < width", "true"), arguments)


def test_a_thread_that_skips_the_barrier(host_kernels: HostKernels) -> None:
    arguments: list[Argument] = [
        np.zeros((1, 8), np.float32), np.zeros(1, np.int64), np.zeros(1, np.float32), 32, np.zeros(1, np.uint64)
    ]  # fmt: skip
    change = ("  if (wrong != 0) atomicAdd", "  if (threadIdx.x == 9) return;\n  if (wrong != 0) atomicAdd")
    with pytest.raises(KernelFaultError, match="barrier divergence: 255 of 256 threads"):
        _launch_planted(host_kernels, "verify_float", change, arguments)


def test_shared_memory_that_nobody_cleared(host_kernels: HostKernels) -> None:
    """No fault, but a wrong count: a CTA finds garbage in shared memory, as on a GPU."""
    counter = np.zeros(1, np.uint64)
    arguments: list[Argument] = [
        np.zeros((1, 8), np.float32), np.zeros(1, np.int64), np.zeros(1, np.float32), 32, counter
    ]  # fmt: skip
    _launch_planted(host_kernels, "verify_float", ("if (threadIdx.x == 0) wrong_of_block = 0;", ""), arguments)
    assert counter[0] == 0xA5A5A5A5A5A5A5A5


def test_shared_memory_past_its_end(host_kernels: HostKernels) -> None:
    source = kernel_source("csr_indptr").replace("__shared__ u64 sums[THREADS]", "__shared__ u64 sums[THREADS - 1]")
    program = host_kernels.build(source, "csr_indptr", {"THREADS": 64})
    arguments: list[Argument] = [
        np.zeros(1, np.int32), np.zeros(1, np.int32), 1, 16, 1, 4, np.zeros(2, np.int32), np.zeros(1, np.int32)
    ]  # fmt: skip
    with pytest.raises(KernelFaultError, match=r"insufficient space for an object of type|global-buffer-overflow"):
        host_kernels.launch(program, {}, (1, 1), 64, arguments)


def test_one_byte_too_far(host_kernels: HostKernels) -> None:
    """The margin starts at the very byte behind the last, for a size that is a multiple of nothing."""
    pool, ids, chunks = np.ones((1, 1027), np.uint8), np.zeros(1, np.int64), 33
    macros = {"THREADS": 32, "UNROLL": 1, "VEC": 1, "TAIL": 1}
    host_kernels.launch("scrub", macros, (chunks, 1), 32, [pool, ids, 1027, chunks])
    assert not pool.any()
    with pytest.raises(KernelFaultError, match=r"use-after-poison[\s\S]*WRITE of size 1 "):
        host_kernels.launch("scrub", macros, (chunks, 1), 32, [pool, ids, 1028, chunks])


def test_a_wrong_number_of_arguments(host_kernels: HostKernels) -> None:
    with pytest.raises(KernelFaultError, match="1 arguments, the kernel takes 4"):
        host_kernels.launch("scatter_table", {"THREADS": TABLE_THREADS}, (1, 1), TABLE_THREADS, [0])
