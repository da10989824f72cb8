"""Decode attention, on a GPU. See `kernels.KVKernels`."""

from __future__ import annotations

from pagedkv.kernels import DecodeBatch, PoolMemory
from pagedkv.streams import Stream


class CudaAttention:
    """See `pagedkv.kernels.KVKernels`."""

    def decode_attention(self, memory: PoolMemory, batch: DecodeBatch, stream: Stream) -> None:
        raise NotImplementedError
