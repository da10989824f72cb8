"""Byte verification of a run: what every sequence wrote must be what its page table leads to at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pagedkv.simulate.observer import Observer

if TYPE_CHECKING:
    from pagedkv.manager import KVCacheManager
    from pagedkv.pool import DevicePool
    from pagedkv.simulate.histories import Histories
    from pagedkv.simulate.prompt_histories import PromptHistories
    from pagedkv.step_plan import StepPlan

LISTED = 20


@dataclass(frozen=True, slots=True)
class Verification:
    """Sequences and tokens that were compared, tokens with other bytes, and the first 20 sequences of those."""

    sequences: int
    tokens: int
    wrong_tokens: int
    wrong_sequences: tuple[int, ...]


class ByteVerifier(Observer):
    """Writes a pattern that is unique to (sequence, position) for every appended token and compares it at the end.

    An observer of one run over `manager` and `pool`. histories: what one sequence holds another may have written, by a
    fork or as the same prompt; the pattern is that of its first writer then. Modifies the pool's bytes and tables; uses
    its compute stream.
    """

    def __init__(
        self, manager: KVCacheManager, pool: DevicePool, histories: Histories | PromptHistories | None = None
    ) -> None:
        self._manager = manager
        self._pool = pool
        self._histories = histories
        self._sequences = 0
        self._tokens = 0
        self._wrong_tokens = 0
        self._wrong_sequences: list[int] = []

    def appended(self, plan: StepPlan, seq_ids: NDArray[np.int64], counts: NDArray[np.int32]) -> None:
        """Carry the plan out and write the tokens through its slots."""
        self._pool.apply(plan)
        seq_ids, counts = seq_ids[: plan.served], counts[: plan.served]
        lengths = plan.lengths[: plan.served]
        histories = self._histories
        owners = np.repeat(seq_ids, counts) if histories is None else histories.wrote(seq_ids, counts, lengths)
        self._pool.fill_tokens(owners, positions_of(lengths, counts), plan.slots)

    def forked(self, parent: int, children: Sequence[int]) -> None:
        """Note what the children hold; a fork moves no bytes."""
        if self._histories is not None:
            self._histories.forked(parent, children)

    def reordered(self, plan: StepPlan, seq_ids: NDArray[np.int64], parents: NDArray[np.int64]) -> None:
        """Carry the plan out and note what the sequences hold now."""
        self._pool.apply(plan)
        if self._histories is not None:
            self._histories.reordered(seq_ids, parents)

    def ending(self, seq_ids: Sequence[int]) -> None:
        """Compare all tokens of these sequences through their page tables."""
        ids = np.array(seq_ids, dtype=np.int64)
        lengths = self._manager.seq_lens(ids)
        slots = self._manager.slot_mapping(ids)
        wrong = self._pool.verify_tokens(self._owners(ids), positions_of(lengths, lengths), slots)
        self._sequences += len(ids)
        self._tokens += len(slots)
        if wrong:
            self._wrong_tokens += wrong
            self._list_wrong(seq_ids)
        if self._histories is not None:
            self._histories.ended(seq_ids)

    def result(self) -> Verification:
        """Return the outcome so far (a copy)."""
        return Verification(self._sequences, self._tokens, self._wrong_tokens, tuple(self._wrong_sequences))

    def _owners(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return who wrote each token of these sequences."""
        lengths = self._manager.seq_lens(ids)
        if self._histories is None:
            return np.repeat(ids, lengths)
        return self._histories.owners(ids.tolist(), lengths)

    def _list_wrong(self, seq_ids: Sequence[int]) -> None:
        for seq_id in seq_ids:
            if len(self._wrong_sequences) == LISTED:
                return
            slots = self._manager.slot_mapping([seq_id])
            owners = self._owners(np.array([seq_id], dtype=np.int64))
            if self._pool.verify_tokens(owners, np.arange(len(slots), dtype=np.int64), slots):
                self._wrong_sequences.append(seq_id)


def positions_of(lengths: NDArray[np.int32], counts: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the positions of the last counts[i] tokens of sequences with lengths[i] tokens, concatenated.

    int64 [sum counts]: lengths[i] - counts[i] .. lengths[i] - 1 for each i in turn. Fresh array.
    """
    ends = np.cumsum(counts, dtype=np.int64)
    return np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64) + np.repeat(lengths - ends, counts)
