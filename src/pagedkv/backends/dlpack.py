"""Reading a DLPack capsule: where a tensor of any framework lies, what shape and type it has. No copy, no framework.

Structures as in the DLPack specification, version 0.x (`DLManagedTensor`), which every producer still offers when it is
not asked for a newer one. The capsule keeps the tensor alive, and frees nothing of it while nobody takes it over.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Any

from pagedkv.dtypes import DTYPES

_INTEGERS = {0: "int", 1: "uint", 2: "float"}  # type codes that NumPy has names for
_FORMATS = {(kind.code, kind.bits): kind.name for kind in DTYPES.values()}
_CPU = (1, 3)  # kDLCPU, kDLCUDAHost: pinned memory is the host's
_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged
# What producers raise that will not export: the specification names BufferError only.
REFUSALS = (AttributeError, BufferError, RuntimeError, TypeError, ValueError)


# DLTensor: data, device type and id, ndim, dtype (code, bits, lanes), addresses of shape and strides, byte offset. Read
# as bytes: ctypes' own structures would cost as much again as the whole rest of a call.
_TENSOR = struct.Struct("=QiiiBBHQQQ")
_POINTER = ctypes.pythonapi.PyCapsule_GetPointer
_POINTER.restype = ctypes.c_void_p
_POINTER.argtypes = (ctypes.py_object, ctypes.c_char_p)


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
CUDA = _CUDA[0]


@dataclass(frozen=True, slots=True)
class TensorExtent:
    """A tensor in place; dtype as dtypes.DTYPES or NumPy names it, or "opaque"."""

    address: int
    shape: tuple[int, ...]
    itemsize: int
    dtype: str
    strides: tuple[int, ...] | None  # in bytes; None: compact
    device: Device


def dlpack_device(tensor: Any) -> Device | None:
    """The device that `tensor` says it is on; None where it does not say. Asks for no capsule."""
    try:
        kind, ordinal = tensor.__dlpack_device__()
    except REFUSALS:
        return None
    return Device(int(kind), int(ordinal))


def read_dlpack(tensor: Any, device: Device | None = None) -> TensorExtent:
    """Describe what `tensor.__dlpack__` exports, on the stream it is on (no synchronization).

    device: what `dlpack_device` said, where that was asked before. Raises whatever the producer raises when it refuses.
    """
    if device is None:
        device = dlpack_device(tensor)
    # -1: we order the work ourselves, the producer shall not wait for anything. Producers on the host know no streams.
    capsule = tensor.__dlpack__() if device is not None and device.on_host else tensor.__dlpack__(stream=-1)
    fields = _TENSOR.unpack(ctypes.string_at(_POINTER(capsule, b"dltensor"), _TENSOR.size))
    data, kind, ordinal, ndim, code, bits, lanes, shape, strides, offset = fields
    itemsize = (bits * lanes + 7) // 8
    steps = tuple(step * itemsize for step in _numbers(strides, ndim)) if strides else None
    where = Device(kind, ordinal)
    return TensorExtent(data + offset, _numbers(shape, ndim), itemsize, _type_name(code, bits, lanes), steps, where)


def _numbers(address: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"={count}q", ctypes.string_at(address, 8 * count)) if count else ()


def _type_name(code: int, bits: int, lanes: int) -> str:
    if lanes != 1:
        return "opaque"
    if (found := _FORMATS.get((code, bits))) is not None:
        return found
    return f"{_INTEGERS[code]}{bits}" if code in _INTEGERS else "opaque"
