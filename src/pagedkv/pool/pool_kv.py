"""Writing a step's keys and values into the pool, and reading a sequence's back."""

from __future__ import annotations

import numpy as np

from pagedkv.arguments import finite_number, integer_array, whole_number
from pagedkv.backends.device_array import DeviceArray
from pagedkv.dtypes import COMPUTE_DTYPES
from pagedkv.errors import InvalidArgumentError
from pagedkv.kernels import Place, StridedPlace, TokenKV
from pagedkv.kv_layout import KVLayout
from pagedkv.pool.pool_views import PoolViews
from pagedkv.streams import AnyStream


class PoolKV(PoolViews):
    """A PoolViews that keys and values are written to and read from. See `DevicePool`."""

    def write_kv(
        self,
        layer: int,
        k: object,
        v: object,
        slots: object,
        *,
        scales: tuple[float, float] = (1.0, 1.0),
        stream: AnyStream | None = None,
    ) -> None:
        """Scatter K and V of n tokens of one layer into their slots, converted to the layout's format.

        k: [n, heads, head_dim], v: [n, heads, v_head_dim] (None in a latent layout): float32, float16 or bfloat16 on
        the pool's device, both of one format, read in place: any strides of tokens and heads, elements contiguous.
        slots: n slots, one below 0 is skipped (padding). As a list or NumPy array they are checked and uploaded; as an
        int64 tensor on the device they are not looked at by the host, and a slot outside the pool is skipped. If two
        tokens have one slot, either may stay there, or some of both.
        Formats: the layout's own is copied bit by bit. Others are rounded to the nearest through float32, and what the
        format does not reach becomes its largest number; see kernels/number_formats.py. A layout with `scales` gets one
        for each token and head, largest magnitude / the format's largest number; another 8-bit layout stores value /
        scale with `scales` = (K's, V's).
        Put on `stream` (None: the compute stream) and not waited for: tensors must stay until it has passed. With slots
        on the device there is no upload and no allocation, so it may be captured into a graph and replayed.
        Raises InvalidArgumentError, nothing written, for a pool without a KVLayout or without bytes, a layer that is
        not there, tensors of another format, shape, device or stride, host slots outside the pool, and scales that are
        not positive; BackendError if the pool is closed or lost.
        """
        tokens = self._token_kv("write_kv", layer, (k, v), slots, scales)
        queue = self._queue(stream)
        self._guard("write_kv", lambda: self.backend.kernels.write_kv(self._memory, tokens, queue))

    def gather_kv(
        self,
        layer: int,
        slots: object,
        k: object,
        v: object,
        *,
        scales: tuple[float, float] = (1.0, 1.0),
        stream: AnyStream | None = None,
    ) -> None:
        """Gather K and V of n slots of one layer into `k` and `v`, converted to their format: the way back of write_kv.

        Arguments, stream and errors as write_kv; `k` and `v` are written, so none of their elements may share memory.
        A skipped slot leaves zeros. Numbers of an 8-bit layout are multiplied by their scale. Modifies nothing else.
        """
        tokens = self._token_kv("gather_kv", layer, (k, v), slots, scales, writable=True)
        queue = self._queue(stream)
        self._guard("gather_kv", lambda: self.backend.kernels.gather_kv(self._memory, tokens, queue))

    def _token_kv(
        self,
        call: str,
        layer: int,
        tensors: tuple[object, object],
        slots: object,
        scales: tuple[float, float],
        *,
        writable: bool = False,
    ) -> TokenKV:
        self.ensure_usable(call)
        layout = self._kv_layout(call)
        index = whole_number(layer, "layer", maximum=layout.num_layers - 1)
        factors = checked_scales(layout, scales)
        k = self._tensor("k", tensors[0], (layout.num_kv_heads, layout.head_dim), writable=writable)
        v = None
        if layout.value_dim:
            v = self._tensor("v", tensors[1], (layout.num_kv_heads, layout.value_dim), writable=writable)
            if (v.shape[0], v.dtype) != (k.shape[0], k.dtype):
                raise InvalidArgumentError(
                    f"k has {k.shape[0]} tokens of {k.dtype}, v has {v.shape[0]} of {v.dtype}; give them alike"
                )
            if writable and v.address == k.address and k.shape[0]:
                raise InvalidArgumentError(f"k and v both start at {k.address:#x}; give two tensors to write to")
        elif tensors[1] is not None:
            raise InvalidArgumentError("v was given, a latent layout has none; give v=None")
        return TokenKV(index, k, v, self._slots(slots, k.shape[0]), *factors)

    def _tensor(self, name: str, value: object, row: tuple[int, int], *, writable: bool) -> StridedPlace:
        if value is None:
            raise InvalidArgumentError(f"{name} is None; give a tensor of shape (n, {row[0]}, {row[1]})")
        place = self.backend.as_strided(value, name, COMPUTE_DTYPES, 3, writable=writable)
        if place.shape[1:] != row:
            raise InvalidArgumentError(f"{name} has shape {place.shape}; this layout takes (n, {row[0]}, {row[1]})")
        return place

    def _slots(self, slots: object, count: int) -> Place:
        on_device = hasattr(slots, "__dlpack__") or hasattr(slots, "__cuda_array_interface__")
        if on_device and not isinstance(slots, np.ndarray):
            place = self.backend.as_strided(slots, "slots", ("int64",), 1)
            found: Place = DeviceArray(place.address, place.shape, 8, place.array)
        else:
            limit = self.total_blocks * self.layout.block_size
            checked = integer_array(slots, "slots", minimum=-1, maximum=limit - 1).copy()
            found = DeviceArray(0, checked.shape, 8, checked)
        if found.shape[0] != count:
            raise InvalidArgumentError(f"{found.shape[0]} slots for {count} tokens; give one slot a token, -1 to skip")
        return found


def checked_scales(layout: KVLayout, scales: object) -> tuple[float, float]:
    """Scales as float32 holds them."""
    if not isinstance(scales, tuple) or len(scales) != 2:
        raise InvalidArgumentError(f"scales is {scales!r}; give (K's, V's), two numbers")
    with np.errstate(under="ignore"):
        found = [float(np.float32(finite_number(scale, "one of scales"))) for scale in scales]
    if min(found) <= 0:
        raise InvalidArgumentError(f"scales is {scales!r}; give numbers above 0 that float32 holds")
    if found != [1.0, 1.0] and (layout.scales or layout.element.itemsize > 1):
        why = "has scales of its own" if layout.scales else f"stores {layout.dtype}"
        raise InvalidArgumentError(f"scales is {scales!r}, this layout {why}; leave scales out")
    return found[0], found[1]
