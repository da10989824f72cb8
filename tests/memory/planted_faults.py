"""Engines that each forget one wait, fence or deferral. The property of the interleavings must find every one."""

from __future__ import annotations

from pagedkv import DevicePool
from pagedkv.backends.host import HostStream
from pagedkv.pool.device_pool import AppliedPlan
from pagedkv.streams import Stream

from .engine import Engine
from .plans import HandMadePlan


class NoFence(Engine):
    """The copy stream touches blocks without waiting for the compute stream."""

    def order_copy_behind_compute(self) -> None:
        pass


class NoWaitForSwapIn(Engine):
    """Kernels read blocks without waiting for the copy stream that brings them in."""

    def order_compute_behind_copy(self) -> None:
        pass


class FreedAtOnce(Engine):
    """Blocks are given to the next owner while a copy stream still reads them."""

    def free_behind(self, step: int) -> int | None:
        return None


class CopyStreamForgotten(Engine):
    """A step counts as finished although its copy stream has not got there."""

    def streams_of_a_step(self) -> tuple[HostStream, ...]:
        return ()


class EventRecordedTooEarly(Engine):
    """The event that kernels wait for is recorded before the copy it stands for."""

    def order_copy_behind_compute(self) -> None:
        super().order_copy_behind_compute()
        self.early = self.backend.event()
        self.copy.record(self.early)

    def order_compute_behind_copy(self) -> None:
        self.compute.wait(self.early)


class FencelessPool(DevicePool):
    """The product itself is at fault: a fence that orders nothing."""

    def fence(self, stream: Stream) -> None:
        self.ensure_usable("fence")


class HastyPool(DevicePool):
    """The product itself is at fault: a step counts as finished as soon as its work is put on the streams."""

    def finished_step(self) -> int:
        return self.applied_step


class UnorderedCopiesPool(DevicePool):
    """The product itself is at fault: copies on write run at once, not behind what the compute stream has to do."""

    def apply(self, plan: AppliedPlan, stream: Stream | None = None) -> None:
        super().apply(HandMadePlan(plan.step, plan.copies[:0], plan.updates), stream)
        self.copy_blocks(plan.copies, HostStream())


class FaultyFence(Engine):
    """An engine on a FencelessPool."""

    pool_type = FencelessPool


class FaultyFinishedStep(Engine):
    """An engine on a HastyPool."""

    pool_type = HastyPool


class FaultyCopies(Engine):
    """An engine on an UnorderedCopiesPool."""

    pool_type = UnorderedCopiesPool


PLANTED = (
    NoFence,
    NoWaitForSwapIn,
    FreedAtOnce,
    CopyStreamForgotten,
    EventRecordedTooEarly,
    FaultyFence,
    FaultyFinishedStep,
    FaultyCopies,
)
