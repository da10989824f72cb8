"""Checked driver calls: every return code is looked at, and a bad one becomes a BackendError that names the call.

The driver is reached through `cuda.bindings.driver`, handed in by `backends/cuda.py` so that nothing is imported
before somebody opens a GPU. Calls run in the device's primary context, the one that PyTorch, CuPy and the runtime
API share; the thread's own current context is put back afterwards.
Facts relied on (CUDA driver API reference): a failed kernel makes its context's later calls fail too ("sticky"), so
the pool above is lost then; a context is current per thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from pagedkv.errors import BackendError

_ALREADY: AbstractContextManager[None] = nullcontext()


def driver_error(module: Any, code: Any, call: str, advice: str = "") -> BackendError:
    """The BackendError of a return code: the driver's name and text of it, and what to do."""
    _, name = module.cuGetErrorName(code)
    _, text = module.cuGetErrorString(code)
    words = (text or b"unknown error").decode() + advice
    return BackendError(name=(name or b"CUDA_ERROR").decode(), text=words, call=call)


class Driver:
    """The driver API of one device."""

    def __init__(self, module: Any, ordinal: int) -> None:
        self.module = module
        self.ordinal = ordinal
        self._success = module.CUresult.CUDA_SUCCESS
        self.call("cuInit", 0)
        self.device = self.call("cuDeviceGet", ordinal)
        self.context = self.call("cuDevicePrimaryCtxRetain", self.device)
        self._context_id = int(self.context)
        # Streams and events that nobody holds any more, for the next who needs one. A destroyed stream keeps half a MiB
        # of its context for good (measured with driver 580), and making an event costs more than recording one.
        self.spare_streams: list[int] = []
        self.spare_events: list[Any] = []

    def call(self, function: str, *arguments: Any) -> Any:
        """Call a driver function; its results without the return code (one value, a tuple, or None).

        Raises BackendError with the driver's name and text of the error.
        """
        code, *results = getattr(self.module, function)(*arguments)
        if code != self._success:
            raise driver_error(self.module, code, function)
        return results[0] if len(results) == 1 else tuple(results) or None

    def current(self) -> AbstractContextManager[None]:
        """Run the block in this device's primary context, whatever the thread has current."""
        if int(self.call("cuCtxGetCurrent")) == self._context_id:
            return _ALREADY
        return self._pushed()

    @contextmanager
    def _pushed(self) -> Iterator[None]:
        self.call("cuCtxPushCurrent", self.context)
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent")

    def attribute(self, name: str) -> int:
        """One device attribute, by the part of its name after CU_DEVICE_ATTRIBUTE_."""
        kind = getattr(self.module.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.call("cuDeviceGetAttribute", kind, self.device))

    @property
    def compute_capability(self) -> tuple[int, int]:
        """(major, minor)."""
        return self.attribute("COMPUTE_CAPABILITY_MAJOR"), self.attribute("COMPUTE_CAPABILITY_MINOR")

    def release(self) -> None:
        """Give back the primary context; the device's memory must have been freed."""
        self.call("cuDevicePrimaryCtxRelease", self.device)
