"""Decode attention over the pool's blocks."""

from __future__ import annotations

import math
from collections.abc import Sized
from dataclasses import replace

import numpy as np

from pagedkv.arguments import FLOAT32_MAX, INT32_MAX, finite_number, whole_number
from pagedkv.dtypes import COMPUTE_DTYPES
from pagedkv.errors import InvalidArgumentError
from pagedkv.kernels import DecodeBatch, StridedPlace, TableMemory
from pagedkv.kv_layout import KVLayout
from pagedkv.pool.pool_kv import PoolKV, checked_scales
from pagedkv.streams import AnyStream
from pagedkv.tables import BlockTables

# Outside, what kernels multiply scores by, in float32, would be infinite, or so small that it is taken for 0.
_SMALLEST_CAP, _LARGEST_CAP = 1e-6, 1e30


class PoolAttention(PoolKV):
    """A PoolKV that attention reads. See `DevicePool`."""

    tables: BlockTables

    def decode_attention(
        self,
        layer: int,
        queries: object,
        lengths: object,
        out: object,
        *,
        rows: object = None,
        table: object = None,
        starts: object = None,
        softmax_scale: float | None = None,
        scales: tuple[float, float] = (1.0, 1.0),
        causal: bool = True,
        window: int | None = None,
        softcap: float | None = None,
        stream: AnyStream | None = None,
    ) -> None:
        """softmax(q K^T * softmax_scale) V into `out`, for the last t tokens of each of n sequences: 1 when decoding,
        more to verify drafts.

        queries: [n, t, q_heads, head_dim], or [n, q_heads, head_dim] for t = 1; out: the same with v_head_dim, of the
        same dtype: float32, float16 or bfloat16, that of the layout unless it is an 8-bit one; any strides, elements
        contiguous. q_heads is a multiple of the KV heads; head h reads KV head h // (q_heads / kv_heads). Sequence i
        has tokens starts[i] up to lengths[i], not included (int32 [n]; no starts: from 0), K and V of its queries among
        them. They are found through `rows` (int32 [n], rows of `tables`) or `table` (int32 [n, width]): give one of
        them. What a row of the table does not reach, and what is in no block of the pool, is left out; where nothing is
        left the result is zeros.

        Query j of sequence i is token lengths[i] - t + j. causal: it attends to no token behind itself. window: of
        those up to itself, to the last `window` only. softcap: scores become softcap * tanh(score / softcap).
        softmax_scale: None is 1 / sqrt(head_dim). scales: what stored K and V are multiplied by in 8-bit layouts
        without scales of their own.

        Put on `stream` (None: the compute stream) and not waited for: tensors must stay until it has passed. The same
        inputs give the same bits. It may be captured into a graph, which keeps the address of `tables`: capture again
        when they have grown. It keeps the workspace of the stream it is captured on, too: no replay may run at the same
        time as another graph of that stream, or as calls on it. A GPU takes head sizes 64, 128 and 256, up to 16 query
        heads a KV head and up to 4 query tokens, the host any.
        Raises InvalidArgumentError, nothing written, for a pool without K and V, a layer that is not there, tensors of
        another format, shape, device or stride; BackendError if the pool is closed or lost.
        """
        self.ensure_usable("decode_attention")
        layout = self._kv_layout("decode_attention")
        if not layout.value_dim:
            raise InvalidArgumentError(
                "a latent layout has no V, decode attention needs both; give the pool a KVLayout with K and V: on a "
                "GPU with head size 64, 128 or 256, on the host with any"
            )
        backend = self.backend
        formats = (layout.dtype,) if layout.dtype in COMPUTE_DTYPES else COMPUTE_DTYPES
        asked = self._strided_queries(queries, formats)
        target = backend.as_strided(out, "out", (asked.dtype,), len(asked.shape), writable=True)
        _check_shapes(layout, asked, target)
        count = asked.shape[0]
        limits = self._numbers("lengths", lengths, count)
        firsts = None if starts is None else self._numbers("starts", starts, count)
        cells, lines = self._cells(rows, table, count)
        k_scale, v_scale = checked_scales(layout, scales)
        layout.part_view(layer, "k", 1)  # refuses a layer that is not there
        cap = 0.0 if softcap is None else _checked_cap(softcap)
        factor = _checked_factor(layout, softmax_scale, k_scale, cap)
        batch = DecodeBatch(
            layer,
            _by_token(asked),
            cells,
            lines,
            limits,
            firsts,
            _by_token(target),
            factor,
            k_scale,
            v_scale,
            causal=_checked_choice(causal),
            window=0 if window is None else whole_number(window, "window", minimum=1, maximum=INT32_MAX),
            softcap=cap,
        )
        queue = self._queue(stream)
        self.backend.kernels.prepare_attention(self._memory, batch, queue)  # what fails here has put nothing on it
        self._guard("decode_attention", lambda: self.backend.kernels.decode_attention(self._memory, batch, queue))

    def _strided_queries(self, queries: object, formats: tuple[str, ...]) -> StridedPlace:
        """With 3 dimensions or 4; not every tensor says how many it has before it is exported."""
        shape = getattr(queries, "shape", None)
        ndim = len(shape) if isinstance(shape, Sized) else None
        try:
            return self.backend.as_strided(queries, "queries", formats, 4 if ndim == 4 else 3)
        except InvalidArgumentError as error:
            if ndim is not None:
                raise
            try:
                return self.backend.as_strided(queries, "queries", formats, 4)
            except InvalidArgumentError:
                raise error from None

    def _cells(self, rows: object, table: object, count: int) -> tuple[StridedPlace | TableMemory, StridedPlace | None]:
        if (rows is None) == (table is None):
            raise InvalidArgumentError("give rows= (of the pool's tables) or table= (int32 [n, width]), one of them")
        if rows is None:
            return self._numbers("table", table, count, ndim=2), None
        lines = self._numbers("rows", rows, count)
        if self.tables.memory is None:
            raise InvalidArgumentError("no plan with table updates has been applied; apply one before rows are read")
        return self.tables.memory, lines

    def _numbers(self, name: str, value: object, count: int, ndim: int = 1) -> StridedPlace:
        place = self.backend.as_strided(value, name, ("int32",), ndim)
        if place.shape[0] != count:
            raise InvalidArgumentError(f"{name} has {place.shape[0]} entries for {count} queries; give {count}")
        return place


