"""Writing and gathering keys and values, in NumPy on host streams. See `kernels.KVKernels`."""

from __future__ import annotations

from pagedkv.kernels import PoolMemory, TokenKV
from pagedkv.streams import Stream


class HostKV:
    """See `pagedkv.kernels.KVKernels`."""

    def write_kv(self, memory: PoolMemory, tokens: TokenKV, stream: Stream) -> None:
        raise NotImplementedError

    def gather_kv(self, memory: PoolMemory, tokens: TokenKV, stream: Stream) -> None:
        raise NotImplementedError
