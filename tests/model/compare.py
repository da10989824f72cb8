"""Runs one operation on the model and on the manager, and compares everything that both can show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from pagedkv import KVCacheManager, StepPlan
from pagedkv.errors import PagedKVError

from .plan import ModelPlan
from .reference import ModelManager
from .refusal import RefusalError
from .statistics import check_model, model_stats


@dataclass(frozen=True)
class Outcome:
    """A result, or the class and the figures of an error."""

    value: Any = None
    error: type[PagedKVError] | None = None
    figures: dict[str, int] = field(default_factory=dict)


def expected(call: Callable[[], object]) -> Outcome:
    try:
        return Outcome(value=call())
    except RefusalError as refused:
        return Outcome(error=refused.error, figures=refused.figures)


def actual(call: Callable[[], object], figures: dict[str, int]) -> Outcome:
    """``figures`` names the attributes that the error, if it is one, must carry."""
    try:
        return Outcome(value=call())
    except PagedKVError as error:
        return Outcome(error=type(error), figures={name: getattr(error, name) for name in figures})


def plan_lists(plan: StepPlan) -> ModelPlan:
    """A native plan in the model's form."""
    assert plan.served == len(plan.rows) == len(plan.lengths)
    return ModelPlan(
        step=plan.step,
        rows=plan.rows.tolist(),
        slots=plan.slots.tolist(),
        lengths=plan.lengths.tolist(),
        copies=[(int(source), int(target)) for source, target in plan.copies],
        updates=[(int(row), int(column), int(block)) for row, column, block in plan.updates],
    )


def assert_same(model: ModelManager, manager: KVCacheManager) -> None:
    """The whole observable state of both, block by block and sequence by sequence."""
    check_model(model)
    manager.check()
    assert manager.get_stats().as_dict() == pytest.approx(model_stats(model), rel=1e-12, abs=1e-12)
    assert (manager.last_step, manager.retired_step) == (model.last_step, model.pool.retired_step)
    _assert_same_sequences(model, manager)
    _assert_same_blocks(model, manager)


def _assert_same_sequences(model: ModelManager, manager: KVCacheManager) -> None:
    assert sorted(manager.seq_ids().tolist()) == sorted(model.sequences)
    for seq_id, sequence in model.sequences.items():
        assert seq_id in manager
        assert manager.row(seq_id) == sequence.row
        assert manager.seq_length(seq_id) == sequence.length
        assert manager.committed_length(seq_id) == sequence.committed
        assert manager.capacity_tokens(seq_id) == sequence.capacity
        table = manager.get_page_table(seq_id)
        assert table.entries.tolist() == sequence.table
        assert table.num_blocks == len(sequence.table)
        assert table.num_tokens == sequence.length
        assert table.filled_in_last == sequence.filled_in_last


def _assert_same_blocks(model: ModelManager, manager: KVCacheManager) -> None:
    allocator = manager.allocator
    assert allocator.num_free_blocks == model.pool.available
    assert allocator.num_pending_blocks == len(model.pool.pending)
    assert allocator.num_allocated_blocks == model.pool.allocated
    for block, entry in enumerate(model.pool.blocks):
        state = model.pool.state(block)
        assert allocator.state(block).name == state, f"block {block}"
        assert allocator.get_ref_count(block) == entry.refs, f"block {block}"
        assert allocator.block(block).fill == entry.fill, f"block {block}"
