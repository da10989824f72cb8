"""Writing and gathering keys and values on host pools: every layout byte for byte."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from pagedkv import DevicePool, InvalidArgumentError, KVLayout
from pagedkv.backends.host import HostBackend
from pagedkv.dtypes import DTYPES
from pagedkv.kernels.number_formats import from_float32, to_float32

from .kv_pools import BLOCKS, LAYERS, filled, small_layout

_LAYER = 1
_ORDERS = ("block", "layer")
_SLOTS = [7, -1, 0, 19, 12, 4]


LAYOUTS = [
    *(small_layout(dtype=dtype, order=o, kv_layout=k) for dtype, o, k in product(DTYPES, _ORDERS, ("NHD", "HND"))),
    *(small_layout(dtype=d, scales=True, order=o) for d, o in product(("float8_e4m3fn", "int8"), _ORDERS)),
    small_layout(dtype="float8_e5m2", scales=True, kv_layout="HND", v_head_dim=3),
    small_layout(v_head_dim=5, num_kv_heads=3),
    KVLayout.latent(LAYERS, 10, "bfloat16", 4),
    KVLayout.latent(LAYERS, 10, "float8_e4m3fn", 4, scales=True, order="layer"),
]


def _row_address(layout: KVLayout, part: str, block: int, offset: int, head: int) -> int:
    """The first byte of a head of a token in layer _LAYER, by the sentences of KVLayout's documentation."""
    dims = {"k": layout.head_dim, "v": layout.value_dim}
    names = [name for name in ("k", "v") if dims[name]]
    rows = {name: dims[name] * DTYPES[layout.dtype].itemsize for name in names}
    if layout.scales:
        rows |= {f"{name}_scale": 4 for name in names}
    bytes_of = {name: row * layout.num_kv_heads * layout.block_size for name, row in rows.items()}
    before = sum(size for name, size in bytes_of.items() if list(rows).index(name) < list(rows).index(part))
    layer_bytes = sum(bytes_of.values())
    if layout.order == "block":
        start = block * layer_bytes * layout.num_layers + _LAYER * layer_bytes + before
    else:
        start = BLOCKS * (_LAYER * layer_bytes + before) + block * bytes_of[part]
    row = offset * layout.num_kv_heads + head if layout.kv_layout == "NHD" else head * layout.block_size + offset
    return start + row * rows[part]


