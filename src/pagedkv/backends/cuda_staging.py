"""Staging: how small arrays (pairs, updates, ids) reach the device without anybody waiting.

A slab is pinned host memory and device memory of the same size. `upload` packs arrays into the next free slab, copies
it with one asynchronous copy on the stream, and marks the slab with an event behind the kernels that read it: until
that event has passed, neither half is touched. Driver facts relied on: a copy from pinned memory returns before the
bytes are read, so reusing the host half earlier would upload the next step's content (three uploads in a row are a
test). While a stream is captured into a graph its slab is kept for good: each replay reads it again.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv.backends.cuda_driver import Driver
from pagedkv.backends.cuda_stream import CudaEvent, CudaStream

_ALIGNMENT = 256
_SMALLEST = 16 * 1024
# Enough for the steps that an engine has in flight; beyond that we wait for the oldest rather than grow for ever.
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
    """The slabs of one backend, oldest use first."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._slabs: deque[Slab] = deque()
        self._captured: list[Slab] = []

    def upload(self, arrays: Sequence[npt.NDArray[Any]], stream: CudaStream) -> tuple[Slab, list[int]]:
        """Put the arrays on the device with one copy on `stream`; their device addresses.

        The arrays are read before the call returns. Call `done` once the kernels that read them are put on.
        """
        offsets, end = [], 0
        for array in arrays:
            offsets.append(end)
            end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        with self._relaxed(stream):
            slab = self._take(max(end, 1), stream)
        for offset, array in zip(offsets, arrays, strict=True):
            slab.host[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)
        self._driver.call("cuMemcpyHtoDAsync", slab.device_address, slab.host_address, max(end, 1), stream.handle)
        return slab, [slab.device_address + offset for offset in offsets]

    def done(self, slab: Slab, stream: CudaStream) -> None:
        """The kernels that read the slab are on `stream`: it is free again once they have passed."""
        if stream.capturing:
            self._captured.append(slab)
            return
        stream.record(slab.event)
        self._slabs.append(slab)

    def _take(self, nbytes: int, stream: CudaStream) -> Slab:
        # An event must not be queried or waited for from inside a capture of its own stream: take new memory there.
        if not stream.capturing and self._slabs:
            oldest = self._slabs[0]
            if oldest.event.done or len(self._slabs) >= _MOST_SLABS:
                oldest.event.synchronize()
                self._slabs.popleft()
                if oldest.nbytes >= nbytes:
                    return oldest
                oldest.release(self._driver)
        return Slab(self._driver, max(_SMALLEST, 1 << (nbytes - 1).bit_length()))

    @contextmanager
    def _relaxed(self, stream: CudaStream) -> Iterator[None]:
        """Allocation is forbidden to a capturing thread unless it says that it knows what it does."""
        if not stream.capturing:
            yield
            return
        modes = self._driver.module.CUstreamCaptureMode
        before = self._driver.call("cuThreadExchangeStreamCaptureMode", modes.CU_STREAM_CAPTURE_MODE_RELAXED)
        try:
            yield
        finally:
            self._driver.call("cuThreadExchangeStreamCaptureMode", before)

    def close(self) -> None:
        """Free all slabs; no work may be left."""
        for slab in (*self._slabs, *self._captured):
            slab.release(self._driver)
        self._slabs.clear()
        self._captured.clear()
