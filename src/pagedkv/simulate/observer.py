"""What a run tells to those that watch it: byte verification, sums of shared blocks, its history, step logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pagedkv.simulate.counters import Rejection
    from pagedkv.simulate.scheduler import Scheduler
    from pagedkv.step_plan import StepPlan


class Observer:
    """Called by the scheduler as things happen; plans come in step order. An observer changes no bookkeeping.

    A subclass overrides what it needs to know; the rest does nothing.
    """

    def arrived(self, request: int, step: int) -> None:
        """The request was queued in this step."""

    def rejected(self, rejection: Rejection) -> None:
        """The request was due and could not fit an idle pool: it never runs."""

    def admitted(self, request: int, step: int) -> None:
        """The request runs from this step on, for the first time or again; its prompt is stored after this call."""

    def preempted(self, request: int, step: int) -> None:
        """The request lost its blocks and went back to the head of the queue; in this step it does not run."""

    def appended(self, plan: StepPlan, seq_ids: NDArray[np.int64], counts: NDArray[np.int32]) -> None:
        """A plan was made; its first `plan.served` sequences grew by their counts. Arrays valid for this call."""

    def forked(self, parent: int, children: Sequence[int]) -> None:
        """The children are copies of their parent from here on."""

    def reordered(self, plan: StepPlan, seq_ids: NDArray[np.int64], parents: NDArray[np.int64]) -> None:
        """A plan was made; seq_ids[i] became what seq_ids[parents[i]] was. Arrays valid for this call."""

    def measured(self, scheduler: Scheduler) -> None:
        """The step is about to be counted: growth and admission are over."""

    def ending(self, seq_ids: Sequence[int]) -> None:
        """These sequences have stored their last token and are freed after this call."""
