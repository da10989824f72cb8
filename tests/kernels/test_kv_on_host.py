"""Kernels that write and gather keys and values, under the sanitizers, bit for bit against their NumPy twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pagedkv import KVLayout
from pagedkv.kernels.kv_shapes import gather_shape, scaled_shape, write_shape
from pagedkv.kernels.loader import kernel_source

from .host_build import HostKernels, KernelFaultError, Sparse
from .kv_launch import Case

_SLOTS = [7, -1, 0, 14, 12, 4, 20, 2**40, -(2**63), 9]  # 15 slots: the last of a pool of 5 blocks of 3 is 14


def _layout(dtype: str, heads: int = 2, dim: int = 16, block_size: int = 3, **options: Any) -> KVLayout:
    return KVLayout(2, heads, dim, dtype, block_size, **options)


# Every format, both orders and layouts, each width of access, V unlike K and absent.
_CASES = {
    "copy": (_layout("bfloat16"), "bfloat16", {}),
    "copy odd": (_layout("float16", 3, 5, v_head_dim=7), "float16", {}),
    "copy HND": (_layout("float32", 3, 8, kv_layout="HND", order="layer"), "float32", {"extra": 4}),
    "f32 f16": (_layout("float16", 1, 12, v_head_dim=4), "float32", {}),
    "f32 bf16 HND": (_layout("bfloat16", kv_layout="HND"), "float32", {}),
    "f16 bf16": (_layout("bfloat16", order="layer"), "float16", {"extra": 2}),
    "bf16 f32": (_layout("float32", 2, 6, v_head_dim=2), "bfloat16", {}),
    "f32 e4m3 scaled": (_layout("float8_e4m3fn", order="layer"), "float32", {"scales": (0.5, 3.0)}),
    "bf16 e5m2 scaled": (_layout("float8_e5m2", kv_layout="HND"), "bfloat16", {"scales": (1.0, 0.37)}),
    "f16 int8 scaled": (_layout("int8", 2, 4, 8), "float16", {"scales": (0.7, 1.0)}),
    "latent": (KVLayout.latent(2, 24, "float8_e4m3fn", 3), "bfloat16", {}),
}
_SCALED = {
    "e4m3": (_layout("float8_e4m3fn", scales=True, block_size=4), "bfloat16", {}),
    "e5m2 HND": (_layout("float8_e5m2", 3, 4, 4, scales=True, kv_layout="HND", v_head_dim=20), "float32", {"extra": 1}),
    "int8 by layer": (_layout("int8", 2, 64, 4, scales=True, order="layer"), "float16", {}),
    "latent": (KVLayout.latent(2, 576, "float8_e4m3fn", 4, scales=True), "bfloat16", {}),
}


def _same(found: Any, wanted: Any) -> None:
    """Bit for bit; a NaN of float32 may be any."""
    if found.dtype == np.float32:
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        found, wanted = (np.where(np.isnan(wanted), 0, array).astype(np.float32) for array in (found, wanted))
    bits = f"u{found.itemsize}"
    np.testing.assert_array_equal(found.view(bits), wanted.view(bits))


@pytest.mark.parametrize("name", _CASES)
def test_writes_every_token_into_its_slot(host_kernels: HostKernels, name: str, reverse: bool) -> None:
    layout, given, options = _CASES[name]
    case = Case(layout, given, _SLOTS, **options)
    places = case.places()
    case.launch(host_kernels, "write_kv", places, reverse=reverse)
    for part, wanted in case.written().items():
        _same(places[part], wanted)


@pytest.mark.parametrize("name", _SCALED)
def test_writes_numbers_and_their_scales(host_kernels: HostKernels, name: str, reverse: bool) -> None:
    layout, given, options = _SCALED[name]
    case = Case(layout, given, [slot if slot < 15 else 19 if slot == 20 else slot for slot in _SLOTS], **options)
    case.tokens["k"][2] = 0  # a scale of zero becomes one
    places = case.places()
    case.launch(host_kernels, "write_kv_scaled", places, reverse=reverse)
    wanted = case.written()
    assert len(wanted) == 2 * len(case.tokens)
    for part in wanted:
        _same(places[part], wanted[part])


@pytest.mark.parametrize("name", [*_CASES, *(f"scaled {name}" for name in _SCALED)])
def test_gathers_every_slot_and_leaves_zeros_elsewhere(host_kernels: HostKernels, name: str, reverse: bool) -> None:
    layout, given, options = _SCALED[name[7:]] if name.startswith("scaled ") else _CASES[name]
    case = Case(layout, given, _SLOTS, **options)
    places, wanted = case.places(), case.gathered()
    before = {part: array.copy() for part, array in places.items()}
    case.launch(host_kernels, "gather_kv", places, reverse=reverse)
    for part, array in case.tokens.items():
        _same(array, wanted[part])
    for part, array in places.items():
        np.testing.assert_array_equal(array, before[part])


def test_every_code_of_a_small_format_and_every_edge_of_it(host_kernels: HostKernels) -> None:
    """All 256 codes out, then back in from values at and beside every boundary between two of them."""
    for dtype in ("float8_e4m3fn", "float8_e5m2", "int8"):
        case = Case(_layout(dtype, 2, 16), "float32", list(range(15)))
        case.pool[:] = np.arange(case.pool.size)
        case.launch(host_kernels, "gather_kv", case.places())
        wanted = case.gathered()
        _same(case.tokens["k"], wanted["k"])
        finite = np.sort(np.unique(wanted["k"][np.isfinite(wanted["k"])]))
        middle = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
        edges = [middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.inf))]
        case.tokens["v"].reshape(-1)[:] = np.resize(np.concatenate(edges)[::2], case.tokens["v"].size)
        case.tokens["k"].reshape(-1)[:] = np.resize(np.concatenate(edges)[1::2], case.tokens["k"].size)
        places = case.places()
        case.launch(host_kernels, "write_kv", places)
        for part, bits in case.written().items():
            _same(places[part], bits)


@pytest.mark.parametrize(("count", "unroll"), [(1, 1), (33, 1), (700, 4)])
def test_many_tokens_are_cut_at_the_last(host_kernels: HostKernels, count: int, unroll: int) -> None:
    """Variants by size, with a CTA that holds the end of the tokens: beyond them is poison."""
    layout = _layout("float16", 8, 192, 16)
    slots = np.random.default_rng(1).permutation(50 * 16)[:count].tolist()
    case = Case(layout, "float16", slots, blocks=50)
    assert case.shape("write_kv").macros["UNROLL"] == unroll
    assert case.shape("gather_kv").macros["UNROLL"] == (1 if unroll == 1 else 2)
    places = case.places()
    case.launch(host_kernels, "write_kv", places)
    for part, wanted in case.written().items():
        _same(places[part], wanted)
    case.launch(host_kernels, "gather_kv", places)


def test_an_access_is_as_wide_as_everything_allows() -> None:
    def elements(dim: int, given: str, dtype: str, aligned: tuple[int, int] = (16, 16), **options: Any) -> int:
        layout = KVLayout(1, 2, dim, dtype, 16, **options)
        found = {f(layout, given, 5, aligned, scaled=False).macros["ELEMENTS"] for f in (write_shape, gather_shape)}
        assert len(found) == 1
        return int(found.pop())

    assert elements(128, "bfloat16", "bfloat16") == 8
    assert elements(128, "float32", "bfloat16") == 4
    assert elements(128, "bfloat16", "int8") == 8
    assert elements(128, "bfloat16", "bfloat16", (4, 16)) == 2
    assert elements(128, "bfloat16", "int8", (16, 2)) == 2
    assert elements(12, "bfloat16", "bfloat16") == 4
    assert elements(128, "bfloat16", "bfloat16", v_head_dim=33) == 1
    assert elements(576, "bfloat16", "bfloat16", v_head_dim=0) == 8


def test_lanes_are_as_many_as_a_head_has_items() -> None:
    def lanes(dim: int) -> int:
        return int(
            scaled_shape(KVLayout.latent(1, dim, "fp8", 16, scales=True), "bfloat16", 5, (16, 16)).macros["LANES"]
        )

    assert [lanes(dim) for dim in (8, 16, 40, 128, 576)] == [1, 2, 8, 16, 32]


def _far(block: int) -> tuple[Case, dict[str, Any], dict[str, Any]]:
    """A pool of 2 MiB blocks and one token in `block`: only its two rows have memory."""
    layout = KVLayout(32, 8, 128, "bfloat16", 16)
    case = Case(KVLayout(2, 8, 128, "bfloat16", 16), "bfloat16", [block * 16 + 15])
    case.layout, case.blocks = layout, block + 1
    rows = {name: np.random.default_rng(3).integers(0, 256, 2048, np.uint8) for name in ("k", "v")}
    start = block * layout.block_bytes + 15 * 2048
    return case, {name: Sparse(start + 2048, {start: row}) for name, row in rows.items()}, rows


@pytest.mark.parametrize("block", [1024, 2048, 4096, 40_000])
def test_far_blocks(host_kernels: HostKernels, block: int) -> None:
    case, places, rows = _far(block)
    case.launch(host_kernels, "write_kv", places)
    for name, row in rows.items():
        np.testing.assert_array_equal(row, case.tokens[name].reshape(-1).view(np.uint8))
        row[:] = row[::-1].copy()
    case.launch(host_kernels, "gather_kv", places)
    for name, row in rows.items():
        np.testing.assert_array_equal(row, case.tokens[name].reshape(-1).view(np.uint8))


@pytest.mark.parametrize("kernel", ["write_kv", "gather_kv"])
def test_an_offset_in_32_bits_is_found(host_kernels: HostKernels, kernel: str) -> None:
    case, places, _ = _far(2048)
    program = _planted(host_kernels, case, kernel, "* block_stride", "* (u32)block_stride % 4294967296")
    with pytest.raises(KernelFaultError, match="SEGV"):
        case.launch(host_kernels, kernel, places, program=program)


@pytest.mark.parametrize("kernel", ["write_kv", "gather_kv"])
@pytest.mark.parametrize("check", ["slot[i] < total_slots", "token < n"])
def test_a_check_that_is_left_out_is_found(host_kernels: HostKernels, kernel: str, check: str) -> None:
    case = Case(_layout("bfloat16"), "bfloat16", [0, 14, 30])
    program = _planted(host_kernels, case, kernel, check, f"({check} || true)")
    with pytest.raises(KernelFaultError, match=r"use-after-poison|SEGV"):
        case.launch(host_kernels, kernel, case.places(), program=program)


def test_scales_of_another_token_are_found(host_kernels: HostKernels) -> None:
    layout, given, _ = _SCALED["e4m3"]
    case = Case(layout, given, [3, 9])
    change = ("largest_of_thread[threadIdx.x - lane + i]", "largest_of_thread[i]")
    program = _planted(host_kernels, case, "write_kv_scaled", *change)
    places = case.places()
    case.launch(host_kernels, "write_kv_scaled", places, program=program)
    assert not np.array_equal(places["k_scale"], case.written()["k_scale"])


def _planted(kernels: HostKernels, case: Case, kernel: str, right: str, wrong: str) -> Any:
    source = kernel_source(kernel)
    assert right in source
    return kernels.build(source.replace(right, wrong), kernel, case.shape(kernel).macros)
