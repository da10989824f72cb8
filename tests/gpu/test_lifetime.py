"""Device memory over a pool's life: one allocation, an honest refusal, a clean end, nothing left."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from memory.plans import plan
from pagedkv import DevicePool, OpaqueLayout
from pagedkv.backends.cuda import CudaBackend
from pagedkv.errors import BackendError, PagedKVError

pytestmark = pytest.mark.gpu

MIB = 1 << 20
LAYOUT = OpaqueLayout(512, 16)
# cuMemGetInfo counts in pieces of 2 MiB.
GRAIN = 2 * MIB


def free_bytes(backend: CudaBackend) -> int:
    gc.collect()
    memory = backend.memory_info()
    assert memory is not None
    return memory.free


def test_one_allocation_at_construction_and_none_later(
    backend: CudaBackend, warm: Callable[[OpaqueLayout], None]
) -> None:
    warm(LAYOUT)
    before = free_bytes(backend)
    pool = DevicePool(LAYOUT, 65536, device=backend, scratch_blocks=1)  # 512 MiB
    taken = before - free_bytes(backend)
    assert pool.nbytes <= taken <= pool.nbytes + 2 * GRAIN
    pool.apply(plan(1, copies=[(0, 1)], updates=[(63, 63, 1)]))
    pool.verify_blocks([0], 1)
    settled = free_bytes(backend)
    for step in range(2, 502):
        pool.apply(plan(step, copies=[(step, 40_000 + step)], updates=[(step % 64, step % 64, step)]))
        pool.step_done(step)
        pool.wait_step(step)
    assert settled - free_bytes(backend) <= GRAIN
    pool.close()
    assert before - free_bytes(backend) <= GRAIN


def test_out_of_memory_says_what_was_asked_what_is_free_and_what_to_try(backend: CudaBackend) -> None:
    memory = backend.memory_info()
    assert memory is not None
    blocks = memory.total // LAYOUT.block_bytes + 1000
    with pytest.raises(BackendError) as caught:
        DevicePool(LAYOUT, blocks, device=backend)
    assert (caught.value.name, caught.value.call) == ("OUT_OF_MEMORY", "cuMemAlloc")
    text = str(caught.value)
    assert f"{blocks * LAYOUT.block_bytes} bytes were asked for" in text
    assert f"of {memory.total} bytes are free" in text
    assert "DevicePool.fit" in text
    with DevicePool(LAYOUT, 4, device=backend) as pool:
        pool.fill_blocks([3], 3)
        assert pool.verify_blocks([3], 3) == 0


def test_fit_takes_the_fraction_of_what_is_free(backend: CudaBackend) -> None:
    before = free_bytes(backend)
    with DevicePool.fit(LAYOUT, 0.5, device=backend) as pool:
        assert 0.49 * before < pool.nbytes <= 0.5 * before
        pool.fill_blocks([pool.num_blocks - 1], 3)
        assert pool.verify_blocks([pool.num_blocks - 1], 3) == 0
        assert free_bytes(backend) < 0.52 * before
    assert before - free_bytes(backend) <= GRAIN


def test_use_after_close_is_a_clean_error(torch: Any, backend: CudaBackend) -> None:
    pool = DevicePool(LAYOUT, 8, device=backend)
    pool.apply(plan(1, updates=[(0, 0, 1)]))
    pool.close()
    pool.close()
    array, table = (torch.zeros(shape, dtype=torch.int32, device="cuda") for shape in ((1,), (1, 1)))
    calls: list[Callable[[], object]] = [
        lambda: pool.apply(plan(2)),
        lambda: pool.step_done(1),
        pool.finished_step,
        lambda: pool.fence(0),
        lambda: pool.fill_blocks([0], 1),
        lambda: pool.verify_blocks([0], 1),
        lambda: pool.fill_tokens(1, [0], [0]),
        lambda: pool.verify_tokens(1, [0], [0]),
        lambda: pool.copy_blocks([(0, 1)]),
        lambda: pool.read_blocks([0]),
        lambda: pool.write_blocks([0], np.zeros((1, LAYOUT.block_bytes), np.uint8)),
    ]
    for call in calls:
        with pytest.raises(BackendError, match="closed"):
            call()
    with pytest.raises(PagedKVError):
        pool.tables.gather(array, array, table)
    with pytest.raises(PagedKVError):
        pool.tables.slots(array, array, array.long())
    assert pool.tables.address == 0


def test_two_pools_on_one_device_have_nothing_in_common(backend: CudaBackend) -> None:
    first, second = (DevicePool(LAYOUT, 32, device="cuda:0") for _ in range(2))
    assert abs(first.base - second.base) >= first.nbytes
    first.fill_blocks(range(32), range(32))
    second.fill_blocks(range(32), range(100, 132))
    first.apply(plan(1, copies=[(0, 1)], updates=[(0, 0, 5)]))
    second.apply(plan(1, copies=[(2, 3)], updates=[(0, 0, 6)]))
    assert first.verify_blocks(range(32), [0, 0, *range(2, 32)]) == 0
    assert second.verify_blocks(range(32), [100, 101, 102, 102, *range(104, 132)]) == 0
    assert first.tables.address != second.tables.address
    first.close()
    assert second.verify_blocks([31], 131) == 0
    second.apply(plan(2, copies=[(31, 0)]))
    assert second.verify_blocks([0], 131) == 0
    second.close()


def test_no_memory_is_left_after_a_thousand_pools(backend: CudaBackend) -> None:
    def cycle() -> None:
        with DevicePool(LAYOUT, 64, device="cuda:0") as pool:
            pool.fill_blocks([3], 9)
            pool.apply(plan(1, copies=[(3, 5)], updates=[(70, 0, 1)]))
            assert pool.verify_blocks([5], 9) == 0
            pool.step_done(1)

    for _ in range(20):
        cycle()
    before = free_bytes(backend)
    for _ in range(1000):
        cycle()
    assert before - free_bytes(backend) <= GRAIN


def test_dropped_pools_are_freed(backend: CudaBackend) -> None:
    before = free_bytes(backend)
    for _ in range(10):
        DevicePool(LAYOUT, 8192, device="cuda:0").fill_blocks([0], 1)  # 64 MiB, never closed
    assert before - free_bytes(backend) <= 2 * GRAIN
