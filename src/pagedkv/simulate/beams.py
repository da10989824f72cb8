"""Which beams survive a step: a random model with one seeded generator, the same on every machine.

Each beam takes two 64-bit outputs of PCG64(seed), in running order. If the first is below survival * 2**64 it continues
itself; otherwise it becomes a copy of another beam of its group, which the upper half of the second picks: place
floor(upper half * (K - 1) / 2**32) among the others in order. Raw outputs, because NumPy promises that they stay the
same, which it does not of its distributions.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from pagedkv.simulate.groups import Groups


class BeamSearch:
    """Draws the parents of every running beam. Modifies itself; no stream."""

    def __init__(self, groups: Groups, seed: int) -> None:
        self._width = groups.beam_width
        self._always = groups.beam_survival >= 1
        self._bound = np.uint64(0 if self._always else ceil(Fraction(groups.beam_survival) * 2**64))
        self._generator = np.random.PCG64(seed)
        self._equal: list[int] = []

    def started(self, request: int) -> None:
        """The beams of this request are equal up to the next step: there is nothing to choose in it."""
        self._equal.append(request)

    def choose(self, running: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the beams that take part in this step, and the places of their parents among them.

        running: int64, whole groups. Both results int64 [n]; the first may be `running` itself.
        """
        beams = running
        if self._equal:
            beams = running[np.isin(running // self._width, self._equal, invert=True)]
            self._equal.clear()
        return beams, self._parents(len(beams))

    def _parents(self, count: int) -> NDArray[np.int64]:
        places = np.arange(count, dtype=np.int64)
        if not count:
            return places
        raw = self._generator.random_raw(2 * count)
        if self._always:
            return places
        own = places % self._width
        others = ((raw[1::2] >> np.uint64(32)) * np.uint64(self._width - 1) >> np.uint64(32)).astype(np.int64)
        others += others >= own  # the beam itself is left out
        return np.where(raw[::2] < self._bound, places, places - own + others)
