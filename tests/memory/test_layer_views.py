"""The tensors of a layer: where their elements are, who sees what is written, what is refused."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv import DevicePool, KVLayout, OpaqueLayout
from pagedkv.dtypes import DTYPES
from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.pool.tensor_view import TensorView, ViewedMemory

from .faulty_backend import FaultyBackend
from .layouts import element_offsets, kv_layouts

LAYOUT = KVLayout(2, 2, 8, "float16", 4)


def parts_of(pool: DevicePool, layer: int) -> dict[str, TensorView]:
    views = pool.layer(layer)
    named = {"k": views.k, "v": views.v, "k_scale": views.k_scale, "v_scale": views.v_scale}
    return {name: view for name, view in named.items() if view is not None}


@given(layout=kv_layouts(), num_blocks=st.integers(1, 3), scratch=st.integers(0, 1))
def test_every_element_is_where_the_layout_says(layout: KVLayout, num_blocks: int, scratch: int) -> None:
    """Each element of each part gets a number of its own; the pool's bytes then hold it at the layout's offset."""
    memory = np.zeros(layout.pool_bytes(num_blocks + scratch), np.uint8)
    with DevicePool(layout, num_blocks, device="host", memory=memory, scratch_blocks=scratch) as pool:
        expected = memory.copy()
        count = 0
        for layer in range(layout.num_layers):
            views = parts_of(pool, layer)
            assert list(views) == [part.name for part in layout.parts]
            for name, view in views.items():
                place = layout.part_view(layer, name, pool.total_blocks)
                array = view.numpy()
                assert (array.shape, array.strides) == (view.shape, view.byte_strides) == (place.shape, place.strides)
                numbers = (np.arange(count, count + array.size) % 200 + 1).astype(array.dtype)
                count += array.size
                array[...] = numbers.reshape(array.shape)
                offsets = [o for block in range(pool.total_blocks) for o in element_offsets(place, block)]
                for offset, number in zip(offsets, numbers, strict=True):
                    expected[offset : offset + array.itemsize] = np.frombuffer(number.tobytes(), np.uint8)
        assert np.array_equal(memory, expected)
        assert np.array_equal(pool.read_blocks(range(pool.total_blocks)), blocks_by_hand(layout, memory, pool))


def blocks_by_hand(layout: KVLayout, memory: np.ndarray[Any, Any], pool: DevicePool) -> np.ndarray[Any, Any]:
    rows = [
        np.concatenate(
            [memory[start : start + size] for start, size in layout.extents(pool.total_blocks).pieces(block)]
        )
        for block in range(pool.total_blocks)
    ]
    return np.stack(rows)


@given(layout=kv_layouts(), num_blocks=st.integers(1, 3))
def test_kv_is_k_and_v_as_one(layout: KVLayout, num_blocks: int) -> None:
    with DevicePool(layout, num_blocks, device="host") as pool:
        views = pool.layer(layout.num_layers - 1)
        if layout.scales or layout.value_dim != layout.head_dim:
            assert views.kv is None
            return
        assert views.kv is not None
        assert views.v is not None
        both, k, v = views.kv.numpy(), views.k.numpy(), views.v.numpy()
        assert both.shape == (num_blocks, 2, *k.shape[1:])
        k[...] = 1
        v[...] = 2
        assert (both[:, 0] == 1).all()
        assert (both[:, 1] == 2).all()
        assert both[:, 0].strides == k.strides == v.strides
        both[...] = 3
        assert (k == 3).all()
        assert (v == 3).all()


@pytest.mark.parametrize("name", DTYPES)
def test_the_numpy_type_has_the_same_bytes(name: str) -> None:
    with DevicePool(KVLayout(1, 1, 4, name, 2), 2, device="host") as pool:
        view = pool.layer(0).k
        assert view.dtype == name
        assert view.numpy().dtype == np.dtype(DTYPES[name].storage)
        assert view.itemsize == DTYPES[name].itemsize
        assert view.nbytes == view.numpy().nbytes == 2 * 2 * 4 * view.itemsize


def test_both_directions_see_what_the_other_writes() -> None:
    with DevicePool(LAYOUT, 3, device="host") as pool:
        k = pool.layer(1).k.numpy()
        k[2, 3, 1] = np.arange(8)
        held = pool.read_blocks([2])[0].view(np.float16).reshape(2, 2, 4, 2, 8)  # layer, K and V, token, head, element
        assert held[1, 0, 3, 1].tolist() == list(range(8))
        assert np.count_nonzero(held) == 7
        pool.write_blocks([0], np.full((1, LAYOUT.block_bytes), 7, np.uint8))
        assert (k[0].copy().view(np.uint16) == 0x0707).all()
        pool.copy_blocks([(2, 1)])
        assert np.array_equal(k[1], k[2])


@pytest.mark.parametrize("order", ["block", "layer"])
def test_compact_is_said_where_there_are_no_gaps(order: Any) -> None:
    layout = KVLayout(2, 2, 8, "float16", 4, order=order)
    with DevicePool(layout, 3, device="host") as pool:
        for view in parts_of(pool, 0).values():
            assert view.compact == view.numpy().flags.c_contiguous == (order == "layer")
        kv = pool.layer(0).kv
        assert kv is not None
        assert not kv.compact
    with DevicePool(KVLayout(1, 2, 8, "float16", 4, v_head_dim=0), 3, device="host") as pool:
        assert pool.layer(0).k.compact


def test_scratch_blocks_are_in_the_views() -> None:
    with DevicePool(LAYOUT, 3, device="host", scratch_blocks=2) as pool:
        assert pool.layer(0).k.shape == (5, 4, 2, 8)


def test_through_every_protocol_of_the_host() -> None:
    with DevicePool(LAYOUT, 3, device="host") as pool:
        view = pool.layer(0).k
        arrays = [view.numpy(), np.asarray(view), np.from_dlpack(view)]
        arrays[0][1, 2, 1, 3] = 5
        for array in arrays:
            assert array.ctypes.data == view.address
            assert array.strides == view.byte_strides
            assert array.flags.writeable
            assert array[1, 2, 1, 3] == 5
        assert view.__dlpack_device__() == (1, 0)
        assert not hasattr(view, "__cuda_array_interface__")
        copied = np.array(view)
        copied[...] = 9
        assert arrays[0][1, 2, 1, 3] == 5
        with pytest.raises(BufferError):
            view.__dlpack__(copy=True)
        with pytest.raises(BufferError):
            view.__dlpack__(dl_device=(2, 0))


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_dlpack_says_the_true_format_which_numpy_has_not(name: str) -> None:
    with DevicePool(KVLayout(1, 1, 4, name, 2), 2, device="host") as pool:
        with pytest.raises((BufferError, RuntimeError)):
            np.from_dlpack(pool.layer(0).k)
        assert pool.layer(0).k.numpy().dtype.kind == "u"


def test_a_view_is_frozen_and_says_what_it_is() -> None:
    with DevicePool(LAYOUT, 3, device="host") as pool:
        view = pool.layer(0).k
        assert view == pool.layer(0).k != pool.layer(1).k
        assert repr(view) == (
            f"TensorView(shape=(3, 4, 2, 8), strides=(256, 16, 8, 1), dtype='float16', address={pool.base})"
        )
        with pytest.raises(FrozenInstanceError):
            view.shape = ()  # type: ignore[misc]
        with pytest.raises(FrozenInstanceError):
            pool.layer(0).k = view  # type: ignore[misc]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, pickle.dumps])
def test_a_view_is_neither_copied_nor_pickled(duplicate: Callable[[object], object]) -> None:
    """A deep copy would keep other bytes alive than those it points at."""
    refusal = pytest.raises(InvalidArgumentError, match="copy or pickle a tensor made from it")
    with DevicePool(LAYOUT, 3, device="host") as pool, refusal:
        duplicate(pool.layer(0).k)


@pytest.mark.parametrize("layer", [-1, 2, 0.0, "0", None, True])
def test_layers_that_are_not_there(layer: Any) -> None:
    with DevicePool(LAYOUT, 3, device="host") as pool, pytest.raises(InvalidArgumentError, match="layer"):
        pool.layer(layer)


@pytest.mark.parametrize("device", ["host", "null"])
def test_opaque_tokens_have_no_layers(device: str) -> None:
    refusal = pytest.raises(InvalidArgumentError, match=r"layer needs to know .* OpaqueLayout; make the pool")
    with DevicePool(OpaqueLayout(64, 4), 3, device=device) as pool, refusal:
        pool.layer(0)


def test_the_null_backend_has_addresses_and_no_bytes() -> None:
    with DevicePool(LAYOUT, 3, device="null") as pool:
        view = pool.layer(1).k
        assert (view.shape, view.strides) == ((3, 4, 2, 8), (256, 16, 8, 1))
        assert view.address == pool.token_ptr(0, 0, 1)
        calls: list[Callable[[], object]] = [
            view.numpy,
            view.torch,
            view.cupy,
            view.jax,
            view.__dlpack__,
            view.__dlpack_device__,
            lambda: np.asarray(view),
        ]
        for call in calls:
            with pytest.raises(InvalidArgumentError, match="addresses without bytes"):
                call()
        assert not hasattr(view, "__array_interface__")


def test_a_framework_that_is_not_installed_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("torch", "jax", "jax.dlpack", "cupy"):
        monkeypatch.setitem(sys.modules, module, None)
    with DevicePool(KVLayout(1, 1, 4, "int8", 2, order="layer"), 2, device="host") as pool:
        view = pool.layer(0).k
        calls: list[tuple[Callable[[], object], str]] = [(view.torch, "PyTorch"), (view.jax, "JAX")]
        for call, name in calls:
            with pytest.raises(InvalidArgumentError, match=f"{name} is not usable here"):
                call()
        with pytest.raises(InvalidArgumentError, match="GPU only"):
            view.cupy()


@pytest.mark.parametrize("error", [AssertionError, BufferError, RuntimeError, TypeError, ValueError])
def test_what_a_framework_refuses_is_a_typed_error(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    """PyTorch without CUDA, for one, ends in an AssertionError; our own errors stay as they are."""
    raised: list[Exception] = [error("not compiled with CUDA"), BackendError("POOL_LOST", "lost", "__dlpack__")]

    def from_dlpack(view: object, **options: object) -> None:
        raise raised[0]

    for module in ("torch", "jax", "jax.dlpack"):
        monkeypatch.setitem(sys.modules, module, SimpleNamespace(from_dlpack=from_dlpack))
    with DevicePool(KVLayout(1, 1, 4, "fp8", 2, order="layer"), 2, device="host") as pool:
        view = pool.layer(0).k
        for call in (view.torch, view.jax):
            with pytest.raises(InvalidArgumentError, match=r"take this float8_e4m3fn .*not compiled with CUDA"):
                call()
        del raised[0]
        for call in (view.torch, view.jax):
            with pytest.raises(BackendError, match="POOL_LOST"):
                call()


def test_on_a_gpu_consumers_wait_and_are_told_the_stream() -> None:
    """The protocols' rules about streams, without a GPU: nothing here looks at the memory."""
    waited: list[int] = []
    stream = SimpleNamespace(handle=0)
    memory = ViewedMemory(object(), (2, 1), lambda: stream, waited.append)
    view = TensorView((3, 4), (8, 1), "bfloat16", 2**40, memory)
    assert view.__dlpack_device__() == (2, 1)
    for asked in (None, 1, 2, 77, -1):
        view.__dlpack__(stream=asked, max_version=(1, 0))
    assert waited == [0, 1, 2, 77], "None is the default stream, -1 says that nobody shall wait"
    described = {"shape": (3, 4), "strides": (16, 2), "typestr": "<u2", "data": (2**40, False), "version": 3}
    assert view.__cuda_array_interface__ == described | {"stream": 1}, "0 is not allowed there, 1 means the same"
    stream.handle = 77
    assert view.__cuda_array_interface__["stream"] == 77
    assert not hasattr(view, "__array_interface__")
    for call in (view.numpy, lambda: np.asarray(view)):
        with pytest.raises(InvalidArgumentError, match="device memory"):
            call()
    gone = replace(view, _memory=replace(memory, stream=lambda: None))
    assert gone.__cuda_array_interface__["stream"] is None


def test_jax_is_told_apart_before_it_is_imported() -> None:
    with DevicePool(LAYOUT, 3, device="host") as pool, pytest.raises(InvalidArgumentError) as caught:
        pool.layer(0).k.jax()
    assert 'order="layer"' in str(caught.value)


def test_a_closed_pool_gives_no_views() -> None:
    pool = DevicePool(LAYOUT, 3, device="host")
    pool.close()
    with pytest.raises(BackendError) as caught:
        pool.layer(0)
    assert caught.value.name == "POOL_CLOSED"


def test_a_lost_pool_gives_no_views() -> None:
    backend = FaultyBackend()
    pool = DevicePool(LAYOUT, 3, device=backend)
    backend.faults.fail_at = len(backend.faults.calls) + 1
    with pytest.raises(BackendError):
        pool.fill_blocks([0], 1)
    with pytest.raises(BackendError) as caught:
        pool.layer(0)
    assert caught.value.name == "POOL_LOST"
    pool.close()
