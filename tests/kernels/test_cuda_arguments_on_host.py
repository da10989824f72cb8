"""What the CUDA backend launches, carried out by kernels built for the host: variants, grids and arguments fit.

The backend's own code chooses; only uploads and the driver's launch are replaced.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pagedkv import KVLayout, OpaqueLayout
from pagedkv.backends.cuda_kernels import CudaKernels
from pagedkv.backends.host import HostBackend
from pagedkv.backends.host_buffer import HostBuffer
from pagedkv.kernels import Kernels, PoolMemory, TokenBatch
from pagedkv.layout import Layout
from pagedkv.streams import Stream

from .host_build import Argument, Array, HostKernels

BLOCKS = 9
LAYOUTS: list[Layout] = [
    OpaqueLayout(24, 3),
    KVLayout(2, 2, 8, "float16", 4),
    KVLayout(3, 2, 8, "bfloat16", 4, order="layer"),
    KVLayout(2, 2, 24, "int8", 4, order="layer", v_head_dim=4, scales=True, kv_layout="HND"),
    KVLayout.latent(3, 20, "float32", 5, order="layer"),
]

# Few blocks of these are launched by another variant than many.
LARGER_LAYOUTS: list[Layout] = [OpaqueLayout(4096, 16), KVLayout(4, 8, 128, "bfloat16", 16, order="layer")]


class HostLaunches:
    """Stands for a CUDA driver, its kernel store and its staging memory; addresses are those of known arrays."""

    compute_capability = (9, 0)

    def __init__(self, host_kernels: HostKernels) -> None:
        self.host_kernels = host_kernels
        self.known: dict[int, Array] = {}
        self.prepared: set[tuple[str, tuple[tuple[str, int], ...]]] = set()
        self.launched: list[tuple[str, tuple[tuple[str, int], ...]]] = []

    def current(self) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def uploaded(self, arrays: Sequence[Array], stream: object) -> Iterator[list[int]]:
        held = [array.copy() for array in arrays]
        self.known |= {array.ctypes.data: array for array in held}
        yield [array.ctypes.data for array in held]

    def get(self, name: str, types: Sequence[Any], **macros: int) -> SimpleNamespace:
        key = (name, tuple(sorted(macros.items())))
        self.prepared.add(key)

        def launch(grid: tuple[int, int, int], threads: int, stream: object, *values: int | Array) -> None:
            self.launched.append(key)
            arguments = [self.argument(kind, value) for kind, value in zip(types, values, strict=True)]
            self.host_kernels.launch(name, macros, grid, threads, arguments)

        return SimpleNamespace(launch=launch)

    def argument(self, kind: Any, value: int | Array) -> Argument:
        if isinstance(value, np.ndarray):
            assert ctypes.sizeof(kind) == value.nbytes
            return value.copy()
        return self.known.get(value, value)


class Side:
    """A backend's kernels over a pool of its own."""

    def __init__(self, kernels: Kernels, stream: Stream, layout: Layout) -> None:
        self.kernels, self.stream = kernels, stream
        # 16-byte aligned, as the pool of any backend
        raw = np.random.default_rng(5).integers(0, 256, layout.pool_bytes(BLOCKS) + 16, np.uint8)
        self.pool = raw[-raw.ctypes.data % 16 :][: layout.pool_bytes(BLOCKS)]
        self.pool[:] = np.random.default_rng(6).integers(0, 256, len(self.pool), np.uint8)
        self.memory = PoolMemory(HostBuffer(self.pool), layout, BLOCKS, layout.extents(BLOCKS))
        self.count = np.zeros(8, np.uint8)
        self.counter = HostBuffer(self.count)

    def counted(self) -> int:
        return int(self.count.view(np.int64)[0])


@pytest.fixture(params=LAYOUTS, ids=str)
def sides(request: pytest.FixtureRequest, host_kernels: HostKernels) -> tuple[Side, Side, HostLaunches]:
    launches, backend = HostLaunches(host_kernels), HostBackend()
    kernels = CudaKernels(launches)  # type: ignore[arg-type]
    kernels.store = kernels.staging = launches  # type: ignore[assignment]
    cuda = Side(kernels, 0, request.param)  # type: ignore[arg-type]
    host = Side(backend.kernels, backend.stream(), request.param)
    launches.known |= {cuda.pool.ctypes.data: cuda.pool, cuda.count.ctypes.data: cuda.count.view(np.uint64)}
    return cuda, host, launches


def test_both_backends_leave_the_same_bytes_and_counts(sides: tuple[Side, Side, HostLaunches]) -> None:
    cuda, host, launches = sides
    layout = cuda.memory.layout
    ids, tags = np.array([8, 0, 3]), np.array([5, -6, 2**40])
    floats = np.array([1.5, -2.0, 3.0], np.float32)
    tokens = TokenBatch(np.array([7, 7, 9]), np.array([0, 1, 2**33]), np.array([BLOCKS * layout.block_size - 1, -1, 2]))
    pairs = np.array([[8, 1], [0, 2], [8, 4]], np.int32)
    for side in (cuda, host):
        kernels, memory, stream = side.kernels, side.memory, side.stream
        kernels.prepare(memory)
        kernels.fill_blocks(memory, ids, tags, stream)
        kernels.fill_tokens(memory, tokens, stream)
        kernels.copy_blocks(memory, pairs, stream)
        kernels.scrub_blocks(memory, np.array([5, 7]), stream)
        kernels.verify_blocks(memory, np.array([3, 8, 2]), tags[[2, 0, 1]], side.counter, stream)
        kernels.verify_tokens(memory, tokens, side.counter, stream)
        assert side.counted() == 2, "tokens were written over two of the blocks"
        kernels.fill_floats(memory, np.array([3, 6, 2]), floats, stream)
        kernels.verify_floats(memory, np.array([3, 6, 5]), floats, side.counter, stream)
        assert side.counted() == 2 + layout.block_bytes // 4
    np.testing.assert_array_equal(cuda.pool, host.pool)
    assert len(launches.launched) == 8


@pytest.mark.parametrize("sides", [*LAYOUTS, *LARGER_LAYOUTS], ids=str, indirect=True)
def test_prepare_compiles_whatever_a_plan_will_need(sides: tuple[Side, Side, HostLaunches]) -> None:
    cuda, _, launches = sides
    cuda.kernels.prepare(cuda.memory)
    ready = set(launches.prepared)
    launches.host_kernels = SimpleNamespace(launch=lambda *arguments: None)  # type: ignore[assignment]
    for count in (1, 2, 7, 40, 100, 500, 2000, 9000, 50_000):
        cuda.kernels.copy_blocks(cuda.memory, np.zeros((count, 2), np.int32), cuda.stream)
    assert set(launches.launched) <= launches.prepared == ready
    if cuda.memory.layout in LARGER_LAYOUTS:
        assert len(set(launches.launched)) >= 2
    assert len(launches.launched) == 9, "one launch for all copies of a plan"
