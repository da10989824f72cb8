"""A caller's tensor with any strides, in place: what every backend demands of it, and how the host reads it.

Kernels step through tokens and heads by stride and through an element's row by 1; a tensor that is cut out of a larger
one (a fused QKV projection, a graph's static buffer) is taken without a copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from pagedkv.backends.dlpack import HOST, REFUSALS, Device, TensorExtent, dlpack_device, read_dlpack
from pagedkv.backends.torch_tensor import torch_extent
from pagedkv.dtypes import DTYPES
from pagedkv.errors import InvalidArgumentError
from pagedkv.kernels import StridedPlace


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an argument must be: its name in messages, the formats allowed, its dimensions, whether it is written."""

    name: str
    dtypes: tuple[str, ...]
    ndim: int
    writable: bool = False


def exported(value: object, name: str, where: Device | None) -> TensorExtent:
    """What a tensor exports through DLPack from the device that it says it is on.

    Raises InvalidArgumentError where it offers nothing, or refuses.
    """
    if not hasattr(value, "__dlpack__"):
        raise InvalidArgumentError(
            f"{name} is a {type(value).__name__}; give a tensor of a framework, on the host also of NumPy"
        )
    try:
        return read_dlpack(value, where)
    except REFUSALS as error:
        found = f"{name} is a {type(value).__name__} on {where or 'no known device'}"
        raise InvalidArgumentError(f"{found}; it offers DLPack but refuses it: {error}") from None


def strided_place(extent: TensorExtent, wanted: Wanted, array: Any = None) -> StridedPlace:
    """The place of a tensor whose device has been checked. Raises InvalidArgumentError, naming the argument."""
    dtype = _format(extent.dtype, wanted.dtypes)
    if dtype is None or len(extent.shape) != wanted.ndim:
        raise InvalidArgumentError(
            f"{describe(extent, wanted.name)}; give {' or '.join(wanted.dtypes)} with {wanted.ndim} dimensions"
        )
    steps = _steps(extent, wanted)
    return StridedPlace(extent.address, extent.shape, steps, dtype, array)


def describe(extent: TensorExtent, name: str) -> str:
    """An argument in words: its type, shape, strides in bytes and device."""
    strides = "compact" if extent.strides is None else f"strides {extent.strides} bytes"
    return f"{name} is {extent.dtype} of shape {extent.shape}, {strides}, on {extent.device}"


def host_strided(value: object, wanted: Wanted) -> StridedPlace:
    """A tensor in main memory, with the NumPy view of it. Raises InvalidArgumentError for anything else."""
    if isinstance(value, np.ndarray):
        array = np.asarray(value)
        name = array.dtype.name if array.dtype.isnative else f"{array.dtype.str} (not in this machine's byte order)"
        extent = TensorExtent(array.ctypes.data, array.shape, array.itemsize, name, array.strides, HOST)
        if wanted.writable and not array.flags.writeable:
            raise InvalidArgumentError(f"{describe(extent, wanted.name)}, and read-only; give a writable array")
        place = strided_place(extent, wanted)
        view = array.view(_storage(place.dtype))
    elif (known := torch_extent(value)) is not None and known.device.on_host:
        place = strided_place(known, wanted)
        view = np.asarray(_Lent(known, _storage(place.dtype), value))
    else:
        if (where := dlpack_device(value)) is not None and not where.on_host:
            raise InvalidArgumentError(
                f"{wanted.name} is on {where}, the pool is on the host; give a tensor on the host"
            )
        extent = exported(value, wanted.name, where)
        place = strided_place(extent, wanted)
        view = np.asarray(_Lent(extent, _storage(place.dtype), value))
    return StridedPlace(place.address, place.shape, place.strides, place.dtype, view)


class _Lent:
    """A tensor's memory for NumPy, which keeps this object, and so the tensor, as long as the view lives."""

    def __init__(self, extent: TensorExtent, storage: str, owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": extent.shape,
            "typestr": np.dtype(storage).str,
            "strides": extent.strides,
            "data": (extent.address, False),
        }


def _storage(dtype: str) -> str:
    return DTYPES[dtype].storage if dtype in DTYPES else dtype


def _format(found: str, allowed: tuple[str, ...]) -> str | None:
    """The allowed format of that name, or the only one that NumPy shows under it (uint16 is bfloat16)."""
    if found in allowed:
        return found
    shown = [name for name in allowed if name in DTYPES and DTYPES[name].storage == found]
    return shown[0] if len(shown) == 1 else None


def _steps(extent: TensorExtent, wanted: Wanted) -> tuple[int, ...]:
    """Strides in elements."""
    size, shape = extent.itemsize, extent.shape
    strides = extent.strides
    if strides is None:
        strides = tuple(size * prod(shape[i + 1 :]) for i in range(len(shape)))
    if extent.address % size or any(stride % size for n, stride in zip(shape, strides, strict=True) if n > 1):
        raise InvalidArgumentError(f"{describe(extent, wanted.name)}, at {extent.address:#x}; align its elements")
    if shape and shape[-1] > 1 and strides[-1] != size and 0 not in shape:
        raise InvalidArgumentError(f"{describe(extent, wanted.name)}; its last dimension must be contiguous")
    if wanted.writable and 0 not in shape and _may_overlap(shape, strides, size):
        raise InvalidArgumentError(f"{describe(extent, wanted.name)}; elements that are written must not share memory")
    last = (1,) if shape else ()
    return tuple(stride // size for stride in strides[:-1]) + last


def _may_overlap(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> bool:
    """Whether some dimension steps within the bytes that the smaller steps cover together."""
    covered = size
    for step, count in sorted((abs(stride), n) for n, stride in zip(shape, strides, strict=True) if n > 1):
        if step < covered:
            return True
        covered += step * (count - 1)
    return False
