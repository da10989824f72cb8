"""What a step-time model is asked."""

from __future__ import annotations

from typing import Any, Protocol

from pagedkv.simulate.step_time.work import StepWork


class StepTime(Protocol):
    """`seconds(work)`: of a step, above 0. `described()`: the model in plain data, as it goes into JSON."""

    def seconds(self, work: StepWork) -> float: ...
    def described(self) -> dict[str, Any]: ...
