"""Writing and gathering keys and values, on a GPU. See `kernels.KVKernels`."""

from __future__ import annotations

from pagedkv.kernels import PoolMemory, TokenKV
from pagedkv.streams import Stream


class CudaKV:
    """See `pagedkv.kernels.KVKernels`."""

    def write_kv(self, memory: PoolMemory, tokens: TokenKV, stream: Stream) -> None:
        raise NotImplementedError

    def gather_kv(self, memory: PoolMemory, tokens: TokenKV, stream: Stream) -> None:
        raise NotImplementedError
