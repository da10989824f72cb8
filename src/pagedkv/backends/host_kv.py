"""Writing and gathering keys and values, in NumPy on host streams. See `kernels.KVKernels`."""

from __future__ import annotations

from collections.abc import Iterator

from pagedkv.backends.host_buffer import own_buffer
from pagedkv.backends.host_stream import own_stream
from pagedkv.kernels import PoolMemory, StridedPlace, TokenKV
from pagedkv.kernels.kv_reference import LayerPart, gather_part, layer_part, write_part
from pagedkv.kv_layout import KVLayout
from pagedkv.streams import Stream


class HostKV:
    """See `pagedkv.kernels.KVKernels`. Tensors are read and written when the work runs, as on a GPU."""

    def write_kv(self, memory: PoolMemory, tokens: TokenKV, stream: Stream) -> None:
        def run() -> None:
            for part, given, scale in _parts(memory, tokens):
                write_part(part, given.array, given.dtype, tokens.slots.array, scale)

        own_stream(stream).enqueue(run)

    def gather_kv(self, memory: PoolMemory, tokens: TokenKV, stream: Stream) -> None:
        def run() -> None:
            for part, out, scale in _parts(memory, tokens):
                gather_part(part, tokens.slots.array, out.array, out.dtype, scale)

        own_stream(stream).enqueue(run)


def pool_part(memory: PoolMemory, layer: int, name: str) -> LayerPart:
    """K or V of a layer of a pool on the host."""
    assert isinstance(memory.layout, KVLayout)
    return layer_part(own_buffer(memory.buffer).array, memory.layout, memory.num_blocks, layer, name)


def _parts(memory: PoolMemory, tokens: TokenKV) -> Iterator[tuple[LayerPart, StridedPlace, float]]:
    """K, then V where there is one: its place in the pool, the caller's tensor, the layout-wide scale."""
    for name, tensor, scale in (("k", tokens.k, tokens.k_scale), ("v", tokens.v, tokens.v_scale)):
        if tensor is not None:
            yield pool_part(memory, tokens.layer, name), tensor, scale
