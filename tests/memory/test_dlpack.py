"""The DLPack reader against NumPy's own exports: address, shape, strides and type of any array."""

from __future__ import annotations

import numpy as np
import pytest

from pagedkv.backends.dlpack import read_dlpack


class FromAnyStream:
    """NumPy knows no streams and refuses the argument that GPU producers take."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, *, stream: int) -> object:
        assert stream == -1
        return self._array.__dlpack__()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float16", "float32", "float64"])
def test_an_array_is_where_it_is(dtype: str) -> None:
    array = np.zeros((3, 4, 5), dtype)[1:]
    extent = read_dlpack(FromAnyStream(array))
    assert (extent.address, extent.shape, extent.itemsize) == (array.ctypes.data, (2, 4, 5), array.itemsize)
    assert extent.dtype == dtype
    assert extent.strides in (None, array.strides)
    assert not extent.device.on_cuda


def test_strides_are_bytes_and_other_types_are_opaque() -> None:
    extent = read_dlpack(FromAnyStream(np.zeros((6, 8), np.complex64)[::2, ::4]))
    assert (extent.strides, extent.itemsize, extent.dtype) == ((128, 32), 8, "opaque")


def test_a_scalar_and_an_empty_array() -> None:
    assert read_dlpack(FromAnyStream(np.array(1.5))).shape == ()
    assert read_dlpack(FromAnyStream(np.zeros((0, 3)))).shape == (0, 3)
