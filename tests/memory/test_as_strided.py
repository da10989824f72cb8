"""A caller's tensor in place, with its strides: NumPy, anything with DLPack on the host, and what a GPU refuses."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pagedkv import InvalidArgumentError
from pagedkv.backends.cuda_memory import strided_array
from pagedkv.backends.host import HostBackend
from pagedkv.backends.strided import Wanted
from pagedkv.dtypes import COMPUTE_DTYPES, DTYPES

_HOST = HostBackend()
_KINDS = tuple(DTYPES)


class Exporter:
    """A framework's tensor on the host: DLPack and nothing else."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self._array, self._device = array, device

    def __dlpack__(self) -> object:
        return self._array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


@pytest.mark.parametrize("wrap", [lambda array: array, Exporter], ids=["numpy", "dlpack"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int32", "int64"])
def test_a_strided_tensor_is_seen_where_it_is(wrap: Any, dtype: str) -> None:
    fused = np.arange(5 * 6 * 8).astype(dtype).reshape(5, 6, 8)
    cut = fused[1::2, 2:5, 3:7]
    place = _HOST.as_strided(wrap(cut), "k", (dtype,), 3)
    assert (place.address, place.shape, place.strides) == (cut.ctypes.data, (2, 3, 4), (96, 8, 1))
    assert place.dtype == dtype
    np.testing.assert_array_equal(place.array, cut)
    place.array[1, 2, 3] = 99
    assert fused[3, 4, 6] == 99


def test_strides_of_single_elements_do_not_matter() -> None:
    wide = np.zeros((4, 1, 7), np.float32)[:, :, ::7]
    assert _HOST.as_strided(wide, "k", ("float32",), 3).strides[2] == 1
    assert _HOST.as_strided(np.zeros((0, 3, 4), np.float32)[..., ::2], "k", ("float32",), 3).shape == (0, 3, 2)


def test_numpy_shows_bfloat16_as_uint16_and_no_other_format_by_its_bytes() -> None:
    raw = np.arange(6, dtype=np.uint16).reshape(2, 3)
    place = _HOST.as_strided(raw, "k", COMPUTE_DTYPES, 2)
    assert (place.dtype, place.array.dtype) == ("bfloat16", np.uint16)
    assert _HOST.as_strided(raw.view(np.uint8), "k", ("float8_e5m2",), 2).dtype == "float8_e5m2"
    with pytest.raises(InvalidArgumentError, match="k is uint8"):  # e4m3 or e5m2: nobody knows
        _HOST.as_strided(raw.view(np.uint8), "k", _KINDS, 2)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_ml_dtypes(name: str) -> None:
    kinds = pytest.importorskip("ml_dtypes")
    array = np.arange(12, dtype=np.float32).reshape(3, 4).astype(getattr(kinds, name))[:, 1:]
    place = _HOST.as_strided(array, "k", _KINDS, 2)
    assert (place.dtype, place.strides, place.address) == (name, (4, 1), array.ctypes.data)
    assert place.array.dtype.name == DTYPES[name].storage


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "float32", "int8"])
def test_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4).to(getattr(torch, name)).transpose(0, 1)
    place = _HOST.as_strided(tensor, "k", _KINDS, 3)
    assert (place.dtype, place.shape, place.strides) == (name, (3, 2, 4), (4, 12, 1))
    assert (place.address, place.array.dtype.name) == (tensor.data_ptr(), DTYPES[name].storage)
    del tensor
    assert place.array.shape == (3, 2, 4)
    assert place.array.tobytes() == place.array.copy().tobytes()


def test_torch_refuses_what_records_gradients() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(InvalidArgumentError, match=r"k is a Tensor on the host; .* refuses it: .*detach"):
        _HOST.as_strided(torch.zeros(2, 3, requires_grad=True), "k", ("float32",), 2)
    with pytest.raises(InvalidArgumentError, match="k is a Tensor"):
        _HOST.as_strided(torch.zeros(2, 3, device="meta"), "k", ("float32",), 2)


