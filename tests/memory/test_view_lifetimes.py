"""How long memory lives: until the pool is closed and the last view and tensor over it are gone, on any device."""

from __future__ import annotations

import gc
import mmap
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

from pagedkv import DevicePool, KVLayout
from pagedkv._core import dlpack_tensor
from pagedkv.backends.cuda_memory import CudaBuffer
from pagedkv.backends.host import HostBackend
from pagedkv.errors import BackendError, InvalidArgumentError

from .faulty_backend import FaultyBackend

LAYOUT = KVLayout(2, 2, 8, "float16", 4)


def memory_of(pool: DevicePool) -> weakref.ref[Any]:
    """Tells whether the pool's memory is still there: the array that owns the bytes."""
    array = pool.backend.host_view(pool._buffer)
    while array.base is not None:
        array = array.base
    return weakref.ref(array)


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "view": lambda view: view,
    "numpy": lambda view: view.numpy(),
    "slice": lambda view: view.numpy()[1:, 2],
    "dlpack": np.from_dlpack,
    "capsule": lambda view: view.__dlpack__(),
}


@pytest.mark.parametrize("how", ["close", "drop"])
@pytest.mark.parametrize("hold", HOLDERS)
def test_memory_lives_as_long_as_what_shows_it(hold: str, how: str) -> None:
    pool = DevicePool(LAYOUT, 3, device=HostBackend())
    there = memory_of(pool)
    pool.layer(0).k.numpy()[...] = 4
    held: Any = HOLDERS[hold](pool.layer(0).k)
    if how == "close":
        pool.close()
    del pool
    gc.collect()
    assert there() is not None
    if hold == "view":
        held = held.numpy()
    if hold != "capsule":
        held += 1
        assert (held == 5).all()
    del held
    gc.collect()
    assert there() is None


def test_memory_goes_with_the_pool_where_nobody_shows_it() -> None:
    pool = DevicePool(LAYOUT, 3, device="host")
    there = memory_of(pool)
    pool.layer(0)
    pool.close()
    gc.collect()
    assert there() is None


def test_adopted_memory_stays_with_its_views() -> None:
    memory = mmap.mmap(-1, LAYOUT.pool_bytes(3))  # refuses to close while anybody looks at it
    pool = DevicePool(LAYOUT, 3, device="host", memory=memory)
    held = pool.layer(0).k.numpy()
    pool.close()
    del pool
    gc.collect()
    with pytest.raises(BufferError):
        memory.close()
    held[...] = 1
    assert memory[:2] == np.float16(1).tobytes()
    del held
    gc.collect()
    memory.close()


class RecordingDriver:
    """The two driver calls that end a buffer's life, and what they freed; `lost`: like a driver after a failure."""

    ordinal = 3

    def __init__(self) -> None:
        self.freed: list[int] = []
        self.lost = False
        self.module = self

    def current(self) -> AbstractContextManager[None]:
        if self.lost:
            raise BackendError(name="CUDA_ERROR_LAUNCH_FAILED", text="lost", call="cuCtxGetCurrent")
        return nullcontext()

    def call(self, name: str, address: int) -> None:
        assert name == "cuMemFree"
        self.freed.append(address)

    def cuMemFree(self, address: int) -> None:  # noqa: N802 - the driver's name
        self.freed.append(address)


@pytest.fixture
def driver() -> Any:
    return RecordingDriver()


def tensor_over(buffer: CudaBuffer) -> Any:
    device, owner = buffer.share()
    assert device == (2, 3)
    return dlpack_tensor(owner, buffer.address, (16,), (1,), (1, 8), device)


def test_device_memory_is_freed_by_release_where_nobody_shows_it(driver: Any) -> None:
    buffer = CudaBuffer(driver, 4096, 16)
    tensor_over(buffer)
    buffer.release()
    assert driver.freed == [4096]
    del buffer
    gc.collect()
    assert driver.freed == [4096]


@pytest.mark.parametrize("how", ["release", "drop"])
def test_device_memory_is_freed_once_with_the_last_tensor(driver: Any, how: str) -> None:
    buffer = CudaBuffer(driver, 4096, 16)
    first, second = tensor_over(buffer), tensor_over(buffer)
    if how == "release":
        buffer.release()
        with pytest.raises(BackendError, match="freed"):
            buffer.share()
        with pytest.raises(InvalidArgumentError, match="already"):
            buffer.release()
    del buffer
    gc.collect()
    capsule = second.__dlpack__(max_version=(1, 0))
    del first, second
    gc.collect()
    assert driver.freed == []
    del capsule
    gc.collect()
    assert driver.freed == [4096]


def test_tensors_that_went_before_do_not_keep_a_buffer(driver: Any) -> None:
    buffer = CudaBuffer(driver, 4096, 16)
    first = tensor_over(buffer)
    del first
    second = tensor_over(buffer)
    buffer.release()
    assert driver.freed == []
    del second
    gc.collect()
    assert driver.freed == [4096]


def test_a_lost_device_is_quiet_when_the_last_tensor_goes(driver: Any) -> None:
    buffer = CudaBuffer(driver, 4096, 16)
    tensor = tensor_over(buffer)
    driver.lost = True
    buffer.release()
    del tensor, buffer
    gc.collect()
    assert driver.freed == []


def test_a_lost_device_is_heard_by_release(driver: Any) -> None:
    buffer = CudaBuffer(driver, 4096, 16)
    driver.lost = True
    with pytest.raises(BackendError, match="lost"):
        buffer.release()


def test_adopted_device_memory_is_never_freed_and_stays_with_its_tensors(driver: Any) -> None:
    class Owner:
        pass

    owner = Owner()
    gone = weakref.ref(owner)
    buffer = CudaBuffer(driver, 4096, 16, owner=owner)
    tensor = tensor_over(buffer)
    buffer.release()
    del owner, buffer
    gc.collect()
    assert gone() is not None
    del tensor
    gc.collect()
    assert gone() is None
    assert driver.freed == []


def test_a_consumers_stream_is_held_back_behind_the_pools() -> None:
    """What `__dlpack__` does on a GPU, on streams that can be stepped."""
    backend = HostBackend(stepped=True)
    with DevicePool(LAYOUT, 3, device=backend) as pool:
        consumer = backend.stream()
        pool.fill_blocks([0], 1)
        pool._hold_back(pool.stream)
        assert pool.stream.pending == 1, "the pool's own stream needs no event"  # type: ignore[attr-defined]
        pool._hold_back(consumer)
        consumer.enqueue(lambda: None)
        assert consumer.blocked
        pool.stream.synchronize()
        assert not consumer.blocked


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_stream_that_fails_to_wait_does_not_lose_the_pool(at: int) -> None:
    backend = FaultyBackend()
    pool = DevicePool(LAYOUT, 3, device=backend)
    consumer = backend.stream()
    backend.faults.fail_at = len(backend.faults.calls) + at
    with pytest.raises(BackendError, match="INJECTED_FAULT"):
        pool._hold_back(consumer)
    backend.faults.fail_at = 0
    assert pool.failure is None
    pool.fill_blocks([0], 1)
    assert pool.verify_blocks([0], 1) == 0
    pool.close()
    with pytest.raises(BackendError, match="POOL_CLOSED"):
        pool._hold_back(consumer)
