"""Exports of the reference model: the arrays that attention kernels want, as nested lists."""

from __future__ import annotations

from collections.abc import Sequence

from .reference import ModelManager
from .sequences import blocks_for


def padding_block(model: ModelManager) -> int:
    """A block that a kernel may read without harm: the scratch block behind the pool if there is one, else block 0."""
    return model.num_blocks if model.scratch_blocks else 0


def model_block_table(
    model: ModelManager, ids: Sequence[int], *, width: int, rows: int | None = None, pad: int | None = None
) -> list[list[int]]:
    filler = padding_block(model) if pad is None else pad
    tables = [model.sequences[seq_id].table for seq_id in ids]
    lines = [table + [filler] * (width - len(table)) for table in tables]
    return lines + [[filler] * width for _ in range((rows or len(ids)) - len(ids))]


def model_slot_mapping(
    model: ModelManager,
    ids: Sequence[int],
    *,
    starts: Sequence[int] | None = None,
    stops: Sequence[int] | None = None,
    total: int | None = None,
) -> list[int]:
    slots: list[int] = []
    for index, seq_id in enumerate(ids):
        sequence = model.sequences[seq_id]
        start = starts[index] if starts is not None else 0
        stop = stops[index] if stops is not None else sequence.length
        slots += sequence.slots(range(start, stop))
    return slots + [-1] * ((total if total is not None else len(slots)) - len(slots))


def model_csr(model: ModelManager, ids: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """By length: reserved blocks beyond it are no pages of the batch. ``last_page_len`` is 1..B, 0 for no page."""
    indptr, indices, last_page_len = [0], [], []
    for seq_id in ids:
        sequence = model.sequences[seq_id]
        indices += sequence.table[: blocks_for(sequence.length, model.block_size)]
        indptr.append(len(indices))
        last_page_len.append(sequence.last_page_len)
    return indptr, indices, last_page_len


def default_width(model: ModelManager, multiple_of: int = 1) -> int:
    """Columns for the longest legal sequence: max_tokens if there is a limit, else the whole pool."""
    columns = model.num_blocks if model.max_tokens is None else blocks_for(model.max_tokens, model.block_size)
    return blocks_for(columns, multiple_of) * multiple_of
