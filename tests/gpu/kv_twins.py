"""A pool on the GPU and its twin on the host with the same bytes, and tensors that both can take."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagedkv import DevicePool, KVLayout
from pagedkv.dtypes import DTYPES
from pagedkv.kernels.number_formats import from_float32

from .engine_side import random_memory

Array = npt.NDArray[Any]


class Tokens(NamedTuple):
    """The same (K, V) on the host and on the GPU, there cut out of `whole`."""

    host: tuple[Any, Any]
    gpu: tuple[Any, Any]
    whole: Any


class Twins:
    """`gpu` lives in `memory` (torch, uint8), `host` in the same bytes at the start."""

    def __init__(self, torch: Any, layout: KVLayout, blocks: int) -> None:
        self.torch, self.layout = torch, layout
        self.memory = random_memory(torch, layout.pool_bytes(blocks), seed=blocks)
        self.gpu = DevicePool(layout, blocks, device="cuda:0", memory=self.memory)
        self.host = DevicePool(layout, blocks, device="host", memory=_aligned(self.memory.cpu().numpy()))
        self.slots = blocks * layout.block_size

    def check(self) -> None:
        """Every byte of both pools."""
        self.gpu.stream.synchronize()
        np.testing.assert_array_equal(self.memory.cpu().numpy(), self.host.backend.host_view(self.host._buffer))

    def tensors(self, dtype: str, tokens: int, random: np.random.Generator, gap: int = 0) -> Tokens:
        """K and V (None where there is none), parts of wider tensors if gap > 0."""
        heads, dims = self.layout.num_kv_heads, (self.layout.head_dim, self.layout.value_dim)
        wide = random.normal(0, 40, (tokens, heads, sum(dims) + 2 * gap)).astype(np.float32)
        wide.reshape(-1)[: min(5, wide.size)] = [np.nan, np.inf, -np.inf, 1e-30, -3e38][: min(5, wide.size)]
        numbers = from_float32(wide, dtype)
        whole = to_torch(self.torch, numbers, dtype)
        second = dims[0] + gap
        host, gpu = (
            (side[..., : dims[0]], side[..., second : second + dims[1]] if dims[1] else None)
            for side in (numbers, whole)
        )
        return Tokens(host, gpu, whole)

    def close(self) -> None:
        self.gpu.close()
        self.host.close()


def to_torch(torch: Any, numbers: Array, dtype: str) -> Any:
    """Numbers in a format's storage type as a CUDA tensor of that format, finished."""
    tensor = torch.from_numpy(np.ascontiguousarray(numbers).view(np.uint8)).cuda().view(getattr(torch, dtype))
    torch.cuda.synchronize()
    return tensor.view(numbers.shape)


def to_numpy(torch: Any, tensor: Any, dtype: str) -> Array:
    """The way back."""
    raw = tensor.contiguous().view(torch.uint8).cpu().numpy()
    found: Array = raw.view(DTYPES[dtype].storage).reshape(tensor.shape)
    return found


def same_numbers(found: Array, wanted: Array) -> None:
    """Bit for bit; a NaN of float32 may be any."""
    if found.dtype == np.float32:
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        found, wanted = (np.where(np.isnan(wanted), 0, array).astype(np.float32) for array in (found, wanted))
    bits = f"u{found.itemsize}"
    np.testing.assert_array_equal(found.view(bits), wanted.view(bits))


def _aligned(content: Array) -> Array:
    raw = np.empty(content.size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    raw[start : start + content.size] = content
    return raw[start : start + content.size]
