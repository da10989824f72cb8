"""The null backend conforms as far as it has anything, counts what it is given, and says that it has no bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pagedkv import DevicePool, OpaqueLayout
from pagedkv.backends import Backend
from pagedkv.backends.null import NullBackend
from pagedkv.errors import InvalidArgumentError

from .address_conformance import AddressConformance
from .plans import plan


@pytest.mark.parametrize("stepped", [False, True], ids=["eager", "stepped"])
class TestNullBackend(AddressConformance):
    @pytest.fixture
    def backend(self, stepped: bool) -> Backend:
        return NullBackend(stepped=stepped)


BYTE_OPERATIONS: list[Callable[[DevicePool], object]] = [
    lambda pool: pool.fill_tokens(1, [0], [0]),
    lambda pool: pool.verify_tokens(1, [0], [0]),
    lambda pool: pool.fill_blocks([0], 1),
    lambda pool: pool.verify_blocks([0], 1),
    lambda pool: pool.read_blocks([0]),
    lambda pool: pool.write_blocks([0], np.zeros((1, 16), np.uint8)),
    lambda pool: pool.bytes_of(0),
]


@pytest.mark.parametrize("operation", BYTE_OPERATIONS)
def test_bytes_are_refused_and_the_pool_stays_sound(operation: Callable[[DevicePool], object]) -> None:
    with DevicePool(OpaqueLayout(8, 2), 4, device="null") as pool:
        with pytest.raises(InvalidArgumentError, match="device='host'"):
            operation(pool)
        pool.apply(plan(1, copies=[(0, 1)]))
        assert pool.failure is None


def test_tables_without_bytes() -> None:
    with DevicePool(OpaqueLayout(8, 2), 4, device="null") as pool:
        pool.apply(plan(1, updates=[(0, 0, 0)]))
        with pytest.raises(InvalidArgumentError):
            _ = pool.tables.array


def test_copies_and_updates_are_counted() -> None:
    backend = NullBackend()
    pool = DevicePool(OpaqueLayout(8, 2), 9, device=backend)
    pool.apply(plan(1, copies=[(0, 1), (2, 3)], updates=[(0, 0, 1)]))
    pool.apply(plan(2, copies=[(4, 5)], updates=[(0, 1, 3), (5, 0, 5), (5, 1, 8)]))
    pool.copy_blocks([(1, 2)])
    assert (backend.kernels.copied_blocks, backend.kernels.scattered_entries) == (4, 4)
    pool.close()


def test_eighty_gib_cost_nothing() -> None:
    with DevicePool(OpaqueLayout(2**17, 16), 40 * 1024, device="null") as pool:
        assert pool.nbytes == 80 * 2**30
        assert pool.block_ptr(40 * 1024 - 1) == pool.base + 80 * 2**30 - 2**21


def test_memory_is_not_adopted() -> None:
    with pytest.raises(InvalidArgumentError):
        DevicePool(OpaqueLayout(8, 2), 4, device="null", memory=bytearray(64))
