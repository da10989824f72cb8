"""The contiguous systems: a reservation and a placement each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate.reservation.buddy import Buddy
from pagedkv.simulate.reservation.counting import Counting
from pagedkv.simulate.reservation.first_fit import FirstFit
from pagedkv.simulate.reservation.lengths import RESERVATIONS
from pagedkv.simulate.reservation.placement import Placement

PLACEMENTS: dict[str, Callable[[int, int], Placement]] = {
    "counting": lambda tokens, longest: Counting(tokens),
    "first_fit": lambda tokens, longest: FirstFit(tokens),
    "buddy": Buddy,
}


@dataclass(frozen=True, slots=True)
class ContiguousSystem:
    """reservation: max, pow2 or oracle; placement: counting, first_fit or buddy. Errors: InvalidArgumentError."""

    reservation: str
    placement: str

    def __post_init__(self) -> None:
        for name, value, known in (
            ("reservation", self.reservation, RESERVATIONS),
            ("placement", self.placement, PLACEMENTS),
        ):
            if value not in known:
                raise InvalidArgumentError(f"{name} is {value!r}; give one of {', '.join(known)}")

    def place(self, pool_tokens: int, longest: int) -> Placement:
        """Return a fresh, idle pool."""
        return PLACEMENTS[self.placement](pool_tokens, longest)


ALL_SYSTEMS = tuple(
    ContiguousSystem(reservation, placement) for reservation in RESERVATIONS for placement in PLACEMENTS
)
