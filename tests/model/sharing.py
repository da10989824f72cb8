"""Fork and reorder in the reference model: tables are lists, and sharing a block is counting one more holder.

Nothing here knows groups of forks: what they save must not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .blocks import ModelPool
from .growth import emit
from .plan import ModelPlan
from .sequences import ModelSequence, blocks_for
from .text import Text


@dataclass(frozen=True)
class Likeness:
    """What a child or a reordered sequence takes over: the blocks that hold tokens, not those only reserved."""

    table: list[int]
    length: int
    committed: int
    text: Text

    @classmethod
    def of(cls, sequence: ModelSequence) -> Likeness:
        columns = blocks_for(sequence.length, sequence.block_size)
        return cls(sequence.table[:columns], sequence.length, sequence.committed, sequence.text.copy())


def fork(pool: ModelPool, parent: ModelSequence, child: ModelSequence) -> None:
    """A registered, empty child becomes like its parent; its row has not been told of any block yet."""
    likeness = Likeness.of(parent)
    for block in likeness.table:
        pool.blocks[block].table_refs += 1
    _become(child, likeness)


def reorder(pool: ModelPool, plan: ModelPlan, batch: Sequence[ModelSequence], parents: Sequence[int]) -> None:
    """All new tables are read from the old ones, and all new references taken, before any old one is dropped."""
    moves = {i: Likeness.of(batch[parent]) for i, parent in enumerate(parents) if parent != i}
    for i, likeness in moves.items():
        for column in _differing(likeness.table, batch[i].table):
            pool.blocks[likeness.table[column]].table_refs += 1
    for i, sequence in enumerate(batch):
        changed = _move(pool, sequence, moves[i]) if i in moves else []
        emit(plan, sequence, changed)
        plan.rows.append(sequence.row)
        plan.lengths.append(sequence.length)


def _move(pool: ModelPool, sequence: ModelSequence, likeness: Likeness) -> list[int]:
    """Drop what the sequence no longer holds, deepest first; returns the columns that name another block now."""
    changed = _differing(likeness.table, sequence.table)
    for column in reversed(_differing(sequence.table, likeness.table)):
        pool.drop_table_ref(sequence.table[column])
    _become(sequence, likeness)
    return changed


def _differing(table: list[int], other: list[int]) -> list[int]:
    """The columns of ``table`` that are not the same block in ``other``."""
    return [column for column, block in enumerate(table) if other[column : column + 1] != [block]]


def _become(sequence: ModelSequence, likeness: Likeness) -> None:
    sequence.table = list(likeness.table)
    sequence.length, sequence.committed = likeness.length, likeness.committed
    sequence.text = likeness.text.copy()
    sequence.emitted = min(sequence.emitted, len(sequence.table))
