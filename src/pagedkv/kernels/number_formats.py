"""Number formats of keys and values in NumPy: to float32 and back, bit for bit what the kernels do.

To float32 is exact. From float32 rounds to the nearest, ties to even, and saturates: what lies beyond the largest
finite number, infinities included, becomes that number; float32 itself keeps infinities. A NaN stays one, and becomes
the positive one with all bits set; only from bfloat16 to float32 it keeps its bits. int8 has none, it becomes 0 there,
and int8 uses -127 to 127. Arrays hold a format's storage type (`DType.storage`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv.dtypes import DTYPES

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[Any]

_NAN = np.uint32(0x7FFFFFFF).view(np.float32)
# Of the small floats: bits of the mantissa, bias of the exponent.
_SHAPES = {"float16": (10, 15), "bfloat16": (7, 127), "float8_e4m3fn": (3, 7), "float8_e5m2": (2, 15)}


def to_float32(numbers: Numbers, dtype: str) -> Floats:
    """float32 of numbers in a format."""
    if dtype == "float32":
        return numbers.astype(np.float32, copy=False)
    if dtype == "bfloat16":
        return (numbers.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype == "int8":
        return numbers.astype(np.float32)
    if dtype == "float16":
        with np.errstate(invalid="ignore"):  # a signaling NaN is one like others
            values = numbers.astype(np.float32)
        return np.where(np.isnan(values), _NAN, values)
    return _table(dtype)[numbers]


def from_float32(values: Floats, dtype: str) -> Numbers:
    """The nearest numbers of a format; float32 itself keeps every value as it is."""
    if dtype == "float32":
        return values
    known = np.where(np.isnan(values), np.float32(0), values)
    if dtype == "int8":
        nearest: Floats = np.rint(np.clip(known, np.float32(-127), np.float32(127)))
        return nearest.astype(np.int8)
    kind = DTYPES[dtype]
    mantissa, bias = _SHAPES[dtype]
    bits = np.abs(np.clip(known, np.float32(-kind.largest), np.float32(kind.largest))).view(np.uint32)
    sign = (values.view(np.uint32) >> np.uint32(31)) << np.uint32(kind.bits - 1)
    codes = np.where(np.isnan(values), np.uint32((1 << kind.bits - 1) - 1), sign | _magnitude(bits, mantissa, bias))
    return codes.astype(f"uint{kind.bits}").view(kind.storage)


def _magnitude(bits: npt.NDArray[np.uint32], mantissa: int, bias: int) -> npt.NDArray[np.uint32]:
    """The code, without its sign, of a finite float32 given by its bits."""
    drop = 23 - mantissa
    odd = (bits >> np.uint32(drop)) & np.uint32(1)
    rounded = (bits + np.uint32((1 << drop - 1) - 1) + odd) >> np.uint32(drop)
    normal = rounded - np.uint32((127 - bias) << mantissa)
    if bias == 127:  # float32's own exponents: its small numbers are this format's
        return normal
    subnormal = bits < np.uint32((128 - bias) << 23)
    small = np.where(subnormal, bits, np.uint32(0)).view(np.float32)
    steps = np.rint(small * np.float32(2.0 ** (bias - 1 + mantissa))).astype(np.uint32)
    return np.where(subnormal, steps, normal)


@cache
def _table(dtype: str) -> Floats:
    """The values of all 256 codes of an 8-bit float."""
    mantissa, bias = _SHAPES[dtype]
    codes = np.arange(256)
    exponent, fraction = (codes & 127) >> mantissa, codes & (1 << mantissa) - 1
    values = np.where(
        exponent > 0,
        ((1 << mantissa) + fraction) * 2.0 ** (exponent - bias - mantissa),
        fraction * 2.0 ** (1.0 - bias - mantissa),
    )
    if dtype == "float8_e5m2":
        values[exponent == 31] = np.inf
    signed = np.where(codes > 127, -values, values).astype(np.float32)
    return np.where((codes & 127 == 127) | (np.isinf(signed) & (fraction > 0)), _NAN, signed)
