"""Pools that leave out a part of what a plan asks for. Whoever compares contents must find them."""

from __future__ import annotations

from memory.plans import HandMadePlan
from pagedkv import DevicePool
from pagedkv.pool.device_pool import AppliedPlan
from pagedkv.streams import AnyStream


class CopylessPool(DevicePool):
    """Copies on write are planned and not carried out."""

    def apply(self, plan: AppliedPlan, stream: AnyStream | None = None) -> None:
        super().apply(HandMadePlan(plan.step, plan.copies[:0], plan.updates), stream)


class StaleTablesPool(DevicePool):
    """Once a line of the tables has an entry, no plan changes it any more."""

    def apply(self, plan: AppliedPlan, stream: AnyStream | None = None) -> None:
        known = self.__dict__.setdefault("known_entries", set())
        fresh = [entry[:2] not in known for entry in map(tuple, plan.updates.tolist())]
        known.update(entry[:2] for entry in map(tuple, plan.updates.tolist()))
        super().apply(HandMadePlan(plan.step, plan.copies, plan.updates[fresh]), stream)
