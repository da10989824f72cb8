"""Reading a DLPack capsule: where a tensor of any framework lies, what shape and type it has. No copy, no framework.

Structures as in the DLPack specification, version 0.x (`DLManagedTensor`), which every producer still offers when it is
not asked for a newer one. The capsule keeps the tensor alive, and frees nothing of it while nobody takes it over.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

_INTEGERS = {0: "int", 1: "uint", 2: "float"}  # type codes that NumPy has names for; others are opaque here
_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged


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
class TensorExtent:
    """A compact tensor: address, shape, bytes of an element, its type's name where NumPy has one."""

    address: int
    shape: tuple[int, ...]
    itemsize: int
    dtype: str
    strides: tuple[int, ...] | None  # in bytes; None: compact
    on_cuda: bool


def read_dlpack(tensor: Any) -> TensorExtent:
    """Describe what `tensor.__dlpack__` exports, on the stream it is on (no synchronization).

    Raises whatever the producer raises when it refuses.
    """
    # -1: we order the work ourselves, the producer shall not wait for anything.
    capsule = tensor.__dlpack__(stream=-1)
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    address = get_pointer(capsule, b"dltensor")
    view = _DLTensor.from_address(address)
    itemsize = (view.bits * view.lanes + 7) // 8
    shape = tuple(view.shape[i] for i in range(view.ndim))
    strides = tuple(view.strides[i] * itemsize for i in range(view.ndim)) if view.strides else None
    name = f"{_INTEGERS[view.code]}{view.bits}" if view.code in _INTEGERS and view.lanes == 1 else "opaque"
    return TensorExtent((view.data or 0) + view.byte_offset, shape, itemsize, name, strides, view.device_type in _CUDA)
