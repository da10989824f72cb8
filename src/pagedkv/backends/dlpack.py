"""Reading a DLPack capsule: where a tensor of any framework lies, what shape and type it has. No copy, no framework.

Structures as in the DLPack specification, version 0.x (`DLManagedTensor`), which every producer still offers when it is
not asked for a newer one. The capsule keeps the tensor alive, and frees nothing of it while nobody takes it over.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from pagedkv.dtypes import DTYPES

_INTEGERS = {0: "int", 1: "uint", 2: "float"}  # type codes that NumPy has names for
_FORMATS = {(kind.code, kind.bits): kind.name for kind in DTYPES.values()}
_CPU = (1, 3)  # kDLCPU, kDLCUDAHost: pinned memory is the host's
_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged
# What producers raise that will not export: the specification names BufferError only.
REFUSALS = (AttributeError, BufferError, RuntimeError, TypeError, ValueError)


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class Device:
    """A device in DLPack's numbers: its type and which one of that type."""

    kind: int
    ordinal: int = 0

    @property
    def on_cuda(self) -> bool:
        """Whether it is a GPU of CUDA's, or memory that it shares with the host."""
        return self.kind in _CUDA

    @property
    def on_host(self) -> bool:
        """Whether it is main memory."""
        return self.kind in _CPU

    def __str__(self) -> str:
        return f"cuda:{self.ordinal}" if self.on_cuda else "the host" if self.on_host else f"DLPack device {self.kind}"


HOST = Device(_CPU[0])


@dataclass(frozen=True, slots=True)
class TensorExtent:
    """A tensor in place; dtype as dtypes.DTYPES or NumPy names it, or "opaque"."""

    address: int
    shape: tuple[int, ...]
    itemsize: int
    dtype: str
    strides: tuple[int, ...] | None  # in bytes; None: compact
    device: Device

    @property
    def on_cuda(self) -> bool:
        """Whether it is on a GPU."""
        return self.device.on_cuda


def dlpack_device(tensor: Any) -> Device | None:
    """The device that `tensor` says it is on; None where it does not say. Asks for no capsule."""
    try:
        kind, ordinal = tensor.__dlpack_device__()
    except REFUSALS:
        return None
    return Device(int(kind), int(ordinal))


def read_dlpack(tensor: Any) -> TensorExtent:
    """Describe what `tensor.__dlpack__` exports, on the stream it is on (no synchronization).

    Raises whatever the producer raises when it refuses.
    """
    device = dlpack_device(tensor)
    # -1: we order the work ourselves, the producer shall not wait for anything. Producers on the host know no streams.
    capsule = tensor.__dlpack__() if device is not None and device.on_host else tensor.__dlpack__(stream=-1)
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    view = _DLTensor.from_address(get_pointer(capsule, b"dltensor"))
    itemsize = (view.bits * view.lanes + 7) // 8
    shape = tuple(view.shape[i] for i in range(view.ndim))
    strides = tuple(view.strides[i] * itemsize for i in range(view.ndim)) if view.strides else None
    where = Device(view.device_type, view.device_id)
    return TensorExtent((view.data or 0) + view.byte_offset, shape, itemsize, _type_name(view), strides, where)


def _type_name(view: _DLTensor) -> str:
    if view.lanes != 1:
        return "opaque"
    if (found := _FORMATS.get((view.code, view.bits))) is not None:
        return found
    return f"{_INTEGERS[view.code]}{view.bits}" if view.code in _INTEGERS else "opaque"