def _random(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    values = np.random.default_rng(seed).normal(0, 3, shape).astype(np.float32)
    values.reshape(-1)[:4] = [0, np.nan, np.inf, -1e30]
    return from_float32(values, dtype)


def _tensors(layout: KVLayout, dtype: str, count: int) -> tuple[Any, Any]:
    """K and V cut out of a wider tensor, so that tokens and heads have strides of their own."""
    heads = layout.num_kv_heads
    wide = _random((count, heads, layout.head_dim + layout.value_dim + 2), dtype, 3)
    v = wide[..., layout.head_dim + 1 : layout.head_dim + 1 + layout.value_dim]
    return wide[..., : layout.head_dim], v if layout.value_dim else None


def _expected_row(layout: KVLayout, row: Any, dtype: str, scale: float) -> tuple[bytes, bytes]:
    """The bytes of one head of one token, and of its scale."""
    if dtype == layout.dtype:
        return row.tobytes(), b""
    values = to_float32(row, dtype)
    own = b""
    if layout.scales:
        magnitudes = [min(abs(float(x)), 3.4028234663852886e38) for x in values if x == x]
        scale = float(np.float32(max(magnitudes)) / np.float32(layout.element.largest))
        own = np.float32(scale).tobytes()
    return from_float32((values / np.float32(scale)).astype(np.float32), layout.dtype).tobytes(), own


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_byte_is_where_it_belongs_and_no_other_changes(layout: KVLayout, dtype: str) -> None:
    pool, view = filled(layout)
    expected = view.copy()
    k, v = _tensors(layout, dtype, len(_SLOTS))
    scales = (2.5, 0.375) if layout.element.itemsize == 1 and not layout.scales else (1.0, 1.0)
    for part, tensor, scale in (("k", k, scales[0]), ("v", v, scales[1])):
        for token, head in product(range(len(_SLOTS)), range(layout.num_kv_heads)):
            if tensor is None or _SLOTS[token] < 0:
                continue
            block, offset = divmod(_SLOTS[token], 4)
            found = _expected_row(layout, tensor[token, head], dtype, scale)
            for name, data in zip((part, f"{part}_scale"), found, strict=True):
                if data:
                    start = _row_address(layout, name, block, offset, head)
                    expected[start : start + len(data)] = np.frombuffer(data, np.uint8)
    pool.write_kv(_LAYER, k, v, _SLOTS, scales=scales)
    np.testing.assert_array_equal(view, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_what_is_gathered_is_what_the_pool_holds(layout: KVLayout, dtype: str) -> None:
    pool, view = filled(layout)
    k, v = _tensors(layout, "float32", len(_SLOTS))
    pool.write_kv(_LAYER, k, v, _SLOTS)
    before = view.copy()
    outs = [t if t is None else np.full((6, *t.shape[1:]), 7, DTYPES[dtype].storage) for t in (k, v)]
    slots = [19, 0, -1, 12, 4, 7]
    pool.gather_kv(_LAYER, slots, *outs)
    np.testing.assert_array_equal(view, before)
    for part, out in zip("kv", outs, strict=True):
        for token, head in product(range(6), range(layout.num_kv_heads)):
            if out is None:
                continue
            wanted = np.zeros(out.shape[2], np.float32)
            if slots[token] >= 0:
                block, offset = divmod(slots[token], 4)
                start = _row_address(layout, part, block, offset, head)
                row = view[start : start + wanted.size * layout.element.itemsize].view(layout.element.storage)
                wanted = to_float32(row, layout.dtype)
                if layout.scales:
                    start = _row_address(layout, f"{part}_scale", block, offset, head)
                    with np.errstate(over="ignore"):  # 127 x (float32's largest / 127) rounds to infinity
                        wanted = wanted * view[start : start + 4].view(np.float32)
            np.testing.assert_array_equal(out[token, head], from_float32(wanted, dtype))


def test_scales_of_the_whole_layer_and_of_each_head_keep_the_size() -> None:
    values = np.random.default_rng(2).normal(0, 50, (6, 2, 8)).astype(np.float32)
    for layout, scales in (
        (small_layout(dtype="fp8"), (0.5, 0.5)),
        (small_layout(dtype="fp8", scales=True), (1.0, 1.0)),
    ):
        pool = DevicePool(layout, BLOCKS, device="host")
        pool.write_kv(0, values, -values, range(6), scales=scales)
        k, v = np.empty_like(values), np.empty_like(values)
        pool.gather_kv(0, range(6), k, v, scales=scales)
        assert np.abs(k - values).max() <= np.abs(values).max() / 16
        np.testing.assert_array_equal(v, -k)


def test_a_vector_of_zeros_has_scale_one() -> None:
    pool = DevicePool(small_layout(dtype="int8", scales=True), BLOCKS, device="host")
    zeros = np.zeros((1, 2, 8), np.float32)
    pool.write_kv(0, zeros, zeros + np.float32(1e-45), [0])
    assert pool.backend.host_view(pool._buffer).view(np.float32)[32:34].tolist() == [1, 1]
    k, v = np.full_like(zeros, 9), np.full_like(zeros, 9)
    pool.gather_kv(0, [0], k, v)
    assert not k.any()
    assert not v.any()


class OnDevice:
    """Slots as a device has them: DLPack, not looked at."""

    def __init__(self, slots: list[int]) -> None:
        self.array = np.array(slots, np.int64)

    def __dlpack__(self) -> object:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_slots_on_the_device_are_read_when_the_work_runs_and_skipped_outside() -> None:
    backend = HostBackend(stepped=True)
    pool = DevicePool(small_layout(dtype="float32"), BLOCKS, device=backend)
    rows = np.arange(64, dtype=np.float32).reshape(4, 2, 8)
    slots = OnDevice([3, 3, 3, 3])
    pool.write_kv(0, rows, rows, slots)
    slots.array[:] = [20, -9, 2**62, 5]
    rows[3] += 1000
    k, v = np.full_like(rows, np.nan), np.full_like(rows, np.nan)
    pool.gather_kv(0, [5, -1, 3, 19], k, v)
    assert np.isnan(k).all()
    pool.stream.synchronize()
    np.testing.assert_array_equal(k[0], rows[3])
    assert not k[1:].any()
    np.testing.assert_array_equal(v, k)


def test_host_slots_are_read_at_once() -> None:
    pool = DevicePool(small_layout(dtype="float32"), BLOCKS, device=HostBackend(stepped=True))
    rows, slots = np.ones((1, 2, 8), np.float32), np.array([4])
    pool.write_kv(0, rows, rows, slots)
    slots[0] = 9
    pool.stream.synchronize()
    out = [np.empty((2, 2, 8), np.float32) for _ in range(2)]
    pool.gather_kv(0, [4, 9], *out)
    pool.stream.synchronize()
    assert (out[0][0] == 1).all()
    assert not out[0][1].any()


def test_no_tokens_and_scratch_blocks() -> None:
    pool = DevicePool(small_layout(dtype="float32"), BLOCKS, device="host", scratch_blocks=1)
    none = np.zeros((0, 2, 8), np.float32)
    pool.write_kv(0, none, none, [])
    pool.gather_kv(2, [], none, none)
    one = np.ones((1, 2, 8), np.float32)
    pool.write_kv(0, one, one, [23])
    with pytest.raises(InvalidArgumentError, match="slots holds 24; give numbers from -1 to 23"):
        pool.write_kv(0, one, one, [24])


def test_torch_tensors_on_the_host() -> None:
    torch = pytest.importorskip("torch")
    pool = DevicePool(small_layout(), BLOCKS, device="host")
    k = torch.randn(4, 2, 8).to(torch.bfloat16)
    pool.write_kv(0, k, -k, torch.tensor([3, 1, 17, 99]))
    out = [torch.full((4, 2, 8), 9, dtype=torch.bfloat16) for _ in range(2)]
    pool.gather_kv(0, [3, 1, 17, -1], *out)
    assert torch.equal(out[0][:3], k[:3])
    assert torch.equal(out[1][:3], -k[:3])
    assert not out[0][3].any()
