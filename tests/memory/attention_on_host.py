"""A batch for decode attention in tensors of the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from pagedkv import DevicePool
from pagedkv.backends.host import HostBackend
from pagedkv.dtypes import DTYPES

from .attention_batches import AttentionBatch, Raw, error_of


class OnHost:
    """A batch on the host: queries and results cut out of larger arrays, results poisoned."""

    def __init__(self, batch: AttentionBatch, device: HostBackend | str = "host") -> None:
        self.batch = batch
        self.pool = DevicePool(batch.layout, batch.blocks, device=device, memory=batch.memory)
        *front, heads, dim = batch.queries.shape
        count = len(batch.spans)
        self.queries = poisoned((*front, heads + 3, dim), batch)[..., 1 : heads + 1, :]
        self.queries[:] = batch.queries
        self.whole = poisoned((*front, heads + 2, batch.layout.value_dim + 4), batch)
        self.out = self.whole[..., 1:-1, 2:-2]
        wide = np.full((count, 2 * batch.width + 1), -1, np.int32)
        self.table = wide[:, : batch.width]
        self.table[:] = batch.table

    def run(self, **options: Any) -> Raw:
        batch = self.batch
        where = {} if "rows" in options else {"table": self.table}
        given = {"starts": batch.starts, "scales": batch.factors, **batch.rules.options, **where, **options}
        self.pool.decode_attention(batch.layer, self.queries, given.pop("lengths", batch.lengths), self.out, **given)
        return self.out

    def error(self, **options: Any) -> float:
        return error_of(self.run(**options), self.batch.dtype, self.batch.expected)


def poisoned(shape: tuple[int, ...], batch: AttentionBatch) -> Raw:
    size = DTYPES[batch.dtype].itemsize
    return np.full((*shape[:-1], shape[-1] * size), 0xFF, np.uint8).view(DTYPES[batch.dtype].storage)
