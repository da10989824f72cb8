"""Engines that each do one thing wrong where contents are shared. The property must find every one."""

from __future__ import annotations

from dataclasses import replace

from pagedkv import StepPlan

from .plans import HandMadePlan
from .prefix_engine import BLOCK_SIZE, PrefixEngine
from .prefix_speakers import Speaker


class CommittedWhenPlanned(PrefixEngine):
    """Blocks are findable before the kernels that fill them are on the stream."""

    def step_planned(self) -> None:
        for seq_id, first, slots in self.planned:
            self.manager.commit([seq_id], [first + len(slots)])


class CopiesSkipped(PrefixEngine):
    """Who writes into what others hold gets a block of its own, but not what was in it."""

    def apply(self, plan: StepPlan) -> None:
        self.pool.apply(HandMadePlan(plan.step, plan.copies[:0], plan.updates))


class WrittenWhereTheOldTokensWere(PrefixEngine):
    """New tokens go into the block that was shared, not into the copy."""

    def slots_of(self, plan: StepPlan) -> list[int]:
        copied = {copy: source for source, copy in plan.copies.tolist()}
        places = (divmod(int(slot), BLOCK_SIZE) for slot in plan.slots)
        return [copied.get(block, block) * BLOCK_SIZE + offset for block, offset in places]


class SaltForgotten(PrefixEngine):
    """All tenants share one cache."""

    def as_told(self, speaker: Speaker) -> Speaker:
        return replace(speaker, salt=b"")


class PicturesForgotten(PrefixEngine):
    """Prompts count as equal whatever lies over their placeholder tokens."""

    def as_told(self, speaker: Speaker) -> Speaker:
        return replace(speaker, spans=())


class IdsOfOtherTokens(PrefixEngine):
    """Late ids are those of tokens that were sampled, but not kept."""

    def late_ids(self, speaker: Speaker) -> list[int]:
        return [1 - token for token in super().late_ids(speaker)]


class SavedUnfenced(PrefixEngine):
    """The copy stream reads blocks without waiting for the kernels that write them, its own or another sequence's."""

    def order_copy_behind_compute(self) -> None:
        pass


class SavedAndFreedAtOnce(PrefixEngine):
    """Blocks are evicted and written while a copy stream reads them."""

    def free_behind(self, step: int) -> int | None:
        return None


PREFIX_FAULTS = (
    CommittedWhenPlanned,
    CopiesSkipped,
    WrittenWhereTheOldTokensWere,
    SaltForgotten,
    PicturesForgotten,
    IdsOfOtherTokens,
    SavedUnfenced,
    SavedAndFreedAtOnce,
)
