"""The binding below the views of a layer: memory of somebody else's as a DLPack tensor."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from pagedkv import InvalidArgumentError
from pagedkv._core import dlpack_tensor

FLOAT32, CPU = (2, 32), (1, 0)


def over(array: Any, shape: Any, strides: Any) -> Any:
    return dlpack_tensor(array, array.ctypes.data, shape, strides, FLOAT32, CPU)


def test_strides_are_elements_and_the_bytes_are_the_owners() -> None:
    array = np.arange(24, dtype=np.float32)
    seen = np.from_dlpack(over(array, (2, 3), (12, 2)))
    assert seen.tolist() == [[0, 2, 4], [12, 14, 16]]
    seen[1, 2] = -1
    assert array[16] == -1


def test_the_owner_lives_as_long_as_the_last_tensor() -> None:
    array = np.zeros(4, np.float32)
    gone = weakref.ref(array)
    tensor = over(array, (4,), (1,))
    seen = np.from_dlpack(tensor)[1:]
    del array, tensor
    gc.collect()
    assert gone() is not None
    del seen
    gc.collect()
    assert gone() is None


def test_another_device_is_passed_on_untouched() -> None:
    tensor: Any = dlpack_tensor(object(), 2**63 + 2**40, (3,), (1,), (4, 16), (2, 5))
    assert tensor.__dlpack_device__() == (2, 5)
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(tensor)


@pytest.mark.parametrize(("shape", "strides"), [((2,), ()), ((), (1,)), ((1,) * 9, (1,) * 9), ((-1,), (1,))])
def test_shapes_that_are_none(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"dimension|extent"):
        over(np.zeros(4, np.float32), shape, strides)


@pytest.mark.parametrize("bad", [-1, 2**64, 1.5, "1", None])
def test_addresses_that_are_none(bad: Any) -> None:
    with pytest.raises(TypeError):
        dlpack_tensor(object(), bad, (1,), (1,), FLOAT32, CPU)
