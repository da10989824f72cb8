"""The CUDA backend: an NVIDIA GPU behind the same protocol as the host. See `pagedkv.backends.Backend`.

`cuda.bindings` is imported here, when the first GPU is opened. Streams are ours or the engine's; kernels are compiled
at run time (`pagedkv.kernels.loader`). One backend a device and process is shared by its pools, because a context's
failure is everybody's.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv.backends import MemoryInfo, cuda_memory
from pagedkv.backends.cuda_driver import Driver, driver_error
from pagedkv.backends.cuda_kernels import CudaKernels
from pagedkv.backends.cuda_memory import CudaBuffer, own_buffer
from pagedkv.backends.cuda_stream import CudaEvent, CudaStream, as_stream
from pagedkv.backends.device_array import DeviceArray
from pagedkv.backends.strided import Wanted
from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.kernels import StridedPlace
from pagedkv.streams import Buffer, Stream

_OLDEST_MAJOR = 5
_backends: dict[int, CudaBackend] = {}
_lock = threading.Lock()


def open_cuda(ordinal: int = 0) -> CudaBackend:
    """The backend of GPU `ordinal`. Raises BackendError with what is missing and how to mend it."""
    with _lock:
        if ordinal not in _backends:
            _backends[ordinal] = CudaBackend(ordinal)
        return _backends[ordinal]


def cuda_available() -> bool:
    """Whether a GPU can be opened here: the two errors that mean "no GPU" give False, others are raised."""
    try:
        return device_count() > 0
    except BackendError as error:
        if error.name in ("NO_BINDINGS", "NO_DRIVER", "CUDA_ERROR_NO_DEVICE"):
            return False
        raise


def device_count() -> int:
    """GPUs that this process may use."""
    module = load_driver()
    _check(module, module.cuInit(0)[0], "cuInit")
    code, count = module.cuDeviceGetCount()
    _check(module, code, "cuDeviceGetCount")
    return int(count)


def load_driver(asked: str = "a GPU") -> Any:
    """The module `cuda.bindings.driver`. Raises BackendError when it or the driver library is not there."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise BackendError(
            name="NO_BINDINGS",
            text=f"{asked} was asked for; cuda-bindings is not usable ({error}); pip install 'pagedkv[cuda]'",
            call="import cuda.bindings.driver",
        ) from None
    try:
        driver.cuDriverGetVersion()
    except RuntimeError as error:  # cuda.bindings raises it when the driver library cannot be loaded
        raise BackendError(
            name="NO_DRIVER",
            text=f"{asked} was asked for; no NVIDIA driver library ({error}); install the driver, or use device='host'",
            call="cuDriverGetVersion",
        ) from None
    return driver


def _check(module: Any, code: Any, call: str) -> None:
    if code != module.CUresult.CUDA_SUCCESS:
        raise driver_error(module, code, call, "; run 'pagedkv doctor', or use device='host'")


class CudaBackend:
    """One GPU. Made by `open_cuda`."""

    name = "cuda"
    alignment = cuda_memory.ALIGNMENT
    has_bytes = True

    def __init__(self, ordinal: int) -> None:
        load_driver(f"device 'cuda:{ordinal}'")
        count = device_count()
        if not 0 <= ordinal < count:
            raise BackendError(
                name="NO_SUCH_DEVICE",
                text=f"GPU {ordinal} was asked for, {count} are visible; look at CUDA_VISIBLE_DEVICES",
                call="open_cuda",
            )
        self._driver = Driver(load_driver(), ordinal)
        major, minor = self.compute_capability
        if major < _OLDEST_MAJOR:
            raise BackendError(
                name="TOO_OLD",
                text=f"GPU {ordinal} has compute capability {major}.{minor}; 5.0 is the oldest that works",
                call="open_cuda",
            )
        with self._driver.current():
            self._device_name = _text(self._driver.call("cuDeviceGetName", 256, self._driver.device))
        self.kernels = CudaKernels(self._driver)

    @property
    def ordinal(self) -> int:
        """The GPU's number."""
        return self._driver.ordinal

    @property
    def device_name(self) -> str:
        return self._device_name

    @property
    def compute_capability(self) -> tuple[int, int]:
        """(major, minor)."""
        return self._driver.compute_capability

    def allocate(self, nbytes: int) -> CudaBuffer:
        return cuda_memory.allocate(self._driver, nbytes)

    def adopt(self, memory: object) -> CudaBuffer:
        return cuda_memory.adopt(self._driver, memory)

    def free(self, buffer: Buffer) -> None:
        own_buffer(buffer).release()

    def stream(self) -> CudaStream:
        return CudaStream(self._driver)

    def as_stream(self, stream: object) -> CudaStream:
        return as_stream(self._driver, stream)

    def as_array(self, value: object, name: str, dtypes: tuple[str, ...], ndim: int) -> DeviceArray:
        return cuda_memory.device_array(value, name, dtypes, ndim)

    def as_strided(
        self, value: object, name: str, dtypes: tuple[str, ...], ndim: int, *, writable: bool = False
    ) -> StridedPlace:
        return cuda_memory.strided_array(self._driver, value, Wanted(name, dtypes, ndim, writable))

    def event(self) -> CudaEvent:
        return CudaEvent(self._driver)

    def upload(self, buffer: Buffer, offset: int, data: npt.NDArray[np.uint8], stream: Stream) -> None:
        # From pageable memory the driver has read `data` when the call returns (it stages it).
        target = own_buffer(buffer).address + offset
        with self._driver.current():
            self._driver.call("cuMemcpyHtoDAsync", target, data.ctypes.data, data.nbytes, self.as_stream(stream).handle)

    def download(self, buffer: Buffer, offset: int, out: npt.NDArray[np.uint8], stream: Stream) -> None:
        source = own_buffer(buffer).address + offset
        with self._driver.current():
            self._driver.call("cuMemcpyDtoHAsync", out.ctypes.data, source, out.nbytes, self.as_stream(stream).handle)

    def host_view(self, buffer: Buffer) -> npt.NDArray[np.uint8]:
        raise InvalidArgumentError("the host cannot address device memory; use read_blocks, or your framework's view")

    def memory_info(self) -> MemoryInfo | None:
        return cuda_memory.memory_info(self._driver)


def _text(raw: bytes) -> str:
    return raw.split(b"\0")[0].decode()
