"""An engine's memory becomes a pool in place, is seen by both sides, and is never freed by us."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from memory import pattern_by_hand
from pagedkv import DevicePool, OpaqueLayout
from pagedkv.errors import InvalidArgumentError

from .engine_side import DlpackOnly, InterfaceOnly, block_of, random_memory

pytestmark = pytest.mark.gpu

LAYOUT = OpaqueLayout(24, 3)
BLOCKS = 40
NBYTES = BLOCKS * LAYOUT.block_bytes

OFFERS: dict[str, Callable[[Any], object]] = {
    "tensor": lambda tensor: tensor,
    "dlpack": DlpackOnly,
    "interface": InterfaceOnly,
    "pointer": lambda tensor: (tensor.data_ptr(), tensor.numel()),
}


def check_in_place(torch: Any, memory: object, tensor: Any) -> None:
    """The pool works in `tensor`'s bytes; the other bytes stay; closing leaves it all to its owner."""
    before = tensor.cpu().numpy().copy()
    pool = DevicePool(LAYOUT, BLOCKS, device="cuda:0", memory=memory)
    assert pool.base == tensor.data_ptr()
    pool.fill_blocks([39], 5)
    pool.fill_tokens(8, [2], [4])
    pool.copy_blocks([(39, 0)])
    pool.close()
    before[-72:] = before[:72] = np.frombuffer(pattern_by_hand.token(5, -1, 72), np.uint8)
    before[4 * 24 : 5 * 24] = np.frombuffer(pattern_by_hand.token(8, 2, 24), np.uint8)
    assert np.array_equal(tensor.cpu().numpy(), before)
    tensor.random_(0, 256)
    again = DevicePool(LAYOUT, BLOCKS, device="cuda:0", memory=memory)
    torch.cuda.synchronize()
    held = again.read_blocks(range(BLOCKS))
    again.stream.synchronize()
    assert np.array_equal(held.reshape(-1), tensor.cpu().numpy())
    again.close()


@pytest.mark.parametrize("offer", OFFERS)
def test_a_tensor_is_used_in_place_and_never_freed(torch: Any, offer: str) -> None:
    tensor = random_memory(torch, NBYTES)
    allocated = torch.cuda.memory_allocated()
    check_in_place(torch, OFFERS[offer](tensor), tensor)
    assert torch.cuda.memory_allocated() == allocated
    assert int(tensor.sum()) > 0


@pytest.mark.parametrize("wrap", [lambda array: array, DlpackOnly, InterfaceOnly], ids=["array", "dlpack", "interface"])
def test_a_cupy_array_is_used_in_place(torch: Any, cupy: Any, wrap: Callable[[Any], object]) -> None:
    array = cupy.random.randint(0, 256, NBYTES, dtype=cupy.uint8)
    cupy.cuda.Device().synchronize()
    check_in_place(torch, wrap(array), torch.from_dlpack(array))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int8", "float8_e4m3fn"])
def test_the_element_type_of_the_engines_cache_does_not_matter(torch: Any, dtype: str) -> None:
    tensor = torch.empty((2, 8, 16, 4, 64), dtype=getattr(torch, dtype), device="cuda")
    layout = OpaqueLayout(tensor.nbytes // 64, 8)
    with DevicePool(layout, 8, device="cuda:0", memory=tensor) as pool:
        assert pool.base == tensor.data_ptr()
        pool.fill_blocks([7], 1)
        pool.stream.synchronize()
        held = block_of(tensor.view(torch.uint8).reshape(-1), layout, 7)
        assert held.tobytes() == pattern_by_hand.token(1, -1, layout.block_bytes)


def test_a_slice_of_a_larger_tensor_keeps_its_surroundings(torch: Any) -> None:
    whole = random_memory(torch, NBYTES + 512)
    before = whole.cpu().numpy().copy()
    with DevicePool(LAYOUT, BLOCKS, device="cuda:0", memory=whole[256 : 256 + NBYTES]) as pool:
        pool.fill_blocks(range(BLOCKS), range(BLOCKS))
        assert pool.verify_blocks(range(BLOCKS), range(BLOCKS)) == 0
    after = whole.cpu().numpy()
    assert np.array_equal(after[:256], before[:256])
    assert np.array_equal(after[256 + NBYTES :], before[256 + NBYTES :])


def test_the_pool_keeps_the_tensor_alive_and_lets_it_go(torch: Any) -> None:
    tensor = random_memory(torch, NBYTES)
    gone = weakref.ref(tensor)
    pool = DevicePool(LAYOUT, BLOCKS, device="cuda:0", memory=tensor)
    del tensor
    gc.collect()
    assert gone() is not None
    pool.close()
    del pool
    gc.collect()
    assert gone() is None


def test_memory_that_cannot_be_a_pool(torch: Any) -> None:
    good = random_memory(torch, 2 * NBYTES)
    refused: list[object] = [
        torch.zeros(NBYTES, dtype=torch.uint8),  # the host's
        np.zeros(NBYTES, np.uint8),
        good[::2],
        good.view(2, NBYTES)[:, : NBYTES // 2],
        good[: NBYTES - 1],
        good[8 : 8 + NBYTES],  # not on a multiple of 16
        (good.data_ptr(), NBYTES - 1),
        (good.data_ptr(), 0),
        (np.zeros(NBYTES, np.uint8).ctypes.data, NBYTES),
        (good.data_ptr(), float(NBYTES)),
        good.data_ptr(),
        "tensor",
    ]
    for memory in refused:
        with pytest.raises(InvalidArgumentError):
            DevicePool(LAYOUT, BLOCKS, device="cuda:0", memory=memory)
    with DevicePool(LAYOUT, BLOCKS, device="cuda:0", memory=good) as pool:
        assert pool.verify_blocks([0], 1) == 1, "and the device is none the worse"
