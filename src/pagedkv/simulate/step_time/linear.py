"""A step's time as a linear function of what it computes: the coefficients are given, or fitted to measured steps."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate.step_time.work import StepWork


@dataclass(frozen=True, slots=True)
class LinearTime:
    """Seconds a step, a prefilled token, a decoding sequence, and a token of context (whose keys and values are read).

    Errors: InvalidArgumentError for a coefficient that is negative or no finite number, or if all are 0.
    """

    step: float
    prefill_token: float
    decode_sequence: float
    context_token: float

    def __post_init__(self) -> None:
        values = [getattr(self, field.name) for field in fields(self)]
        for field, value in zip(fields(self), values, strict=True):
            if not isfinite(value) or value < 0:
                raise InvalidArgumentError(f"{field.name} is {value} seconds; give 0 or more")
        if not self.step > 0 and not (self.prefill_token > 0 and self.decode_sequence > 0):
            raise InvalidArgumentError(
                "a step would take no time at all; give a time for every step, or for prefilled tokens and decoding "
                "sequences both"
            )

    def seconds(self, work: StepWork) -> float:
        """Return the seconds of a step. Pure."""
        return (
            self.step
            + self.prefill_token * work.prefill_tokens
            + self.decode_sequence * work.decode_sequences
            + self.context_token * work.context
        )

    def described(self) -> dict[str, Any]:
        """Return the coefficients, seconds."""
        return {"kind": "linear", **{f"{field.name}_seconds": getattr(self, field.name) for field in fields(self)}}
