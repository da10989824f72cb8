"""The tensors of a layer in PyTorch and JAX on the host: the same bytes, the right format, the right strides."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from pagedkv import DevicePool, KVLayout
from pagedkv.dtypes import DTYPES
from pagedkv.errors import InvalidArgumentError


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def jax() -> Any:
    return pytest.importorskip("jax")


@pytest.mark.parametrize("order", ["block", "layer"])
@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
@pytest.mark.parametrize("name", DTYPES)
def test_torch_tensors_have_the_format_the_strides_and_the_bytes(
    torch: Any, name: str, kv_layout: Any, order: Any
) -> None:
    layout = KVLayout(2, 2, 16, name, 4, order=order, kv_layout=kv_layout)
    with DevicePool(layout, 3, device="host", scratch_blocks=1) as pool:
        views = pool.layer(1)
        assert views.kv is not None
        for view in (views.k, views.v, views.kv):
            assert view is not None
            tensor = view.torch()
            assert tensor.dtype is getattr(torch, name)
            assert (tuple(tensor.shape), tuple(tensor.stride())) == (view.shape, view.strides)
            assert tensor.data_ptr() == view.address
            tensor.copy_(torch.arange(tensor.numel()).remainder(7).reshape(tensor.shape))
            as_numbers = torch.tensor(np.ascontiguousarray(view.numpy())).view(tensor.dtype).float()
            assert torch.equal(as_numbers, tensor.float())
        k, v = views.k.torch(), views.v.torch()  # type: ignore[union-attr]
        assert torch.equal(views.kv.torch()[:, 0].float(), k.float())
        assert torch.equal(views.kv.torch()[:, 1].float(), v.float())
        assert not pool.layer(0).k.numpy().any(), "no other layer was touched"


@pytest.mark.parametrize("name", DTYPES)
def test_a_value_written_by_torch_is_in_the_block(torch: Any, name: str) -> None:
    layout = KVLayout(2, 2, 16, name, 4)
    with DevicePool(layout, 3, device="host") as pool:
        pool.layer(1).k.torch()[2, 3, 1] = 1.0
        one = torch.ones(1, dtype=getattr(torch, name)).view(torch.uint8).numpy().tobytes()
        held = pool.read_blocks([0, 1, 2])
        start = layout.token_offset(0, 3, 3, 1) + 16 * layout.itemsize
        assert held[2, start : start + 16 * layout.itemsize].tobytes() == 16 * one
        assert np.count_nonzero(held) == 16 * np.count_nonzero(np.frombuffer(one, np.uint8))


def test_scales_are_float32_tensors(torch: Any) -> None:
    with DevicePool(KVLayout(1, 2, 16, "fp8", 4, scales=True), 3, device="host") as pool:
        views = pool.layer(0)
        assert views.k_scale is not None
        scale = views.k_scale.torch()
        assert (scale.dtype, tuple(scale.shape)) == (torch.float32, (3, 4, 2))
        scale[2, 3, 1] = 0.5
        assert float(views.k_scale.numpy()[2, 3, 1]) == 0.5
        assert np.count_nonzero(pool.read_blocks([0, 1, 2])) == 1


def test_torch_takes_a_view_by_itself(torch: Any) -> None:
    with DevicePool(KVLayout(1, 2, 16, "bfloat16", 4), 3, device="host") as pool:
        tensor = torch.from_dlpack(pool.layer(0).k)
        assert (tensor.dtype, tensor.data_ptr()) == (torch.bfloat16, pool.base)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float32"])
def test_a_tensor_outlives_the_pool(torch: Any, name: str) -> None:
    pool = DevicePool(KVLayout(1, 2, 16, name, 4), 1000, device="host")
    tensor = pool.layer(0).k.torch()
    pool.close()
    del pool
    gc.collect()
    other = DevicePool(KVLayout(1, 2, 16, name, 4), 1000, device="host")  # would get the memory, had it been freed
    tensor.fill_(1)
    assert not other.layer(0).k.numpy().any()
    assert bool((tensor.float() == 1).all())


@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
@pytest.mark.parametrize("name", DTYPES)
def test_jax_arrays_are_compact_layers_in_place(jax: Any, name: str, kv_layout: Any) -> None:
    layout = KVLayout(2, 2, 16, name, 4, order="layer", kv_layout=kv_layout)
    with DevicePool(layout, 4, device="host") as pool:
        view = pool.layer(1).v
        assert view is not None
        view.numpy()[...] = np.arange(view.numpy().size).reshape(view.shape) % 100
        array = view.jax()
        assert (array.dtype.name, array.shape) == (name, view.shape)
        assert array.unsafe_buffer_pointer() == view.address
        assert np.asarray(array).tobytes() == view.numpy().tobytes()


def test_jax_refuses_gaps_and_says_what_to_do(jax: Any) -> None:
    for order, name in (("block", "k"), ("layer", "kv")):
        layout = KVLayout(2, 2, 16, "float32", 4, order=order)  # type: ignore[arg-type]
        refusal = pytest.raises(InvalidArgumentError, match="compact tensors only")
        with DevicePool(layout, 4, device="host") as pool, refusal:
            getattr(pool.layer(0), name).jax()


def test_jax_is_never_given_a_copy(jax: Any) -> None:
    """An address that its allocator would not give: JAX takes it in place or refuses it."""
    layout = KVLayout(3, 1, 1, "float16", 1, order="layer")
    with DevicePool(layout, 5, device="host") as pool:
        for layer in range(3):
            view = pool.layer(layer).k
            try:
                assert view.jax().unsafe_buffer_pointer() == view.address
            except InvalidArgumentError as error:
                assert "in place" in str(error)  # noqa: PT017 - either answer is right, a copy is not
