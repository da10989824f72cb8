"""Device memory as buffers: allocated here, or an engine's own memory adopted in place.

Driver facts relied on: cuMemAlloc aligns to at least 256 bytes; cuMemFree waits for the whole device, so it is called
only when a pool closes, or later, with the last tensor over it; cuPointerGetAttribute tells whose device a pointer is
on.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

from pagedkv.arguments import whole_number
from pagedkv.backends import MemoryInfo
from pagedkv.backends.cuda_driver import Driver
from pagedkv.backends.device_array import DeviceArray, check_array
from pagedkv.backends.dlpack import REFUSALS, Device, TensorExtent, dlpack_device, read_dlpack
from pagedkv.backends.strided import Wanted, exported, strided_place
from pagedkv.backends.torch_tensor import torch_extent
from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.kernels import StridedPlace
from pagedkv.streams import Buffer

ALIGNMENT = 256
ADOPTED_ALIGNMENT = 16
_DLPACK_CUDA = 2
_CUDA = Device(2)


class _Allocation:
    """Memory of our own: freed by `free`, else when nobody holds it any more, and at interpreter exit."""

    def __init__(self, driver: Driver, address: int) -> None:
        self._driver, self._address = driver, address
        self._finalizer = weakref.finalize(self, _free, driver, address)

    def free(self) -> None:
        """Free it now, once; raises BackendError if the driver refuses."""
        if self._finalizer.detach() is not None:
            with self._driver.current():
                self._driver.call("cuMemFree", self._address)


class _Lease:
    """What tensors over a buffer hold. It stands between them and the memory, so that the buffer can tell whether
    anybody is left.
    """

    __slots__ = ("__weakref__", "_memory")

    def __init__(self, memory: object) -> None:
        self._memory = memory


class CudaBuffer:
    """A piece of device memory. `owner` keeps adopted memory alive; memory of our own is freed by `release`, or, where
    tensors over it are left, with the last of them.
    """

    def __init__(self, driver: Driver, address: int, nbytes: int, *, owner: object = None) -> None:
        self._driver = driver
        self._address, self._nbytes = address, nbytes
        self._memory: object = _Allocation(driver, address) if owner is None else owner
        self._lease: weakref.ref[_Lease] | None = None

    @property
    def address(self) -> int:
        return self._address

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def share(self) -> tuple[tuple[int, int], _Lease]:
        """See `pagedkv.streams.SharedBuffer`. Raises BackendError once the buffer is freed."""
        if self._memory is None:
            raise BackendError(name="USE_AFTER_FREE", text="this device memory has been freed", call="CudaBuffer.share")
        lease = self._lease() if self._lease is not None else None
        if lease is None:
            lease = _Lease(self._memory)
            self._lease = weakref.ref(lease)
        return (_DLPACK_CUDA, self._driver.ordinal), lease

    def release(self) -> None:
        """Free memory of our own unless tensors over it are left, let go of adopted memory. Raises InvalidArgumentError
        the second time.
        """
        if self._memory is None:
            raise InvalidArgumentError("this buffer has been freed already; free each buffer once")
        memory, self._memory = self._memory, None
        shared = self._lease is not None and self._lease() is not None
        if isinstance(memory, _Allocation) and not shared:
            memory.free()


def _free(driver: Driver, address: int) -> None:
    # Nobody is there to hear of a failure: after a lost device the driver refuses, and the memory is gone with it.
    with suppress(BackendError), driver.current():
        driver.module.cuMemFree(address)


def own_buffer(buffer: Buffer) -> CudaBuffer:
    """The CudaBuffer that it must be. Raises InvalidArgumentError for another backend's."""
    if not isinstance(buffer, CudaBuffer):
        raise InvalidArgumentError(f"{type(buffer).__name__} is no buffer of the CUDA backend")
    return buffer


def memory_info(driver: Driver) -> MemoryInfo:
    """Free and total bytes of the device."""
    with driver.current():
        free, total = driver.call("cuMemGetInfo")
    return MemoryInfo(free=int(free), total=int(total))


def allocate(driver: Driver, nbytes: int) -> CudaBuffer:
    """One allocation. Raises BackendError that says how much was asked, how much is free, what to try."""
    size = whole_number(nbytes, "nbytes", minimum=1)
    try:
        with driver.current():
            return CudaBuffer(driver, int(driver.call("cuMemAlloc", size)), size)
    except BackendError as error:
        if error.name != "CUDA_ERROR_OUT_OF_MEMORY":
            raise
    memory = memory_info(driver)
    raise BackendError(
        name="OUT_OF_MEMORY",
        text=(
            f"{nbytes} bytes were asked for, {memory.free} of {memory.total} bytes are free on GPU {driver.ordinal}; "
            "ask for a smaller pool, use DevicePool.fit, or free what other programs hold"
        ),
        call="cuMemAlloc",
    )


