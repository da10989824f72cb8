"""Tensors of PyTorch by their attributes are those that DLPack describes, and what it refuses is left to it."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from pagedkv import InvalidArgumentError  # noqa: E402
from pagedkv.backends.dlpack import read_dlpack  # noqa: E402
from pagedkv.backends.host import HostBackend  # noqa: E402
from pagedkv.backends.torch_tensor import torch_extent  # noqa: E402

DTYPES = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "int32", "int64", "float64")


@st.composite
def tensors(draw: st.DrawFn) -> Any:
    """A cut of a permuted tensor."""
    shape = draw(st.lists(st.integers(0, 4), min_size=0, max_size=4))
    made = torch.zeros(shape, dtype=getattr(torch, draw(st.sampled_from(DTYPES))))
    made = made.permute(draw(st.permutations(range(made.ndim))))
    for axis in range(made.ndim):
        first = draw(st.integers(0, made.shape[axis]))
        made = made[(slice(None),) * axis + (slice(first, None, draw(st.integers(1, 2))),)]
    return made


@given(tensors())
def test_extents_are_those_of_dlpack(tensor: Any) -> None:
    mine, theirs = torch_extent(tensor), read_dlpack(tensor)
    assert mine is not None
    assert (mine.shape, mine.itemsize, mine.dtype, mine.device) == (
        theirs.shape,
        theirs.itemsize,
        theirs.dtype,
        theirs.device,
    )
    if prod(tensor.shape):
        assert mine.address == theirs.address
        # DLPack may say anything where there is nothing to step to.
        steps = zip(mine.strides or (), theirs.strides or (), tensor.shape, strict=bool(theirs.strides))
        assert all(a == b for a, b, count in steps if count > 1)


def test_a_parameter_without_gradient_is_a_tensor() -> None:
    parameter = torch.nn.Parameter(torch.zeros(3, 4), requires_grad=False)
    assert torch_extent(parameter) == torch_extent(parameter.data) is not None


class _Derived(torch.Tensor):
    """Might be anything."""


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(3, requires_grad=True),
        torch.zeros(3, dtype=torch.complex64).conj().imag,
        torch.zeros(3, 3).to_sparse(),
        torch.zeros(3, device="meta"),
        torch.zeros(3, dtype=torch.complex64),
        torch.zeros(3).as_subclass(_Derived),
        [0.0],
    ],
    ids=["gradient", "negated", "sparse", "meta", "complex", "derived", "list"],
)
def test_what_is_left_to_dlpack(value: Any) -> None:
    assert torch_extent(value) is None


@pytest.mark.parametrize("place", ["gradient", "meta"])
def test_what_dlpack_refuses_is_still_refused(place: str) -> None:
    value = torch.zeros(3, requires_grad=True) if place == "gradient" else torch.zeros(3, device="meta")
    with pytest.raises(InvalidArgumentError, match="k is"):
        HostBackend().as_strided(value, "k", ("float32",), 1)


def test_the_view_is_the_tensor_and_keeps_it_alive() -> None:
    tensor = torch.arange(12.0).reshape(3, 4)
    place = HostBackend().as_strided(tensor[:, 1:3], "k", ("float32",), 2, writable=True)
    assert (place.shape, place.strides) == ((3, 2), (4, 1))
    place.array[2, 1] = 99
    assert tensor[2, 2] == 99
    del tensor
    assert place.array[2].tolist() == [9.0, 99.0]
