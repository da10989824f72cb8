"""P1: the element size, the scales and the order of blocks and parts decide where V is."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from pagedkv import DevicePool, KVLayout

BLOCKS = 4
FORMATS = [("float16", False, 8192), ("float8_e4m3fn", False, 4096), ("float8_e4m3fn", True, 4352)]
# Of V, block 1, token 0, head 0: K of all blocks first, or the parts of a block side by side.
V_ELEMENT = [("layer", 10_240), ("block", 6_144)]


def layout_of(dtype: str, *, scales: bool = False, order: Any = "block", kv_layout: Any = "NHD") -> KVLayout:
    return KVLayout(1, 2, 64, dtype, 16, order=order, kv_layout=kv_layout, scales=scales)


@pytest.mark.parametrize(("dtype", "scales", "block_bytes"), FORMATS)
def test_p1_block_bytes_and_starts(dtype: str, scales: bool, block_bytes: int) -> None:
    layout = layout_of(dtype, scales=scales)
    assert layout.block_bytes == block_bytes
    assert layout.pool_bytes(BLOCKS) == BLOCKS * block_bytes
    assert layout.extents(BLOCKS).pieces(3) == [(3 * block_bytes, block_bytes)]
    with DevicePool(layout, BLOCKS, device="host") as pool:
        assert (
            pool.block_ptr(3) - pool.base == 3 * block_bytes == {8192: 24_576, 4096: 12_288, 4352: 13_056}[block_bytes]
        )
        assert pool.nbytes == BLOCKS * block_bytes


@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
@pytest.mark.parametrize(("order", "element"), V_ELEMENT)
@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fn"])
def test_p1_where_v_is(dtype: str, order: str, element: int, kv_layout: str) -> None:
    layout = layout_of(dtype, order=order, kv_layout=kv_layout)
    view = layout.part_view(0, "v", BLOCKS)
    assert view.offset + view.strides[0] == element * layout.itemsize
    assert layout.token_offset(1, 0, BLOCKS, 0, "v") == element * layout.itemsize
    with DevicePool(layout, BLOCKS, device="host") as pool:
        assert pool.token_ptr(1, 0, 0, "v") - pool.base == element * layout.itemsize
        v = pool.layer(0).v
        assert v is not None
        assert (v.address - pool.base) // v.itemsize + v.strides[0] == element


@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
@pytest.mark.parametrize(("order", "element"), V_ELEMENT)
@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fn"])
def test_p1_real_bytes(dtype: str, order: str, element: int, kv_layout: str) -> None:
    """A value written through the view of V is at that element of the pool's memory, and nowhere else."""
    layout = layout_of(dtype, order=order, kv_layout=kv_layout)
    memory = np.zeros(layout.pool_bytes(BLOCKS), np.uint8)
    with DevicePool(layout, BLOCKS, device="host", memory=memory) as pool:
        v = pool.layer(0).v
        assert v is not None
        v.numpy()[1, 0, 0, 0] = 3
        held = memory.view(layout.element.storage)
        assert np.flatnonzero(held).tolist() == [element]
        whole = pool.read_blocks([1])[0].view(layout.element.storage)
        assert np.flatnonzero(whole).tolist() == [2048], "V follows K in a block's own bytes, in both orders"


@pytest.mark.parametrize("order", ["block", "layer"])
def test_p1_scales_have_their_own_bytes(order: str) -> None:
    layout = layout_of("float8_e4m3fn", scales=True, order=order)
    with DevicePool(layout, BLOCKS, device="host") as pool:
        views = pool.layer(0)
        parts = {"k": views.k, "v": views.v, "k_scale": views.k_scale, "v_scale": views.v_scale}
        for number, part in enumerate(parts.values(), 1):
            assert part is not None
            part.numpy()[...] = number
        held = {name: part.numpy() for name, part in parts.items() if part is not None}
        assert {name: (array.dtype.name, array.shape) for name, array in held.items()} == {
            "k": ("uint8", (4, 16, 2, 64)),
            "v": ("uint8", (4, 16, 2, 64)),
            "k_scale": ("float32", (4, 16, 2)),
            "v_scale": ("float32", (4, 16, 2)),
        }
        for number, array in enumerate(held.values(), 1):
            assert (array == number).all()
        assert sum(prod(array.shape) * array.itemsize for array in held.values()) == pool.nbytes


@pytest.mark.parametrize("order", ["block", "layer"])
@pytest.mark.parametrize(("dtype", "scales", "block_bytes"), FORMATS)
def test_p1_a_copied_block_is_exactly_its_bytes(dtype: str, scales: bool, block_bytes: int, order: str) -> None:
    with DevicePool(layout_of(dtype, scales=scales, order=order), BLOCKS, device="host") as pool:
        pool.fill_blocks(range(BLOCKS), [1, 2, 3, 4])
        pool.copy_blocks([(0, 3)])
        assert pool.verify_blocks(range(BLOCKS), [1, 2, 3, 1]) == 0
        assert pool.read_blocks([3]).shape == (1, block_bytes)
