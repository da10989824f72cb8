"""Pairs, rows and bytes of blocks that are none: typed errors, and nothing is changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pagedkv import DevicePool, InvalidArgumentError, KVLayout

LAYOUTS = [KVLayout(2, 1, 3, "fp8", 1, order=order) for order in ("block", "layer")]


@pytest.mark.parametrize("layout", LAYOUTS, ids=["block", "layer"])
@pytest.mark.parametrize("pairs", [
    [0, 1, 2], [0, 1], [[0, 1], [2]], [[0, 1, 2, 0]], [[[0, 1]]], [[0], [1]], 3, None, "01", [[0.0, 1.0]],
    np.zeros((2, 0), np.int64),
], ids=str)  # fmt: skip
def test_copies_are_pairs(layout: KVLayout, pairs: Any) -> None:
    with DevicePool(layout, 3, device="host") as pool:
        pool.fill_blocks([0, 1, 2], [4, 5, 6])
        with pytest.raises(InvalidArgumentError, match=r"copies|block ids"):
            pool.copy_blocks(pairs)
        assert pool.verify_blocks([0, 1, 2], [4, 5, 6]) == 0
        pool.copy_blocks([])
        pool.copy_blocks(np.zeros((0, 2), np.int32))
        pool.copy_blocks(np.array([[0, 2]], np.uint8))
        assert pool.verify_blocks([0, 1, 2], [4, 5, 4]) == 0


@pytest.mark.parametrize("layout", LAYOUTS, ids=["block", "layer"])
def test_rows_of_blocks_are_numpy_bytes(layout: KVLayout) -> None:
    with DevicePool(layout, 3, device="host") as pool:
        size = layout.block_bytes
        read_only = np.zeros((1, size), np.uint8)
        read_only.flags.writeable = False
        for out in ([1], bytearray(size), np.zeros((1, size), np.int8), np.zeros((1, size - 1), np.uint8), read_only):
            with pytest.raises(InvalidArgumentError, match=r"out is .*; give writable, contiguous uint8"):
                pool.read_blocks([0], out=out)  # type: ignore[arg-type]
        for data in ([[1], [2, 3]], None, [[1, 2]], "text", np.zeros((1, size), np.int8)):
            with pytest.raises(InvalidArgumentError, match=r"data is .*give uint8"):
                pool.write_blocks([0], data)  # type: ignore[arg-type]
        assert not pool.read_blocks([0, 1, 2]).any()
