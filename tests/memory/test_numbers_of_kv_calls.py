"""Scales and softmax factors: what float32 holds is taken from NumPy too, everything else is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pagedkv import DevicePool, InvalidArgumentError, KVLayout

ONE = np.ones((1, 1, 4), np.float32)
BAD = [10**400, 10**5000, -(10**5000), 1e39, np.complex64(1), np.bool_(True), np.array(1.0), "1", None]


def pool() -> DevicePool:
    return DevicePool(KVLayout(1, 1, 4, "int8", 2), 2, device="host")


def attend(there: DevicePool, out: Any, **options: Any) -> None:
    one = np.ones(1, np.int32)
    there.decode_attention(0, ONE, one, out, table=np.zeros((1, 1), np.int32), **options)


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{type(bad).__name__}")
def test_numbers_that_float32_does_not_hold(bad: Any) -> None:
    there, out = pool(), np.full_like(ONE, 7)
    calls: list[Callable[[], None]] = [
        lambda: there.write_kv(0, ONE, ONE, [0], scales=(bad, 1.0)),
        lambda: there.gather_kv(0, [0], out, out.copy(), scales=(1.0, bad)),
        lambda: attend(there, out, scales=(1.0, bad)),
    ]
    for call in calls:
        with pytest.raises(InvalidArgumentError, match=r"scales is .*; give"):
            call()
    if bad is not None:
        with pytest.raises(InvalidArgumentError, match=r"softmax_scale is .*; give a finite number"):
            attend(there, out, softmax_scale=bad)
    assert (out == 7).all()
    assert not there.read_blocks([0, 1]).any()


@pytest.mark.parametrize("kind", [float, np.float16, np.float32, np.float64, np.int32, np.uint8, int])
def test_numbers_of_numpy(kind: Any) -> None:
    there, out, expected = pool(), np.empty_like(ONE), np.empty_like(ONE)
    there.write_kv(0, ONE * 6, ONE * 9, [0], scales=(kind(2), kind(3)))
    assert (there.layer(0).k.numpy()[0, 0] == 3).all()
    attend(there, out, scales=(kind(2), kind(3)), softmax_scale=kind(2))
    attend(there, expected, scales=(2.0, 3.0), softmax_scale=2.0)
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("size", [10**400, 10**5000, -(10**5000)], ids=["400", "5000", "negative"])
def test_integers_too_long_to_print(size: int) -> None:
    with pytest.raises(InvalidArgumentError, match=r"num_layers is .*; give a number from 1"):
        KVLayout(size, 1, 4, "int8", 2)
    with pytest.raises(InvalidArgumentError, match=r"slots"):
        pool().write_kv(0, ONE, ONE, [size])