def _read_only() -> np.ndarray:
    array = np.zeros((2, 4), np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((2, 4)), r"k is float64 of shape \(2, 4\), strides \(32, 8\) bytes, on the host; give float32"),
        (np.zeros(4, np.float32), r"k is float32 of shape \(4,\).* 2 dimensions"),
        (np.zeros((2, 8), np.float32)[:, ::2], "last dimension must be contiguous"),
        (np.zeros((4, 2), np.float32).T, "last dimension must be contiguous"),
        (np.zeros((2, 4), ">f4"), "not in this machine's byte order"),
        (np.zeros((2, 17), np.uint8)[:, 1:].view(np.float32), "align its elements"),
        ([[1.0]], "k is a list; give a tensor of a framework, on the host also of NumPy"),
        (np.float32(1), "k is a float32"),
        (np.ndarray, "k is a type"),
        (None, "k is a NoneType"),
        (Exporter(np.zeros((2, 4), np.complex64)), "k is opaque"),
        (Exporter(_read_only()), "k is a Exporter on the host; it offers DLPack but refuses it"),
        (Exporter(np.zeros((2, 4), np.float32), (2, 3)), "k is on cuda:3, the pool is on the host"),
        (Exporter(np.zeros((2, 4), np.float32), (10, 0)), "k is on DLPack device 10, the pool is on the host"),
    ],
)
def test_what_the_host_refuses(value: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        _HOST.as_strided(value, "k", ("float32",), 2)


def test_inputs_may_be_read_only_or_overlap_and_outputs_may_not() -> None:
    row = np.zeros(4, np.float32)
    windows = np.lib.stride_tricks.as_strided(row, (2, 3), (4, 4))
    for array in (np.broadcast_to(row, (3, 4)), windows, _read_only()):
        assert _HOST.as_strided(array, "k", ("float32",), 2).shape == array.shape
        with pytest.raises(InvalidArgumentError, match=r"writable|share memory"):
            _HOST.as_strided(array, "k", ("float32",), 2, writable=True)
    apart = np.zeros((3, 2, 4), np.float32).transpose(1, 0, 2)[::-1]
    assert _HOST.as_strided(apart, "k", ("float32",), 3, writable=True).strides == (-4, 8, 1)


class GpuTensor:
    """A tensor as a GPU library offers it, at an address that nobody reads."""

    def __init__(self, ordinal: int, *, interface: bool = False, read_only: bool = False) -> None:
        self._ordinal = ordinal
        described = {"data": (4096 + ordinal, read_only), "typestr": "<f4", "shape": (2, 4), "strides": (64, 4)}
        if interface:
            self.__cuda_array_interface__ = described
        else:
            self.__dlpack_device__ = lambda: (2, ordinal)


def _driver(owner_of: int | None) -> Any:
    """GPU 0's driver, to which every address belongs to GPU `owner_of`."""
    attributes = SimpleNamespace(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL=9)
    code = 0 if owner_of is not None else 1
    module = SimpleNamespace(
        CUpointer_attribute=attributes,
        CUresult=SimpleNamespace(CUDA_SUCCESS=0),
        cuPointerGetAttribute=lambda attribute, address: (code, owner_of),
    )
    return SimpleNamespace(ordinal=0, module=module, current=nullcontext)


def test_a_gpu_takes_the_array_interface_with_strides() -> None:
    place = strided_array(_driver(0), GpuTensor(0, interface=True), Wanted("k", ("float32",), 2))
    assert (place.address, place.shape, place.strides, place.array) == (4096, (2, 4), (16, 1), None)
    read_only = GpuTensor(0, interface=True, read_only=True)
    assert strided_array(_driver(0), read_only, Wanted("k", ("float32",), 2)) == place
    with pytest.raises(InvalidArgumentError, match="k is read-only"):
        strided_array(_driver(0), read_only, Wanted("k", ("float32",), 2, writable=True))


@pytest.mark.parametrize(
    ("value", "owner", "message"),
    [
        (GpuTensor(1), 0, "mixed devices: k is on cuda:1, the pool is on cuda:0"),
        (GpuTensor(0, interface=True), 1, "mixed devices: k is on cuda:1, the pool is on cuda:0"),
        (GpuTensor(0, interface=True), None, "mixed devices: k is not device memory, the pool is on cuda:0"),
        (GpuTensor(0), 0, "k is a GpuTensor; give a tensor"),
        (np.zeros((2, 4), np.float32), 0, "k is on the host, the pool is on cuda:0"),
        ([1.0], 0, "k is a list, the pool is on cuda:0"),
    ],
)
def test_what_a_gpu_refuses(value: object, owner: int | None, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        strided_array(_driver(owner), value, Wanted("k", ("float32",), 2))
