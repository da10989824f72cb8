"""A batch for decode attention in tensors of the GPU, and the lengths that matter.

Tolerances are of a head's result by its norm: float32 1e-5; 16-bit formats half the distance of neighboring numbers,
2^-8 and 2^-11, which is what rounding a result alone may cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from memory.attention_batches import AttentionBatch, Raw, Span, error_of
from pagedkv import DevicePool
from pagedkv.kernels.number_formats import to_float32

TOLERANCES = {"float32": 1e-5, "float16": 2.0**-11, "bfloat16": 2.0**-8}
HEAD_DIMS = [64, 128, 256]


def spans_of(block_size: int) -> list[Span]:
    """The lengths at which something changes, a few with padding in front, and one of several pieces."""
    lengths = [0, 1, block_size, block_size + 1, 15, 16, 17, 3 * block_size - 1, 900]
    return [
        *map(Span, lengths),
        Span(40, 39),
        Span(70, 5),
        Span(64, 64),
        Span(30, 31),
        Span(2 * block_size, block_size),
    ]


class OnGpu:
    """A batch in tensors on the GPU: queries and results cut out of larger tensors, results poisoned.

    apart: elements between a head's query and the next, in front of each.
    """

    def __init__(self, torch: Any, batch: AttentionBatch, *, apart: int = 0) -> None:
        self.torch, self.batch = torch, batch
        self.memory = torch.as_tensor(batch.memory, device="cuda")
        self.pool = DevicePool(batch.layout, batch.blocks, device="cuda:0", memory=self.memory)
        *front, heads, dim = batch.queries.shape
        self.queries = self._poisoned((*front, heads + 3, apart + dim))[..., 1 : heads + 1, apart:]
        self.queries.copy_(self._tensor(batch.queries))
        self._whole = self._poisoned((*front, heads + 2, dim + 8))
        self.out = self._whole[..., 1:-1, 4 : 4 + batch.layout.value_dim]
        self.table, self.lengths, self.starts = (
            torch.as_tensor(array, device="cuda") for array in (batch.table, batch.lengths, batch.starts)
        )
        torch.cuda.synchronize()

    def run(self, **options: Any) -> Raw:
        """The result; the margins around it are untouched."""
        self.launch(**options)
        self.torch.cuda.synchronize()
        return self.result()

    def launch(self, **options: Any) -> None:
        self._whole.fill_(float("nan"))
        self.torch.cuda.synchronize()
        where = {} if "rows" in options else {"table": self.table}
        given = {"starts": self.starts, "scales": self.batch.factors, **self.batch.rules.options, **where, **options}
        self.pool.decode_attention(self.batch.layer, self.queries, self.lengths, self.out, **given)

    def result(self) -> Raw:
        margins = self._whole.clone()
        margins[..., 1:-1, 4 : 4 + self.batch.layout.value_dim] = float("nan")
        assert bool(margins.isnan().all()), "written beside the result"
        return self._raw(self.out.contiguous())

    def error(self, **options: Any) -> float:
        return error_of(self.run(**options), self.batch.dtype, self.batch.expected)

    def _poisoned(self, shape: tuple[int, ...]) -> Any:
        return self.torch.full(shape, float("nan"), dtype=getattr(self.torch, self.batch.dtype), device="cuda")

    def _tensor(self, raw: Raw) -> Any:
        if self.batch.dtype != "bfloat16":
            return self.torch.as_tensor(raw, device="cuda")
        return self.torch.as_tensor(raw.view(np.int16), device="cuda").view(self.torch.bfloat16)

    def _raw(self, tensor: Any) -> Raw:
        if self.batch.dtype != "bfloat16":
            return np.asarray(tensor.cpu().numpy())
        return np.asarray(tensor.view(self.torch.int16).cpu().numpy().view(np.uint16))


def doubles(raw: Raw, dtype: str) -> Any:
    return to_float32(raw, dtype).astype(np.float64)
