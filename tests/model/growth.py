"""Growth in the reference model: what a batch needs, counted before anything moves, and then the moves.

The count is exact. A write into a block with r references copies it first, so of k writers of one batch the first
min(k, r - 1) get copies and the last one, if it is then alone, writes in place. Pins never write, so they never leave.
Nor does the last one write in place over tokens of a former holder that work in flight may still read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .blocks import ModelPool
from .plan import ModelPlan
from .sequences import ModelSequence, blocks_for


@dataclass
class Growth:
    """One member of a batch: the positions [start, stop) get a place of its own; ``length`` is its length after."""

    sequence: ModelSequence
    start: int
    stop: int
    length: int

    def new_columns(self) -> int:
        return max(0, blocks_for(self.stop, self.sequence.block_size) - len(self.sequence.table))

    def written_columns(self) -> list[int]:
        """Columns that exist already and will be written."""
        table = self.sequence.table
        return [column for column in self.sequence.columns(self.start, self.stop) if column < len(table)]


def blocks_needed(pool: ModelPool, batch: list[Growth]) -> list[int]:
    """How many blocks each member takes, given that the members before it have been served."""
    left: Counter[int] = Counter()  # references that earlier members of the batch gave up by copying
    needs = []
    for growth in batch:
        need = growth.new_columns()
        for column in growth.written_columns():
            block = growth.sequence.table[column]
            if not pool.writable_in_place(block, growth.sequence.tokens_in_column(column), left[block]):
                left[block] += 1
                need += 1
        needs.append(need)
    return needs


def grow(pool: ModelPool, plan: ModelPlan, growth: Growth) -> int:
    """Serve one member; returns the number of copies. Must have been counted before: it cannot fail."""
    sequence = growth.sequence
    copied = [column for column in growth.written_columns() if _own_block(pool, plan, growth, column)]
    for _ in range(growth.new_columns()):
        block = pool.take()
        pool.blocks[block].table_refs = 1
        sequence.table.append(block)
    sequence.length = growth.length
    raise_fill(pool, sequence, growth.start)
    emit(plan, sequence, copied)
    plan.rows.append(sequence.row)
    plan.lengths.append(sequence.length)
    return len(copied)


def _own_block(pool: ModelPool, plan: ModelPlan, growth: Growth, column: int) -> bool:
    """Make one column writable: copy a shared block, un-publish an own one. True if it was copied."""
    sequence = growth.sequence
    block = sequence.table[column]
    if pool.writable_in_place(block, sequence.tokens_in_column(column)):
        pool.unpublish_for_write(block, sequence.tokens_in_column(column))
        return False
    fresh = pool.take()
    pool.blocks[fresh].table_refs = 1
    # The whole block is copied, but only this sequence's tokens count: what else lies there is another's.
    pool.blocks[fresh].fill = sequence.tokens_in_column(column)
    pool.drop_table_ref(block)
    sequence.table[column] = fresh
    plan.copies.append((block, fresh))
    return True


def raise_fill(pool: ModelPool, sequence: ModelSequence, start: int) -> None:
    """The tokens from ``start`` up to the length have been given a place: the high-water marks follow."""
    for column in sequence.columns(start, sequence.length):
        block = pool.blocks[sequence.table[column]]
        block.fill = max(block.fill, sequence.tokens_in_column(column))


def emit(plan: ModelPlan, sequence: ModelSequence, changed: list[int]) -> None:
    """Every entry that changed since it was last emitted: the columns named and all beyond ``emitted``."""
    columns = sorted({*changed, *range(sequence.emitted, len(sequence.table))})
    plan.updates.extend((sequence.row, column, sequence.table[column]) for column in columns)
    sequence.emitted = len(sequence.table)
