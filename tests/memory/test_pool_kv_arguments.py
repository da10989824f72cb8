"""Wrong arguments of write_kv and gather_kv: typed errors, and nothing changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pagedkv import BackendError, DevicePool, InvalidArgumentError, KVLayout, OpaqueLayout

from .kv_pools import filled, small_layout

_K = np.zeros((2, 2, 8), np.float32)
_ARGUMENTS: dict[str, Any] = {"layer": 0, "k": _K, "v": _K.copy(), "slots": [0, 1]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer": 3}, "layer is 3; give a number from 0 to 2"),
        ({"layer": -1}, "layer is -1"),
        ({"layer": True}, "layer is True"),
        ({"k": _K.astype(np.float64)}, "k is float64"),
        ({"v": _K.view(np.int32)}, "v is int32"),
        ({"k": _K[0]}, "k is float32 of shape"),
        ({"k": np.zeros((2, 3, 8), np.float32)}, r"k has shape \(2, 3, 8\); this layout takes \(n, 2, 8\)"),
        ({"v": np.zeros((2, 2, 4), np.float32)}, r"v has shape \(2, 2, 4\); this layout takes \(n, 2, 8\)"),
        ({"v": np.zeros((3, 2, 8), np.float32)}, "k has 2 tokens of float32, v has 3 of float32"),
        ({"v": _K.astype(np.float16)}, "v has 2 of float16"),
        ({"k": np.zeros((2, 2, 16), np.float32)[..., ::2]}, "k .*last dimension must be contiguous"),
        ({"k": None}, "k is None; give a tensor"),
        ({"v": None}, r"v is None; give a tensor of shape \(n, 2, 8\)"),
        ({"k": [[[1.0]]]}, "k is a list"),
        ({"slots": [0]}, "1 slots for 2 tokens"),
        ({"slots": [0, 20]}, "slots holds 20; give numbers from -1 to 19"),
        ({"slots": [0, -2]}, "slots holds -2"),
        ({"slots": [0.0, 1.0]}, "slots has type float64"),
        ({"slots": np.zeros((1, 2), np.int64)}, "slots has shape"),
        ({"slots": None}, "slots has type object"),
        ({"scales": (2.0, 1.0)}, "this layout stores float32"),
        ({"scales": 1.0}, "give .K's, V's., two numbers"),
        ({"scales": (1.0, float("nan"))}, "scales is nan; give a finite number"),
        ({"scales": (0.0, 1.0)}, "numbers above 0"),
        ({"scales": (1.0, -1.0)}, "numbers above 0"),
        ({"scales": (float("inf"), 1.0)}, "scales is inf; give a finite number"),
        ({"scales": (True, 1.0)}, "scales is True; give a finite number"),
        ({"scales": (1e-60, 1.0)}, "numbers above 0 that float32 holds"),
        ({"scales": (1e60, 1.0)}, "finite number that float32 holds"),
    ],
)
@pytest.mark.parametrize("call", ["write_kv", "gather_kv"])
def test_a_wrong_argument_changes_nothing(call: str, changes: dict[str, Any], message: str) -> None:
    pool, view = filled(small_layout(dtype="float32"))
    before = view.copy()
    with pytest.raises(InvalidArgumentError, match=message):
        getattr(pool, call)(**{**_ARGUMENTS, **changes})
    np.testing.assert_array_equal(view, before)
    assert not _K.any()
    assert pool.failure is None


def test_scales_of_a_layout_that_has_its_own() -> None:
    pool = DevicePool(small_layout(dtype="int8", scales=True), 2, device="host")
    with pytest.raises(InvalidArgumentError, match="has scales of its own"):
        pool.write_kv(**_ARGUMENTS, scales=(2.0, 1.0))


def test_a_latent_layout_has_no_v() -> None:
    pool = DevicePool(KVLayout.latent(1, 8, "float32", 4), 2, device="host")
    rows = np.ones((2, 1, 8), np.float32)
    with pytest.raises(InvalidArgumentError, match="v was given, a latent layout has none"):
        pool.write_kv(0, rows, rows, [0, 1])
    pool.write_kv(0, rows, None, [0, 1])


def test_outputs_must_be_writable_and_apart() -> None:
    pool = DevicePool(small_layout(dtype="float32"), 2, device="host")
    row = np.zeros((1, 2, 8), np.float32)
    same = np.broadcast_to(row, (2, 2, 8))
    pool.write_kv(0, same, same, [0, 1])
    with pytest.raises(InvalidArgumentError, match=r"k .*read-only"):
        pool.gather_kv(0, [0, 1], same, _K)
    with pytest.raises(InvalidArgumentError, match="k and v both start at"):
        pool.gather_kv(0, [0, 1], _K, _K)
    pool.gather_kv(0, [], _K[:0], _K[:0])


def test_pools_without_keys_and_values() -> None:
    opaque = DevicePool(OpaqueLayout(64, 4), 2, device="host")
    with pytest.raises(InvalidArgumentError, match=r"write_kv needs to know .* OpaqueLayout"):
        opaque.write_kv(**_ARGUMENTS)
    planned = DevicePool(small_layout(dtype="float32"), 2, device="null")
    with pytest.raises(InvalidArgumentError, match="addresses only"):
        planned.gather_kv(**_ARGUMENTS)
    pool = DevicePool(small_layout(dtype="float32"), 2, device="host")
    pool.close()
    for call in (pool.write_kv, pool.gather_kv):
        with pytest.raises(BackendError, match="closed"):
            call(**_ARGUMENTS)


def test_a_stream_of_another_backend() -> None:
    pool = DevicePool(small_layout(dtype="float32"), 2, device="host")
    with pytest.raises(InvalidArgumentError, match="no stream of this backend"):
        pool.write_kv(**_ARGUMENTS, stream=0)