def _check_shapes(layout: KVLayout, queries: StridedPlace, out: StridedPlace) -> None:
    *_, heads, dim = queries.shape
    if dim != layout.head_dim or heads < 1 or heads % layout.num_kv_heads or 0 in queries.shape[1:]:
        raise InvalidArgumentError(
            f"queries have shape {queries.shape}; the layout has {layout.num_kv_heads} KV heads of {layout.head_dim} "
            "elements: give [n, a multiple of the KV heads, head_dim], with more than one query token a sequence "
            "[n, tokens, a multiple of the KV heads, head_dim]"
        )
    wanted = (*queries.shape[:-1], layout.value_dim)
    if out.shape != wanted:
        raise InvalidArgumentError(f"out has shape {out.shape}; give {wanted}")


def _by_token(place: StridedPlace) -> StridedPlace:
    """[n, t, heads, dim] of the same memory; without a dimension of tokens there is one."""
    if len(place.shape) == 4:
        return place
    (count, *shape), (step, *strides) = place.shape, place.strides
    array = None if place.array is None else place.array[:, None]
    return replace(place, shape=(count, 1, *shape), strides=(step, step, *strides), array=array)


def _checked_choice(causal: object) -> bool:
    if not isinstance(causal, (bool, np.bool_)):
        raise InvalidArgumentError(f"causal is {causal!r}; give True or False")
    return bool(causal)


def _checked_factor(layout: KVLayout, softmax_scale: object, k_scale: float, cap: float) -> float:
    """What q K^T is multiplied by, without k_scale. Kernels have all factors in one float32."""
    factor = 1 / math.sqrt(layout.head_dim) if softmax_scale is None else finite_number(softmax_scale, "softmax_scale")
    if not abs(factor * k_scale * (1 / cap if cap else math.log2(math.e))) <= FLOAT32_MAX:
        raise InvalidArgumentError(
            f"softmax_scale {factor:g} with K's scale {k_scale:g} and {f'softcap {cap:g}' if cap else 'no softcap'} "
            "leaves float32; give a smaller softmax_scale"
        )
    return factor


def _checked_cap(softcap: object) -> float:
    cap = finite_number(softcap, "softcap")
    if not _SMALLEST_CAP <= cap <= _LARGEST_CAP:
        raise InvalidArgumentError(
            f"softcap is {cap}; give a number of at least {_SMALLEST_CAP} and at most {_LARGEST_CAP}, or None for "
            "scores as they are"
        )
    return cap
