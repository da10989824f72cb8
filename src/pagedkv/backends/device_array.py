"""A caller's array where it is: on the host a NumPy array, on a GPU whatever offers the array interface or DLPack.

Attention kernels and CUDA graphs want results at fixed addresses, so exports on the device write into arrays that the
caller owns. Nothing is copied; the array must stay alive until the stream has passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pagedkv.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """Address and shape of a compact array; `array` is its NumPy view on the host, else None."""

    address: int
    shape: tuple[int, ...]
    itemsize: int
    array: Any


def host_array(value: object, name: str, dtypes: tuple[str, ...], ndim: int) -> DeviceArray:
    """A NumPy array of one of `dtypes`, C-contiguous. Raises InvalidArgumentError for anything else."""
    if not isinstance(value, np.ndarray) or not value.flags.c_contiguous or not value.flags.writeable:
        raise InvalidArgumentError(f"{name} is a {type(value).__name__}; give a writable, contiguous NumPy array")
    check_array(name, value.dtype.name, value.ndim, dtypes, ndim)
    return DeviceArray(int(value.ctypes.data), value.shape, value.itemsize, value)


def check_array(name: str, dtype: str, ndim: int, dtypes: tuple[str, ...], wanted: int) -> None:
    """Raise InvalidArgumentError unless type and dimensions are as wanted."""
    if dtype not in dtypes or ndim != wanted:
        raise InvalidArgumentError(f"{name} is {dtype} with {ndim} dimensions; give {' or '.join(dtypes)}, {wanted}-D")
