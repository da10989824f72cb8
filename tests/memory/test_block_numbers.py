"""What the self-test's numbered items rest on: one number over whole blocks, compared and scrubbed."""

from __future__ import annotations

from typing import Any

import pytest

from pagedkv import DevicePool, InvalidArgumentError, OpaqueLayout

DEVICES = ["host", pytest.param("cuda:0", marks=pytest.mark.gpu)]
LAYOUT = OpaqueLayout(512, 16)
FLOATS = LAYOUT.block_bytes // 4


@pytest.mark.parametrize("device", DEVICES)
def test_floats_are_counted_one_by_one(device: str) -> None:
    with DevicePool(LAYOUT, 8, device=device) as pool:
        pool.scrub_blocks(range(8))
        pool.fill_floats([1, 5], [1.5, -3.0])
        assert pool.verify_floats([1, 5], [1.5, -3.0]) == 0
        assert pool.verify_floats([1, 5], [1.5, 1.5]) == FLOATS
        assert pool.verify_floats([0, 2, 3, 4, 6, 7], 0) == 0, "neighbors are as they were"
        pool.scrub_blocks([5])
        assert pool.verify_floats([1, 5], [1.5, 0.0]) == 0
        pool.fill_floats([2], float("nan"))
        assert pool.verify_floats([2], float("nan")) == FLOATS, "a NaN is never equal"
        pool.fill_floats([], [])
        assert pool.verify_floats([], []) == 0


BAD = [
    ([0], ["x"]), ([0], None), ([0], True), ([0], "1.5"), ([0], 1e300), ([0], [[1], [1, 2]]),
    ([0, 1, 2], [1, 2]), ([8], [1]), ([-1], [1]), ([0.5], [1]),
]  # fmt: skip


@pytest.mark.parametrize(("ids", "values"), BAD, ids=str)
def test_bad_arguments_are_refused(ids: Any, values: Any) -> None:
    with DevicePool(LAYOUT, 8, device="host") as pool:
        for call in (pool.fill_floats, pool.verify_floats):
            with pytest.raises(InvalidArgumentError):
                call(ids, values)


def test_blocks_of_other_sizes_hold_no_floats() -> None:
    with (
        DevicePool(OpaqueLayout(13, 3), 8, device="host") as pool,
        pytest.raises(InvalidArgumentError, match="39 bytes"),
    ):
        pool.fill_floats([0], [1])
