"""Checks of what a caller hands in: whole numbers and integer arrays, or an InvalidArgumentError that says
which.

Python lets `True`, `2.0` and `nan` pass for numbers; a size or a block id that is one of those is a mistake
made earlier, and is refused here, before anything has been changed.
"""

from __future__ import annotations

import math
import operator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pagedkv.errors import InvalidArgumentError

IntArray: TypeAlias = npt.NDArray[np.int64]

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
FLOAT32_MAX = float(np.finfo(np.float32).max)


def whole_number(value: object, name: str, *, minimum: int = 0, maximum: int = INT64_MAX) -> int:
    """`value` as an int within [minimum, maximum]; NumPy integers are taken, bools and floats are not.

    Raises InvalidArgumentError. Modifies nothing.
    """
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidArgumentError(f"{name} is {value!r}; give a whole number") from None
    if not minimum <= number <= maximum:
        raise InvalidArgumentError(f"{name} is {_shown(number)}; give a number from {minimum} to {maximum}")
    return number


def finite_number(value: object, name: str) -> float:
    """`value` as a float that float32 holds, rounded at most; NumPy's numbers are taken, bools and text are not.

    Raises InvalidArgumentError. Modifies nothing.
    """
    number = math.nan
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    # Written so that NaN is refused too.
    if not abs(number) <= FLOAT32_MAX:
        shown = _shown(value) if isinstance(value, int) else repr(value)
        raise InvalidArgumentError(f"{name} is {shown}; give a finite number that float32 holds")
    return number


def integer_array(values: object, name: str, *, minimum: int, maximum: int) -> IntArray:
    """`values` as a one-dimensional int64 array whose entries lie within [minimum, maximum].

    A number stands for an array of one. The result may share memory with `values`. Raises
    InvalidArgumentError for floats, bools, more dimensions and entries out of range. Modifies nothing.
    """
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):
        raise InvalidArgumentError(f"{name} is not a flat list of whole numbers") from None
    if array.ndim > 1:
        raise InvalidArgumentError(f"{name} has shape {array.shape}; give a one-dimensional array")
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iu":
        raise InvalidArgumentError(f"{name} has type {array.dtype}; give whole numbers within 64 bits")
    lowest, highest = int(array.min()), int(array.max())
    if lowest < minimum or highest > maximum:
        wrong = lowest if lowest < minimum else highest
        raise InvalidArgumentError(f"{name} holds {wrong}; give numbers from {minimum} to {maximum}")
    return np.atleast_1d(array).astype(np.int64, copy=False)


def _shown(number: int) -> str:
    # Python refuses to print what has thousands of digits.
    return str(number) if number.bit_length() < 1024 else f"an integer of {number.bit_length()} bits"
