"""KVLayout: every byte of a pool belongs to one element of one part, wherever the layout puts it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from math import gcd, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pagedkv import DevicePool, KVLayout
from pagedkv.dtypes import DTYPES, dtype_of
from pagedkv.errors import InvalidArgumentError

from .layouts import element_offsets, kv_layouts

GOOD: dict[str, Any] = {"num_layers": 2, "num_kv_heads": 3, "head_dim": 8, "dtype": "float16", "block_size": 4}


@given(layout=kv_layouts(), num_blocks=st.integers(1, 4))
def test_parts_cover_the_pool_once(layout: KVLayout, num_blocks: int) -> None:
    owners = np.zeros(layout.pool_bytes(num_blocks), np.int64)
    for layer in range(layout.num_layers):
        for part in layout.parts:
            view = layout.part_view(layer, part.name, num_blocks)
            assert prod(view.shape) == num_blocks * layout.block_size * part.heads * part.dim
            for block in range(num_blocks):
                for offset in element_offsets(view, block):
                    owners[offset : offset + part.dtype.itemsize] += 1
    assert (owners == 1).all()


@given(layout=kv_layouts(), num_blocks=st.integers(1, 4))
def test_pieces_of_a_block_are_the_bytes_of_its_elements(layout: KVLayout, num_blocks: int) -> None:
    extents = layout.extents(num_blocks)
    assert extents.contiguous == (layout.order == "block" or layout.num_layers == len(layout.parts) == 1)
    for block in range(num_blocks):
        pieces = [byte for start, size in extents.pieces(block) for byte in range(start, start + size)]
        elements = [
            byte
            for layer in range(layout.num_layers)
            for part in layout.parts
            for offset in element_offsets(layout.part_view(layer, part.name, num_blocks), block)
            for byte in range(offset, offset + part.dtype.itemsize)
        ]
        assert len(pieces) == layout.block_bytes
        assert sorted(pieces) == sorted(elements)
        assert all(start % extents.alignment == 0 == size % extents.alignment for start, size in extents.pieces(block))


@given(layout=kv_layouts(), num_blocks=st.integers(1, 4), data=st.data())
def test_a_token_lies_where_its_view_says(layout: KVLayout, num_blocks: int, data: st.DataObject) -> None:
    part = data.draw(st.sampled_from([p.name for p in layout.parts]))
    layer = data.draw(st.integers(0, layout.num_layers - 1))
    view = layout.part_view(layer, part, num_blocks)
    axis = 1 if layout.kv_layout == "NHD" else 2
    for block in range(num_blocks):
        for offset in range(layout.block_size):
            expected = view.offset + block * view.strides[0] + offset * view.strides[axis]
            assert layout.token_offset(block, offset, num_blocks, layer, part) == expected
    assert view.strides[-1] == view.part.dtype.itemsize, "the last dimension is contiguous"


@given(layout=kv_layouts(), num_blocks=st.integers(1, 4))
def test_sizes_add_up(layout: KVLayout, num_blocks: int) -> None:
    scale_bytes = 4 * sum(1 for dim in (layout.head_dim, layout.value_dim) if dim) * layout.scales
    head = (layout.head_dim + layout.value_dim) * layout.itemsize + scale_bytes
    assert layout.token_bytes == layout.num_layers * layout.num_kv_heads * head
    assert layout.block_bytes == layout.block_size * layout.token_bytes == layout.num_layers * layout.layer_bytes
    assert layout.pool_bytes(num_blocks) == num_blocks * layout.block_bytes
    assert layout.blocks_in(num_blocks * layout.block_bytes + layout.block_bytes - 1) == num_blocks


@given(layout=kv_layouts(), num_blocks=st.integers(1, 4))
@example(layout=KVLayout(2, 1, 64, "fp8", 1, scales=True), num_blocks=2)  # the scales shift the next layer
def test_alignment_holds_for_every_vector_and_is_the_largest_that_does(layout: KVLayout, num_blocks: int) -> None:
    def vectors(blocks: int) -> list[int]:
        return [
            offset
            for layer in range(layout.num_layers)
            for part in layout.parts[: 2 if layout.value_dim else 1]
            for block in range(blocks)
            for offset in element_offsets(layout.part_view(layer, part.name, blocks), block)[:: part.dim]
        ]

    assert all(offset % layout.alignment == 0 for offset in vectors(num_blocks))
    if layout.num_layers > 1 and layout.num_kv_heads * layout.block_size > 1:
        assert layout.alignment == gcd(256, *vectors(1), *vectors(2))


@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
@pytest.mark.parametrize(("order", "block_stride"), [("block", 2 * 2 * 4 * 3 * 8), ("layer", 4 * 3 * 8)])
def test_strides_of_an_example(order: str, block_stride: int, kv_layout: str) -> None:
    layout = KVLayout(**GOOD | {"order": order, "kv_layout": kv_layout})
    view = layout.part_view(1, "v", 5)
    inner = {"NHD": ((4, 3, 8), (24, 8, 1)), "HND": ((3, 4, 8), (32, 8, 1))}[kv_layout]
    assert view.shape == (5, *inner[0])
    assert view.strides == tuple(2 * stride for stride in (block_stride, *inner[1]))
    assert view.offset == 2 * {"block": 3 * 96, "layer": 3 * 5 * 96}[order]


def test_a_latent_layout_is_one_vector_a_token_and_layer() -> None:
    layout = KVLayout.latent(61, 576, "bf16", 64)
    assert (layout.token_bytes, [part.name for part in layout.parts]) == (61 * 576 * 2, ["k"])
    assert layout.value_dim == layout.v_head_dim == 0
    assert layout.part_view(60, "k", 2).shape == (2, 64, 1, 576)
    with pytest.raises(InvalidArgumentError, match="part 'v' is not there; give one of k"):
        layout.part_view(0, "v", 2)


def test_different_head_sizes_of_k_and_v() -> None:
    layout = KVLayout(1, 2, 192, "bfloat16", 16, v_head_dim=128)
    assert layout.block_bytes == 16 * 2 * (192 + 128) * 2
    assert layout.part_view(0, "v", 3).shape == (3, 16, 2, 128)
    assert layout.part_view(0, "v", 3).offset == 16 * 2 * 192 * 2


@pytest.mark.parametrize("bad", [
    {"num_layers": 0}, {"num_kv_heads": -1}, {"head_dim": 1.5}, {"block_size": True}, {"head_dim": "8"},
    {"num_layers": 2**31}, {"v_head_dim": -1}, {"v_head_dim": 2.0}, {"dtype": "float64"}, {"dtype": None},
    {"dtype": "float8_e4m3"}, {"dtype": np.int64}, {"order": "token"}, {"order": None}, {"kv_layout": "nhd"},
    {"order": np.array(["layer", "block"])}, {"dtype": float}, {"dtype": int}, {"dtype": ["fp8"]},
    {"scales": True}, {"scales": 1}, {"scales": None}, {"dtype": "fp8", "scales": "yes"},
    {"dtype": "int8", "scales": True, "head_dim": 1, "block_size": 1},
    {"dtype": "fp8", "scales": True, "v_head_dim": 1, "block_size": 1},
    {"num_layers": 2**30, "num_kv_heads": 2**30, "head_dim": 2**10},
])  # fmt: skip
def test_what_is_no_layout(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        KVLayout(**GOOD | bad)


def test_a_layout_with_scales_says_which_sizes_it_takes() -> None:
    scaled = GOOD | {"dtype": "fp8", "scales": True, "num_kv_heads": 1, "head_dim": 3}
    for block_size in (1, 2, 3, 6):
        with pytest.raises(InvalidArgumentError, match="need a multiple of 4: a block_size that is one always does"):
            KVLayout(**scaled | {"block_size": block_size})
    for block_size in (4, 8, 12):
        KVLayout(**scaled | {"block_size": block_size})


def test_places_that_are_not_there() -> None:
    layout = KVLayout(**GOOD)
    for layer, part, blocks in ((2, "k", 4), (-1, "k", 4), (0, "k_scale", 4), (0, "K", 4), (0, "k", 0), (0.0, "k", 4)):
        with pytest.raises(InvalidArgumentError):
            layout.part_view(layer, part, blocks)  # type: ignore[arg-type]
    for block, offset in ((4, 0), (-1, 0), (0, 4), (0, -1), (0.0, 0)):
        with pytest.raises(InvalidArgumentError):
            layout.token_offset(block, offset, 4)  # type: ignore[arg-type]


def test_a_layout_is_frozen_equal_by_value_and_prints_what_it_is() -> None:
    layout = KVLayout(**GOOD)
    assert layout == KVLayout(**GOOD | {"dtype": np.float16, "v_head_dim": np.int64(8)})
    assert len({layout, KVLayout(**GOOD), replace(layout, order="layer")}) == 2
    assert eval(repr(layout), {"KVLayout": KVLayout}) == layout
    with pytest.raises(FrozenInstanceError):
        layout.head_dim = 4  # type: ignore[misc]


def test_numpy_integers_never_wrap() -> None:
    """A layout made of int32 computes past 2^32 all the same: none of them is left in it."""
    numbers = {name: np.int32(GOOD[name]) for name in ("num_layers", "num_kv_heads", "head_dim", "block_size")}
    layout = replace(KVLayout(**GOOD | numbers), order="layer")
    blocks, place = np.int32(2**30), np.int32(2**30 - 1)
    assert layout.token_offset(place, np.int32(3), blocks, np.int32(1), "v") == (  # type: ignore[arg-type]
        (1 * 384 + 192) * 2**30 + (2**30 - 1) * 192 + 3 * 48
    )
    extents = layout.extents(blocks)  # type: ignore[arg-type]
    assert extents.starts == (0, 192 * 2**30)
    assert extents.group_stride == 384 * 2**30


@pytest.mark.parametrize(("given", "name"), [
    ("bfloat16", "bfloat16"), (" BF16 ", "bfloat16"), ("torch.bfloat16", "bfloat16"), ("half", "float16"),
    (np.float16, "float16"), (np.dtype("float32"), "float32"), (np.dtype(np.int8), "int8"), ("float", "float32"),
    ("fp8", "float8_e4m3fn"), ("fp8_e5m2", "float8_e5m2"), ("jax.numpy.float8_e5m2", "float8_e5m2"),
])  # fmt: skip
def test_dtypes_by_name_and_by_object(given: object, name: str) -> None:
    assert dtype_of(given) is DTYPES[name]


@pytest.mark.parametrize("kind", DTYPES.values(), ids=str)
def test_numpy_sees_the_same_bytes(kind: Any) -> None:
    assert np.dtype(kind.storage).itemsize == kind.itemsize == kind.bits // 8


@pytest.mark.parametrize("order", ["block", "layer"])
def test_pools_of_both_orders_copy_fill_and_read_blocks(order: Any) -> None:
    layout = KVLayout(2, 2, 4, "fp8", 4, order=order, scales=True)
    with DevicePool(layout, 5, device="host") as pool:
        pool.fill_blocks(range(5), range(5))
        pool.copy_blocks([(4, 1)])
        assert pool.verify_blocks(range(5), [0, 4, 2, 3, 4]) == 0
        held = pool.read_blocks([1, 4])
        assert held[0].tobytes() == held[1].tobytes()
        assert pool.token_ptr(3, 2, 1, "v_scale") - pool.base == layout.token_offset(3, 2, 5, 1, "v_scale")
