"""DevicePool.fit sizes a pool from free memory; tables export into the caller's arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pagedkv.backends.host import HostBackend
from pagedkv.backends.null import NullBackend
from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.layout import OpaqueLayout
from pagedkv.manager import KVCacheManager
from pagedkv.pool import DevicePool

LAYOUT = OpaqueLayout(64, 16)


def test_fit_takes_the_fraction_of_free_memory() -> None:
    backend = HostBackend()
    memory = backend.memory_info()
    if memory is None:
        pytest.skip("this system does not tell its memory")
    with DevicePool.fit(LAYOUT, 0.01, device=backend, scratch_blocks=2) as pool:
        assert 0.5 < pool.nbytes / (memory.free * 0.01) <= 1.5  # free memory moves while we look
        assert pool.scratch_blocks == 2


@pytest.mark.parametrize("fraction", [0, -1, 1.1, math.nan, True, "0.5", None])
def test_fit_refuses_fractions_that_are_none(fraction: object) -> None:
    with pytest.raises(InvalidArgumentError):
        DevicePool.fit(LAYOUT, fraction, device="host")  # type: ignore[arg-type]


def test_fit_needs_known_memory_and_room_for_a_block() -> None:
    with pytest.raises(BackendError):
        DevicePool.fit(LAYOUT, device=NullBackend())
    with pytest.raises(InvalidArgumentError, match="hold no block"):
        DevicePool.fit(OpaqueLayout(2**40, 2**10), device="host")


@pytest.fixture
def tables() -> tuple[KVCacheManager, DevicePool, np.ndarray]:
    manager, pool = KVCacheManager(32, 4, scratch_blocks=1), DevicePool(OpaqueLayout(8, 4), 32, scratch_blocks=1)
    for seq_id, length in ((5, 9), (6, 4), (7, 1)):
        manager.admit(seq_id, (), reserve=length)
        pool.apply(manager.append([seq_id], [length]))
    return manager, pool, np.array([manager.row(i) for i in (5, 6, 7)] + [-1], np.int32)


def test_gather_and_csr_equal_the_managers(tables: tuple[KVCacheManager, DevicePool, np.ndarray]) -> None:
    manager, pool, rows = tables
    lengths = np.array([9, 4, 1, 0], np.int32)
    out = np.full((4, 5), -7, np.int32)
    pool.tables.gather(rows, lengths, out)
    wanted = manager.block_table([5, 6, 7], out=np.zeros((4, 5), np.int32))
    assert out.tolist() == wanted.tolist()
    csr = (np.full(5, -7, np.int32), np.full(5, -7, np.int32), np.full(4, -7, np.int32))
    pool.tables.csr(rows, lengths, csr)
    exact = manager.csr([5, 6, 7])
    assert csr[0].tolist() == [*exact.indptr, exact.indptr[-1]]
    assert csr[1].tolist() == exact.indices.tolist()
    assert csr[2].tolist() == [*exact.last_page_len, 0]


def test_slots_equal_the_managers_and_stop_at_lengths(
    tables: tuple[KVCacheManager, DevicePool, np.ndarray],
) -> None:
    manager, pool, _ = tables
    row = manager.row(5)
    rows, positions = np.full(14, row, np.int32), np.arange(-1, 13, dtype=np.int64)
    out = np.full(14, -7, np.int64)
    pool.tables.slots(rows, positions, out, lengths=np.full(14, 9, np.int32))
    assert out.tolist() == [-1, *manager.slot_mapping([5]), -1, -1, -1, -1]


@pytest.mark.parametrize(
    "out", [np.zeros((4, 5), np.int64), np.zeros(4, np.int32), np.zeros((3, 5), np.int32), [[0]], None]
)
def test_wrong_output_arrays_are_named(tables: tuple[KVCacheManager, DevicePool, np.ndarray], out: object) -> None:
    _, pool, rows = tables
    with pytest.raises(InvalidArgumentError, match="out"):
        pool.tables.gather(rows, np.zeros(4, np.int32), out)


def test_tables_that_do_not_exist_yet_say_so() -> None:
    pool = DevicePool(LAYOUT, 4)
    with pytest.raises(InvalidArgumentError, match="no plan"):
        pool.tables.gather(np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros((1, 1), np.int32))
