"""Step-time models: what a step computes -> seconds. They are models: no kernel runs.

work -> roofline | linear (given, or fitted to measured steps) -> clock (arrivals, first tokens, ends) -> figures
"""

from __future__ import annotations

from pagedkv.simulate.step_time.clock import Clock
from pagedkv.simulate.step_time.fit import FittedSteps, fit_steps
from pagedkv.simulate.step_time.linear import LinearTime
from pagedkv.simulate.step_time.model import StepTime
from pagedkv.simulate.step_time.roofline import Roofline
from pagedkv.simulate.step_time.work import StepWork

__all__ = ["Clock", "FittedSteps", "LinearTime", "Roofline", "StepTime", "StepWork", "fit_steps"]
