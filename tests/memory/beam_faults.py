"""Engines and pools that each do one thing wrong with plans of shared blocks. The property must find every one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pagedkv import DevicePool, KVLayout, StepPlan
from pagedkv.backends.host import HostStream
from pagedkv.pool.device_pool import AppliedPlan
from pagedkv.streams import AnyStream

from .beam_engine import BLOCK_SIZE, BeamEngine
from .plans import HandMadePlan

Entries = dict[tuple[int, int], int]  # (row, column) -> block


class CopiesSkipped(BeamEngine):
    """Table updates are carried out, copies are not."""

    def apply(self, plan: AppliedPlan) -> None:
        self.pool.apply(HandMadePlan(plan.step, plan.copies[:0], plan.updates))


class CopiesBehindTheWrites(BeamEngine):
    """The step's own tokens are written first, and then overwritten by the copies that should have come before."""

    def apply_and_write(self, plan: StepPlan, writers: Sequence[int], positions: Sequence[int]) -> None:
        self.pool.fill_tokens(writers, positions, plan.slots)
        self.apply(plan)


class OnlyTheFirstCopy(BeamEngine):
    """Of several writers in one batch only one gets what it had."""

    def apply(self, plan: AppliedPlan) -> None:
        self.pool.apply(HandMadePlan(plan.step, plan.copies[:1], plan.updates))


class ReorderAppliedLate(BeamEngine):
    """The updates of a reorder reach the device one step late, unless a newer one for the same entry has come first."""

    def __init__(self) -> None:
        super().__init__()
        self.held: Entries = {}
        self.due: Entries = {}

    def apply(self, plan: AppliedPlan) -> None:
        new: Entries = {(row, column): block for row, column, block in plan.updates.tolist()}
        updates = [(*place, block) for place, block in {**self.due, **new}.items()]
        self.due = {place: block for place, block in self.held.items() if place not in new}
        self.held = {}
        self.pool.apply(HandMadePlan(plan.step, plan.copies, np.array(updates, np.int32).reshape(-1, 3)))

    def apply_reorder(self, plan: StepPlan) -> None:
        self.apply(HandMadePlan(plan.step, plan.copies, plan.updates[:0]))
        self.held = {(row, column): block for row, column, block in plan.updates.tolist()}


class ReorderForgotten(BeamEngine):
    """The updates of a reorder never reach the device."""

    def apply_reorder(self, plan: StepPlan) -> None:
        self.pool.apply(HandMadePlan(plan.step, plan.copies, plan.updates[:0]))


class ReorderedOneByOne(BeamEngine):
    """Each beam becomes what its parent is by now, not what it was before the call."""

    def plan_reorder(self, ids: Sequence[int], parents: Sequence[int]) -> list[StepPlan]:
        moves = [(target, ids[parent]) for target, parent in zip(ids, parents, strict=True) if target != ids[parent]]
        return [self.manager.reorder(move, [1, 1]) for move in moves]


class ChildrenReadUnnamed(BeamEngine):
    """Kernels run on children that no plan has named since their fork."""

    def name_before_reading(self, ids: Sequence[int]) -> None:
        pass


class SavedUnfenced(BeamEngine):
    """The copy stream reads a shared block without waiting for the kernels that wrote it, or copied it."""

    def order_copy_behind_compute(self) -> None:
        pass


class SavedAndFreedAtOnce(BeamEngine):
    """Blocks go to their next owner while a copy stream reads them for the holder that has ended."""

    def free_behind(self, step: int) -> int | None:
        return None


class UnorderedCopies(DevicePool):
    """Copies on write run at once, not behind what the compute stream has to do."""

    def apply(self, plan: AppliedPlan, stream: AnyStream | None = None) -> None:
        super().apply(HandMadePlan(plan.step, plan.copies[:0], plan.updates), stream)
        self.copy_blocks(plan.copies, HostStream())


class CopiesOnAnUnorderedStream(BeamEngine):
    """An engine on a pool of that kind."""

    pool_type = UnorderedCopies


class LayerMajorBeams(BeamEngine):
    """Sound, over a pool in which each layer's K and V lie apart."""

    layout = KVLayout(2, 1, 2, "int8", BLOCK_SIZE, order="layer")


class CopiesOfTheFirstLayer(DevicePool):
    """Copies on write leave out all layers but the first."""

    def apply(self, plan: AppliedPlan, stream: AnyStream | None = None) -> None:
        whole = self._memory
        self._memory = replace(whole, extents=replace(whole.extents, groups=1))
        super().apply(plan, stream)
        self._memory = whole


class FirstLayerCopied(LayerMajorBeams):
    """An engine on a pool of that kind."""

    pool_type = CopiesOfTheFirstLayer


class KeysCopied(LayerMajorBeams):
    """The copies are those of a pool whose layers have K only."""

    def apply(self, plan: AppliedPlan) -> None:
        pool, whole = self.pool, self.pool._memory
        keys = replace(whole.extents, sizes=whole.extents.sizes[:1], starts=whole.extents.starts[:1])
        pool._memory = replace(whole, extents=keys)
        pool.apply(plan)
        pool._memory = whole


class LayerMajorCopiesSkipped(CopiesSkipped, LayerMajorBeams):
    """Table updates are carried out, copies are not."""


class LayerMajorSavedUnfenced(SavedUnfenced, LayerMajorBeams):
    """The copy stream reads pieces that are not written yet."""


BEAM_FAULTS = (
    CopiesSkipped,
    CopiesBehindTheWrites,
    OnlyTheFirstCopy,
    ReorderAppliedLate,
    ReorderForgotten,
    ReorderedOneByOne,
    ChildrenReadUnnamed,
    SavedUnfenced,
    SavedAndFreedAtOnce,
    CopiesOnAnUnorderedStream,
    FirstLayerCopied,
    KeysCopied,
    LayerMajorCopiesSkipped,
    LayerMajorSavedUnfenced,
)