def adopt(driver: Driver, memory: object) -> CudaBuffer:
    """The caller's memory in place: (address, bytes), `__cuda_array_interface__`, or DLPack.

    Raises InvalidArgumentError for what is not writable, contiguous device memory of this device.
    """
    address, nbytes = _extent(memory)
    if nbytes < 1 or address % ADOPTED_ALIGNMENT:
        raise InvalidArgumentError(
            f"memory= is {nbytes} bytes at {address:#x}; give a multiple of {ADOPTED_ALIGNMENT} and at least 1 byte"
        )
    if _ordinal(driver, address) != driver.ordinal:
        raise InvalidArgumentError(f"memory= at {address:#x} is not memory of GPU {driver.ordinal}")
    return CudaBuffer(driver, address, nbytes, owner=memory)


def device_array(value: object, name: str, dtypes: tuple[str, ...], ndim: int) -> DeviceArray:
    """The caller's device array in place. Raises InvalidArgumentError unless compact and of one of `dtypes`."""
    extent = _describe(value, name)
    check_array(name, extent.dtype, len(extent.shape), dtypes, ndim)
    return DeviceArray(extent.address, extent.shape, extent.itemsize, None)


def strided_array(driver: Driver, value: object, wanted: Wanted) -> StridedPlace:
    """The caller's device tensor in place, with its strides. Raises InvalidArgumentError, naming the argument."""
    if (known := torch_extent(value)) is not None and known.device.on_cuda:
        _check_ordinal(driver, known.device.ordinal, wanted.name)
        return strided_place(known, wanted)
    where = dlpack_device(value)
    if where is None and hasattr(value, "__cuda_array_interface__"):
        given = _from_interface(value, wanted.name, writable=wanted.writable)
    elif where is not None and where.on_cuda:
        # DLPack first: it has names for bfloat16 and the 8-bit floats. Some producers hand out what is on the current
        # device only.
        _check_ordinal(driver, where.ordinal, wanted.name)
        with driver.current():
            given = exported(value, wanted.name, where)
    else:
        given = None
    if given is None:
        found = f"on {where}" if where else f"a {type(value).__name__}"
        raise InvalidArgumentError(
            f"{wanted.name} is {found}, the pool is on cuda:{driver.ordinal}; give a tensor of that GPU"
        )
    if given.address and prod(given.shape):
        _check_ordinal(driver, _ordinal(driver, given.address), wanted.name)
    return strided_place(given, wanted)


def _extent(memory: object) -> tuple[int, int]:
    if isinstance(memory, tuple):
        if len(memory) == 2 and all(isinstance(part, int) and not isinstance(part, bool) for part in memory):
            return memory
        raise InvalidArgumentError("memory= as a tuple is (address, bytes), two integers")
    extent = _describe(memory, "memory=")
    return extent.address, prod(extent.shape) * extent.itemsize


def _describe(value: object, name: str) -> TensorExtent:
    """A writable, compact device array."""
    extent = _from_interface(value, name) or _from_dlpack(value, name)
    compact = tuple(extent.itemsize * prod(extent.shape[i + 1 :]) for i in range(len(extent.shape)))
    if extent.strides is not None and extent.strides != compact and prod(extent.shape) > 0:
        raise InvalidArgumentError(
            f"{name} has shape {extent.shape}, strides {extent.strides}; give a contiguous array"
        )
    return extent


def _check_ordinal(driver: Driver, ordinal: int | None, name: str) -> None:
    if ordinal != driver.ordinal:
        where = "not device memory" if ordinal is None else f"on cuda:{ordinal}"
        raise InvalidArgumentError(
            f"mixed devices: {name} is {where}, the pool is on cuda:{driver.ordinal}; give a tensor of that GPU"
        )


def _ordinal(driver: Driver, address: int) -> int | None:
    """The GPU that an address belongs to; None for memory that CUDA does not know."""
    attribute = driver.module.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    with driver.current():
        code, ordinal = driver.module.cuPointerGetAttribute(attribute, address)
    return int(ordinal) if code == driver.module.CUresult.CUDA_SUCCESS else None


def _from_interface(value: object, name: str, *, writable: bool = True) -> TensorExtent | None:
    try:
        interface: dict[str, Any] | None = getattr(value, "__cuda_array_interface__", None)
    except (AttributeError, KeyError, TypeError, RuntimeError):
        return None  # PyTorch offers it and then refuses, for 8-bit floats among others; DLPack knows those
    if interface is None:
        return None
    address, read_only = interface["data"]
    if read_only and writable:
        raise InvalidArgumentError(f"{name} is read-only; give a writable device array")
    dtype = np.dtype(interface["typestr"])
    strides = interface.get("strides")
    shape = tuple(interface["shape"])
    steps = None if strides is None else tuple(strides)
    return TensorExtent(int(address), shape, dtype.itemsize, dtype.name, steps, _CUDA)


def _from_dlpack(value: object, name: str) -> TensorExtent:
    if not hasattr(value, "__dlpack__"):
        raise InvalidArgumentError(
            f"{name} is a {type(value).__name__}; give a device array with __cuda_array_interface__ or DLPack"
        )
    try:
        extent = read_dlpack(value)
    except REFUSALS as error:
        raise InvalidArgumentError(f"{name} offers DLPack but refuses it: {error}") from None
    if not extent.device.on_cuda:
        raise InvalidArgumentError(f"{name} is not on a CUDA device; give device memory")
    return extent
