"""A pool's memory: one allocation, lazily committed, or the caller's in place; typed errors where it cannot be had."""

from __future__ import annotations

import array
import ctypes
import gc
import math
import mmap
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pagedkv import DevicePool, KVLayout, OpaqueLayout, open_cache
from pagedkv.backends.host import HostBackend, HostBuffer
from pagedkv.errors import BackendError, InvalidArgumentError

from .plans import plan

LAYOUT = OpaqueLayout(32, 4)


class CountingBackend(HostBackend):
    """Remembers what it handed out."""

    def __init__(self) -> None:
        super().__init__()
        self.allocated: list[HostBuffer] = []

    def allocate(self, nbytes: int) -> HostBuffer:
        self.allocated.append(super().allocate(nbytes))
        return self.allocated[-1]


@pytest.mark.parametrize("layout", [None, {}, OpaqueLayout, KVLayout, "block"])
def test_what_is_no_layout(layout: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"layout is .*; give a KVLayout or an OpaqueLayout"):
        DevicePool(layout, 3, device="host")


def test_a_pool_is_one_allocation() -> None:
    backend = CountingBackend()
    with DevicePool(LAYOUT, 100, device=backend, scratch_blocks=3) as pool:
        assert [(b.address, b.nbytes) for b in backend.allocated] == [(pool.base, 103 * 128)]
        assert pool.base == pool.bytes_of(0).ctypes.data


def test_adopting_allocates_nothing() -> None:
    backend = CountingBackend()
    with DevicePool(LAYOUT, 4, device=backend, memory=bytearray(512)):
        assert backend.allocated == []


def test_a_pool_costs_nothing_until_it_is_touched() -> None:
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("resident memory is read from /proc")
    before = int(statm.read_text().split()[1])
    with DevicePool(OpaqueLayout(512, 16), 32768) as pool:
        pool.fill_blocks([0, 32767], 1)
        grown = (int(statm.read_text().split()[1]) - before) * mmap.PAGESIZE
    assert pool.nbytes == 256 * 2**20
    assert grown < 32 * 2**20


def test_scratch_blocks_come_last_and_pad_the_tables() -> None:
    with DevicePool(LAYOUT, 4, scratch_blocks=2) as pool:
        assert (pool.num_blocks, pool.total_blocks) == (4, 6)
        pool.fill_blocks([5], 9)
        pool.apply(plan(1, updates=[(1, 1, 2)]))
        assert pool.tables.array[:2, :3].tolist() == [[4, 4, 4], [4, 2, 4]]


def test_views_are_the_bytes_themselves() -> None:
    with DevicePool(LAYOUT, 4) as pool:
        view = pool.bytes_of(2)
        assert (view.shape, view.dtype.name, view.ctypes.data) == ((128,), "uint8", pool.block_ptr(2))
        view[:] = 7
        assert set(pool.read_blocks([2])[0].tolist()) == {7}
        assert not pool.read_blocks([1, 3]).any()


def _memories() -> list[object]:
    size = 4 * 128
    return [
        bytearray(size),
        memoryview(bytearray(size)),
        mmap.mmap(-1, size),
        array.array("d", bytes(size)),
        (ctypes.c_float * (size // 4))(),
        np.zeros(size, np.uint8),
        np.zeros((size // 16, 2), np.float64),
        np.zeros(2 * size, np.int8)[size:],
        ArrayInterfaceOnly(np.zeros(size, np.uint8)),
    ]


class ArrayInterfaceOnly:
    """Memory of a library that shares it by `__array_interface__` and nothing else."""

    def __init__(self, held: npt.NDArray[np.uint8]) -> None:
        self.held = held
        self.__array_interface__ = held.__array_interface__


@pytest.mark.parametrize("memory", _memories(), ids=lambda memory: type(memory).__name__)
def test_the_callers_memory_is_used_in_place_and_outlives_the_pool(memory: object) -> None:
    held = np.asarray(memory if hasattr(memory, "__array_interface__") else memoryview(memory))  # type: ignore[arg-type]
    bytes_now = held.reshape(-1).view(np.uint8)
    pool = DevicePool(LAYOUT, 4, memory=memory)
    assert pool.base == bytes_now.ctypes.data
    pool.fill_tokens(3, [0], [15])
    pool.close()
    assert bytes_now[15 * 32 :].any()
    assert not bytes_now[: 15 * 32].any()


def test_a_closed_pool_lets_the_callers_memory_go() -> None:
    held = np.zeros(512, np.uint8)
    gone = weakref.ref(held)
    pool = DevicePool(LAYOUT, 4, memory=held)
    pool.close()
    del held
    gc.collect()
    assert gone() is None


def test_a_closed_pool_unlocks_a_bytearray() -> None:
    memory = bytearray(512)
    pool = DevicePool(LAYOUT, 4, memory=memory)
    with pytest.raises(BufferError):
        memory.append(1)
    pool.close()
    memory.append(1)


@pytest.mark.parametrize("memory", [
    bytes(512), memoryview(bytes(512)), np.zeros((64, 64), np.uint8)[:, :32], np.zeros(1024, np.uint8)[::2],
    np.full(512, None), bytearray(511), bytearray(0), [0] * 512, "x" * 512, 512, np.zeros(1024, np.uint8)[1:],
])  # fmt: skip
def test_memory_that_cannot_be_a_pool(memory: object) -> None:
    with pytest.raises(InvalidArgumentError):
        DevicePool(LAYOUT, 4, memory=memory)


@pytest.mark.parametrize("count", [0, -1, 1.5, math.nan, True, "4", None, 2**31, 2**63])
def test_block_counts_that_are_none(count: object) -> None:
    with pytest.raises(InvalidArgumentError):
        DevicePool(LAYOUT, count, device="null")  # type: ignore[arg-type]
    if count != 0:
        with pytest.raises(InvalidArgumentError):
            DevicePool(LAYOUT, 4, device="null", scratch_blocks=count)  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["tpu", "", "host:1", "cuda:x", "HOST", None, 3])
def test_unknown_devices(device: object) -> None:
    with pytest.raises(InvalidArgumentError, match="'auto', 'host', 'null' or 'cuda:N'"):
        DevicePool(LAYOUT, 4, device=device)  # type: ignore[arg-type]


def test_auto_opens_a_device_and_a_missing_one_is_named() -> None:
    with DevicePool(LAYOUT, 4, device="auto") as pool:
        assert pool.backend.name in ("host", "cuda")
    with pytest.raises(BackendError, match="cuda:99"):
        DevicePool(LAYOUT, 4, device="cuda:99")


def test_more_than_the_machine_has_is_refused_with_numbers_and_advice() -> None:
    with pytest.raises(BackendError, match="4503599627370496 bytes were asked for") as caught:
        open_cache(2**52, 16, 2**20, device="host")
    assert caught.value.name == "OUT_OF_MEMORY"
    assert caught.value.call == "allocate"
    assert "bytes are free" in str(caught.value)
    assert "smaller pool" in str(caught.value)
    assert "null" in str(caught.value)
