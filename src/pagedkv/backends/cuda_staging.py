"""Staging: how small arrays (pairs, updates, ids) reach the device without anybody waiting.

A slab is pinned host memory and device memory of the same size. `upload` packs arrays into the next free slab, copies
it with one asynchronous copy on the stream, and marks the slab with an event behind the kernels that read it: until
that event has passed, neither half is touched. Driver facts relied on: a copy from pinned memory returns before the
bytes are read, so reusing the host half earlier would upload the next step's content (three uploads in a row are a
test). While a stream is captured into a graph its slab is kept for good: each replay reads it again.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv.backends.cuda_driver import Driver
from pagedkv.backends.cuda_stream import CudaEvent, CudaStream

_ALIGNMENT = 256
_SMALLEST = 16 * 1024
# Of one size. Enough for the steps that an engine has in flight; beyond that we wait for the oldest rather than grow.
_MOST_SLABS = 64


class Slab:
    """One pinned piece of host memory and its device twin."""

    def __init__(self, driver: Driver, nbytes: int) -> None:
        self.nbytes = nbytes
        self.host_address = int(driver.call("cuMemHostAlloc", nbytes, 0))
        self.device_address = int(driver.call("cuMemAlloc", nbytes))
        self.host = np.frombuffer(memoryview((ctypes.c_uint8 * nbytes).from_address(self.host_address)), np.uint8)
        self.event = CudaEvent(driver)

    def release(self, driver: Driver) -> None:
        """Free both halves."""
        driver.module.cuMemFree(self.device_address)
        driver.module.cuMemFreeHost(self.host_address)


class Staging:
    """The slabs of one backend, in queues by size, oldest use first. Sizes are powers of two, so slabs are never freed
    for a larger one: cuMemFree would wait for the whole device in the middle of a step.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._slabs: defaultdict[int, deque[Slab]] = defaultdict(deque)
        self._kept: list[Slab] = []

    @contextmanager
    def uploaded(self, arrays: Sequence[npt.NDArray[Any]], stream: CudaStream) -> Iterator[list[int]]:
        """Put the arrays on the device with one copy on `stream`; the block puts on the kernels that read them.

        Gives their device addresses. The arrays are read before the block is entered. The device's context is current.
        """
        offsets, end = [], 0
        for array in arrays:
            offsets.append(end)
            end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        capturing = stream.capturing
        slab = self._captured_slab(end) if capturing else self._free_slab(end)
        for offset, array in zip(offsets, arrays, strict=True):
            slab.host[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)
        try:
            self._driver.call("cuMemcpyHtoDAsync", slab.device_address, slab.host_address, end, stream.handle)
            yield [slab.device_address + offset for offset in offsets]
            if capturing:
                self._kept.append(slab)
                return
            stream.record(slab.event)
        except BaseException:
            self._kept.append(slab)  # nobody knows what still reads it
            raise
        self._slabs[slab.nbytes].append(slab)

    def _free_slab(self, nbytes: int) -> Slab:
        size = _size(nbytes)
        queue = self._slabs[size]
        if queue and (queue[0].event.done or len(queue) >= _MOST_SLABS):
            slab = queue.popleft()
            slab.event.synchronize()
            return slab
        return Slab(self._driver, size)

    def _captured_slab(self, nbytes: int) -> Slab:
        # An event must not be asked from inside a capture, and allocation is forbidden to a capturing thread unless it
        # says that it knows what it does.
        modes = self._driver.module.CUstreamCaptureMode
        before = self._driver.call("cuThreadExchangeStreamCaptureMode", modes.CU_STREAM_CAPTURE_MODE_RELAXED)
        try:
            return Slab(self._driver, _size(nbytes))
        finally:
            self._driver.call("cuThreadExchangeStreamCaptureMode", before)

    def close(self) -> None:
        """Free all slabs; no work may be left."""
        for slab in (*self._kept, *(slab for queue in self._slabs.values() for slab in queue)):
            slab.release(self._driver)
        self._slabs.clear()
        self._kept.clear()


def _size(nbytes: int) -> int:
    return max(_SMALLEST, 1 << (nbytes - 1).bit_length())
