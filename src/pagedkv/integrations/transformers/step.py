"""One forward pass of a model: where its new tokens go, and where attention finds the old ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pagedkv.integrations.transformers.masks import first_seen
from pagedkv.integrations.transformers.rows import Rows
from pagedkv.integrations.transformers.store import Store


class Step:
    """The tokens `start` up to `stop` of all rows. What kernels need is uploaded once, not once a layer."""

    def __init__(self, store: Store, rows: Rows, start: int) -> None:
        self._store = store
        self._rows = rows
        self.start = start
        self.stop = rows.length
        self.batch = len(rows)
        self.written: set[int] = set()
        self.unread: int | None = None
        self._all_slots: Any = None
        self._windows: list[tuple[torch.Tensor, Any]] = []
        self.locate()

    def locate(self) -> None:
        """Say where the new tokens go; again when rows got blocks of their own."""
        leaders = self._rows.leaders
        self._leaders = None if len(leaders) == self.batch else leaders
        slots = self._rows.slots(leaders, self.start)
        lengths = np.full(self.batch, self.stop, np.int32)
        self._slots, self.table_rows, self.lengths = self._store.upload(slots, self._rows.table_rows, lengths)
        self._all_slots = None

    @property
    def shares(self) -> bool:
        """Whether one row is written for several."""
        return self._leaders is not None

    def pending(self, layer: int) -> bool:
        """Whether a layer that took part before has not been written yet."""
        return layer not in self.written and layer in self._store.layers_seen

    def write(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        """Store K and V [batch, heads, tokens, dim] of a layer; of equal rows the first one's."""
        if self._leaders is not None:
            k, v = k[self._leaders], v[self._leaders]
        if self.stop > self.start:
            self._store.write(layer, k, v, self._slots)
        self.written.add(layer)
        self._store.layers_seen.add(layer)

    def gather(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V [batch, heads, stop, dim] of all rows: new tensors."""
        if self._all_slots is None:
            (self._all_slots,) = self._store.upload(self._rows.slots(range(self.batch), 0))
        return self._store.gather(layer, self._all_slots, self.batch)

    def stand_ins(self) -> tuple[torch.Tensor, torch.Tensor]:
        """See Store.stand_ins."""
        return self._store.stand_ins(self.batch, self.stop)

    def attend(
        self, layer: int, query: torch.Tensor, mask: torch.Tensor | None, scores: tuple[float | None, float | None]
    ) -> torch.Tensor | None:
        """Attention of one query a row, [batch, heads, 1, dim], over the blocks in place: [batch, 1, heads, dim].

        scores: their scale (None: 1 / sqrt(dim)) and their soft cap (None: none). Returns None where the kernel cannot
        do it: the mask hides something behind the first token that is seen, or the formats and sizes are none of the
        kernel's.
        """
        if not self._store.can_attend(query):
            return None
        starts = None if mask is None else self._first_seen(mask)
        if mask is not None and starts is None:
            return None
        places = (self.table_rows, self.lengths, starts)
        return self._store.attend(layer, query[:, :, 0], places, scores)[:, None]

    def _first_seen(self, mask: torch.Tensor) -> Any:
        # The layers of a model share one mask, or two where some have a sliding window: each is read once a step.
        for known, starts in self._windows:
            if known is mask:
                return starts
        first = first_seen(mask, self.batch, self.stop)
        starts = None if first is None else self._store.integers(first)
        self._windows.append((mask, starts))
        return starts
