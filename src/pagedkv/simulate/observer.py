"""What a run tells to those that watch it: byte verification, step logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pagedkv.simulate.scheduler import Scheduler
    from pagedkv.step_plan import StepPlan


class Observer(Protocol):
    """Called by the scheduler, in this order within a step. An observer changes no bookkeeping."""

    def appended(self, plan: StepPlan, seq_ids: NDArray[np.int64], counts: NDArray[np.int32]) -> None:
        """A plan was made; its first `plan.served` sequences grew by their counts. Arrays valid for this call."""

    def measured(self, scheduler: Scheduler) -> None:
        """The step is about to be counted: growth and admission are over."""

    def ending(self, seq_ids: Sequence[int]) -> None:
        """These sequences have stored their last token and are freed after this call."""
