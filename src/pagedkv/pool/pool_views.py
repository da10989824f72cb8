"""Keys and values of one layer as tensors of any framework, in place."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from pagedkv.errors import InvalidArgumentError
from pagedkv.kv_layout import KVLayout, PartView
from pagedkv.pool.pool_bytes import PoolBytes
from pagedkv.pool.tensor_view import TensorView, ViewedMemory
from pagedkv.streams import AnyStream, SharedBuffer, Stream


@dataclass(frozen=True, slots=True)
class LayerViews:
    """Keys and values of one layer over all blocks of a pool, block id first; see TensorView.

    k: [blocks, block_size, heads, head_dim] in an NHD layout, [blocks, heads, block_size, head_dim] in an HND one; v:
    the same with v_head_dim, None in a latent layout. k_scale, v_scale: float32, k's shape without the last dimension;
    None unless the layout has scales. kv: K and V as one, [blocks, 2, ...]; None where their sizes differ, and with
    scales.
    The last dimension is contiguous in all of them.

    FlashInfer takes `kv`, or the tuple (k, v), as its paged cache, with its kv_layout the layout's: [blocks, 2,
    block_size, heads, head_dim] in NHD. FlashAttention takes k and v of an NHD layout beside a block table: [blocks,
    block_size, heads, head_dim], with a block_size of a multiple of 256 in its version 2. Both go by the strides, so
    both orders of blocks and layers do.
    """

    k: TensorView
    v: TensorView | None
    k_scale: TensorView | None
    v_scale: TensorView | None
    kv: TensorView | None


class PoolViews(PoolBytes):
    """A PoolBytes whose layers can be had as tensors. See `DevicePool`."""

    def layer(self, layer: int) -> LayerViews:
        """K and V of a layer (0 .. num_layers - 1) as zero-copy, writable, strided tensors over all blocks, the scratch
        blocks behind the others.

        Modifies nothing, touches no bytes and no stream. A view and every tensor made from it keep the memory alive,
        also after `close`, which gives memory back only when the last of them is gone; nobody else uses it by then.
        Raises InvalidArgumentError for a layer that is not there and for a pool of opaque tokens; BackendError if the
        pool is closed or lost. On the null backend views have shapes, strides and addresses only.
        """
        self.ensure_usable("layer")
        layout = self._kv_layout("layer")
        memory = self._viewed_memory()
        parts = {part.name: layout.part_view(layer, part.name, self.total_blocks) for part in layout.parts}
        views = {name: _view(part, self.base, memory) for name, part in parts.items()}
        return LayerViews(views["k"], views.get("v"), views.get("k_scale"), views.get("v_scale"), _joined(parts, views))

    def _kv_layout(self, call: str) -> KVLayout:
        if not isinstance(self.layout, KVLayout):
            raise InvalidArgumentError(
                f"{call} needs to know where keys and values lie, this pool has an {type(self.layout).__name__}; "
                "make the pool with a KVLayout"
            )
        return self.layout

    def _viewed_memory(self) -> ViewedMemory | None:
        if not isinstance(self._buffer, SharedBuffer):
            return None
        device, owner = self._buffer.share()
        # Weak: tensors keep the memory alive, not the pool.
        pool = weakref.ref(self)

        def stream() -> Stream | None:
            there = pool()
            return there._stream if there is not None and not there._closed else None

        def order(handle: int) -> None:
            there = pool()
            if there is not None and not there._closed:
                there._hold_back(handle)

        return ViewedMemory(owner, device, stream, order)

    def _hold_back(self, stream: AnyStream) -> None:
        """Later work on a stream waits for all work so far on the compute stream."""
        self.ensure_usable("__dlpack__")
        second = self.backend.as_stream(stream)
        if second == self._stream:
            return
        # No _guard: that a caller's stream is none, or is being captured, is no reason to lose the pool.
        event = self.backend.event()
        self._stream.record(event)
        second.wait(event)


def _view(part: PartView, base: int, memory: ViewedMemory | None) -> TensorView:
    itemsize = part.part.dtype.itemsize
    strides = tuple(stride // itemsize for stride in part.strides)
    return TensorView(part.shape, strides, part.part.dtype.name, base + part.offset, memory)


def _joined(parts: dict[str, PartView], views: dict[str, TensorView]) -> TensorView | None:
    """K and V as one tensor: the step from K to V is a stride like another, in any order of blocks and layers."""
    if set(views) != {"k", "v"} or views["k"].shape != views["v"].shape:
        return None
    k = views["k"]
    step = (parts["v"].offset - parts["k"].offset) // k.itemsize
    shape = (k.shape[0], 2, *k.shape[1:])
    return TensorView(shape, (k.strides[0], step, *k.strides[1:]), k.dtype, k.address, k._memory)
