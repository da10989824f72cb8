"""Decode attention, in NumPy on host streams. See `kernels.KVKernels`."""

from __future__ import annotations

from pagedkv.kernels import DecodeBatch, PoolMemory
from pagedkv.streams import Stream


class HostAttention:
    """See `pagedkv.kernels.KVKernels`."""

    def decode_attention(self, memory: PoolMemory, batch: DecodeBatch, stream: Stream) -> None:
        raise NotImplementedError
