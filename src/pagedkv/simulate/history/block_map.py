"""The block map: who owned which block at which moment, for some blocks and some moments of a run.

Blocks 0, s, 2s, ... at counted steps 0, t, 2t, ...; s and t double, so that what is kept is bounded. s grows only as
far as blocks were ever used: a large pool of which little is used shows that part in full, not one block of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pagedkv._core import BlockState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagedkv.manager import KVCacheManager
    from pagedkv.stats import CacheStats

FREE, CACHED, PENDING, SHARED = -1, -2, -3, -4


class BlockMap:
    """Samples block states. group_size: sequences a request; blocks, moments: most that are kept.

    steps: how many there will be at least. The first moments are then no closer than the last, which keeps the same
    ones and costs less; a run that is stopped before has fewer. Reads the manager, modifies only itself; no stream.
    Cost: one read of the page tables a sampled moment, of which there are O(moments x log(steps)).
    """

    def __init__(
        self, manager: KVCacheManager, group_size: int, *, blocks: int = 256, moments: int = 400, steps: int = 0
    ) -> None:
        self._manager = manager
        self._group_size = group_size
        self._cells = np.full((moments, min(blocks, manager.num_blocks)), FREE, dtype=np.int32)
        self._shift = 0  # block stride as a power of two: a mask finds its multiples
        self._steps: list[int] = []
        self._stride = 1
        while -(-steps // self._stride) > moments:
            self._stride *= 2
        self.next = 0  # the counted step, from 0, of the next moment

    def add(self, counted: int, step: int, ids: NDArray[np.int64], stats: CacheStats, *, ever_used: int) -> None:
        """Sample counted step `counted` == `next`, number `step`, in which `ids` run.

        stats: the manager's now. ever_used: a number that no block used so far reaches.
        """
        if len(self._steps) == len(self._cells):
            self._thin_moments()
            if counted != self.next:
                return
        while ever_used > self._cells.shape[1] << self._shift:
            self._thin_blocks()
        self._read(self._cells[len(self._steps)], ids, stats)
        self._steps.append(step)
        self.next = len(self._steps) * self._stride

    def result(self) -> dict[str, Any]:
        """Return the map: a row of cells a block. Valid for ever (a copy)."""
        stride = 1 << self._shift
        blocks = range(0, self._manager.num_blocks, stride)[: self._cells.shape[1]]
        return {
            "block_stride": stride,
            "blocks": list(blocks),
            "steps": list(self._steps),
            "step_stride": self._stride,
            "cells": self._cells[: len(self._steps), : len(blocks)].T.tolist(),
        }

    def _read(self, cells: NDArray[np.int32], ids: NDArray[np.int64], stats: CacheStats) -> None:
        blocks, indptr = self._tables(ids, stats.logical_blocks)
        if self._shift:
            sampled = ((blocks & ((1 << self._shift) - 1)) == 0).nonzero()[0]
            blocks = blocks[sampled] >> self._shift
            owners = ids[indptr.searchsorted(sampled.astype(np.int32), side="right") - 1]
        else:
            owners = ids.repeat(np.diff(indptr))
        cells[:] = FREE
        cells[blocks] = owners if self._group_size == 1 else owners // self._group_size
        if stats.saved_blocks:  # some block is in two sequences
            cells[np.bincount(blocks, minlength=len(cells)) > 1] = SHARED
        if stats.cached_blocks or stats.pending_blocks:
            self._read_free(cells, stats)

    def _tables(self, ids: NDArray[np.int64], entries: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return all page-table entries, sequence by sequence, and where each begins. entries: how many there are."""
        tables = self._manager.csr(ids)
        blocks, indptr = tables.indices, tables.indptr
        if len(blocks) < entries:
            # These tables end with what is stored; the newest sequence has the blocks of all of its prompt already.
            newest = self._manager.get_page_table(int(ids[-1])).entries
            blocks = np.concatenate([blocks[: indptr[-2]], newest])
            indptr[-1] = len(blocks)
        return blocks, indptr

    def _read_free(self, cells: NDArray[np.int32], stats: CacheStats) -> None:
        """Tell apart the blocks that no sequence has."""
        places = np.flatnonzero(cells[: -(-self._manager.num_blocks >> self._shift)] == FREE)
        if not stats.clean_blocks and not stats.pending_blocks:
            cells[places] = CACHED
            return
        state = self._manager.allocator.state
        for place in places.tolist():
            found = state(place << self._shift)
            if found is BlockState.CACHED:
                cells[place] = CACHED
            elif found is BlockState.PENDING:
                cells[place] = PENDING

    def _thin_moments(self) -> None:
        self._steps = self._steps[::2]
        self._cells[: len(self._steps)] = self._cells[::2].copy()
        self._stride *= 2
        self.next = len(self._steps) * self._stride

    def _thin_blocks(self) -> None:
        """Keep every second block; the new ones were never used before, so their cells are free."""
        kept = self._cells[:, ::2].copy()
        self._cells[:, kept.shape[1] :] = FREE
        self._cells[:, : kept.shape[1]] = kept
        self._shift += 1
