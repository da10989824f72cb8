"""Launching compiled kernels with little host time: arguments are written into memory that the driver reads.

`cuLaunchKernel` takes an array of pointers to arguments and copies what they point to before it returns, so one set of
storage a kernel is enough; a lock keeps two threads from writing it at once.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv.backends.cuda_driver import Driver
from pagedkv.backends.cuda_stream import CudaStream
from pagedkv.kernels.loader import compile_kernel

POINTER = ctypes.c_uint64
U64 = ctypes.c_uint64
U32 = ctypes.c_uint32
I32 = ctypes.c_int32

Grid = tuple[int, int, int]


class LoadedKernel:
    """One kernel of one module, ready to launch."""

    def __init__(self, driver: Driver, function: Any, types: Sequence[Any]) -> None:
        self._driver = driver
        self._function = function
        self._values = [kind() for kind in types]
        self._pointers = (ctypes.c_void_p * len(types))(*(ctypes.addressof(value) for value in self._values))
        self._address = ctypes.addressof(self._pointers)
        self._lock = threading.Lock()

    def launch(
        self, grid: Grid, threads: int, stream: CudaStream, *arguments: float | npt.NDArray[Any], shared: int = 0
    ) -> None:
        """Put the kernel on `stream`. `arguments` match the types given at loading; shared: bytes, see reserve."""
        with self._lock:
            self._write(arguments)
            self._driver.call(
                "cuLaunchKernel", self._function, *grid, threads, 1, 1, shared, stream.handle, self._address, 0
            )

    def launch_early(
        self, grid: Grid, threads: int, stream: CudaStream, *arguments: float | npt.NDArray[Any], shared: int = 0
    ) -> None:
        """`launch`, while what the stream has before still runs: for kernels that wait for it themselves.

        For compute capability 9.0 and later (programmatic stream serialization in the CUDA programming guide).
        """
        with self._lock:
            self._write(arguments)
            config = self._early
            config.gridDimX, config.gridDimY, config.gridDimZ = grid
            config.blockDimX, config.sharedMemBytes = threads, shared
            config.hStream = stream.handle
            self._driver.call("cuLaunchKernelEx", config, self._function, self._address, 0)

    @cached_property
    def _early(self) -> Any:
        module = self._driver.module
        attribute = module.CUlaunchAttribute()
        attribute.id = module.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        config = module.CUlaunchConfig()
        config.blockDimY = config.blockDimZ = 1
        config.attrs, config.numAttrs = [attribute], 1
        return config

    def _write(self, arguments: Sequence[float | npt.NDArray[Any]]) -> None:
        for value, argument in zip(self._values, arguments, strict=True):
            if isinstance(argument, np.ndarray):  # an argument that is an array of its own, or the start of one
                ctypes.memmove(value, argument.ctypes.data, argument.nbytes)
            else:
                value.value = argument

    def reserve(self, shared: int) -> None:
        """Allow launches with so many bytes of dynamic shared memory: without leave a kernel gets 48 KiB."""
        kind = self._driver.module.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._driver.call("cuFuncSetAttribute", self._function, kind, shared)


class KernelStore:
    """The kernels of one device, compiled and loaded at first use."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.arch = "sm_{}{}".format(*driver.compute_capability)
        self._loaded: dict[tuple[str, tuple[tuple[str, int], ...]], LoadedKernel] = {}
        self._modules: list[Any] = []

    def get(self, name: str, types: Sequence[Any], **macros: int) -> LoadedKernel:
        """The kernel `name` of `name`.cu, specialized by macros."""
        key = (name, tuple(macros.items()))
        if (kernel := self._loaded.get(key)) is None:
            function = self._load(name, compile_kernel(name, self.arch, macros))
            kernel = self._loaded[key] = LoadedKernel(self._driver, function, types)
        return kernel

    def _load(self, name: str, cubin: bytes) -> Any:
        # A thread whose stream is captured may not load, unless it says that it knows what it does.
        relaxed = self._driver.module.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        before = self._driver.call("cuThreadExchangeStreamCaptureMode", relaxed)
        try:
            module = self._driver.call("cuModuleLoadData", cubin)
            self._modules.append(module)
            return self._driver.call("cuModuleGetFunction", module, name.encode())
        finally:
            self._driver.call("cuThreadExchangeStreamCaptureMode", before)

    def close(self) -> None:
        """Unload all modules."""
        for module in self._modules:
            self._driver.module.cuModuleUnload(module)
        self._modules.clear()
        self._loaded.clear()
