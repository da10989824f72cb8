"""Figure 2 of "Efficient Memory Management for Large Language Model Serving with PagedAttention" (SOSP 2023).

What the tokens of a pool are used for in four systems: vLLM, and Orca with a maximum, a rounded and a known output
length. The paper assumes that Orca places by the buddy algorithm, and so do we: first fit and counting waste less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pagedkv.layout import OpaqueLayout
from pagedkv.simulate.reservation import ContiguousSystem, SideBySide, SystemResult, paged_system
from pagedkv.simulate.simulator import Load, PoolSpec, Simulation
from pagedkv.simulate.workload import Workload

REQUESTS = 3604  # of the paper's sequence: 4 a second for 900 s, seed 0
MAX_SEQ_LEN = 2048
PLACEMENT = "buddy"
TOLERANCE = 0.015  # of the pool: how far a share may be from the printed one

# OPT-13B: 40 layers x 2 x 5,120 x 2 bytes = 800 KiB a token; 12 GiB of them; 1 % of the blocks is vLLM's watermark.
POOL = PoolSpec(OpaqueLayout(819_200, 16), num_blocks=983, watermark=9)

# Printed in the figure, in percent of the pool. None: the paged system, of which only token states are printed.
PRINTED: dict[str | None, dict[str, float]] = {
    None: {"token_states": 96.3},
    "max": {"token_states": 20.4, "reservation": 13.3, "internal": 57.3, "external_and_free": 8.9},
    "pow2": {"token_states": 26.8, "reservation": 17.9, "internal": 13.6, "external_and_free": 41.6},
    "oracle": {"token_states": 38.2, "reservation": 25.2, "internal": 0.0, "external_and_free": 36.6},
}


@dataclass(frozen=True, slots=True)
class Share:
    """One share of the pool in one system; `ours` is a mean over steps with a queue. All from 0 to 1."""

    reservation: str | None
    placement: str | None
    share: str
    ours: float
    printed: float

    @property
    def difference(self) -> float:
        """ours - printed."""
        return self.ours - self.printed


@dataclass(frozen=True, slots=True)
class Figure2Result:
    """The systems, paged first, and every share that is printed. failures: sentences, empty if all is right."""

    systems: tuple[SystemResult, ...]
    shares: tuple[Share, ...]
    failures: tuple[str, ...]
    interrupted: bool


class Figure2:
    """The four systems over the same requests, all there at step 0. Run once.

    on_progress(ended requests of all systems) is called every 4096 steps.
    """

    def __init__(self, workload: Workload, *, on_progress: Callable[[int], None] | None = None) -> None:
        load = Load(workload)
        orca = [ContiguousSystem(name, PLACEMENT) for name in PRINTED if name is not None]
        later = None if on_progress is None else lambda ended: on_progress(len(workload) + ended)
        self._paged = Simulation(POOL, load, on_progress=on_progress)
        self._contiguous = SideBySide(POOL, load, MAX_SEQ_LEN, orca, on_progress=later)

    def stop(self) -> None:
        """End after the current step, without the systems to come (safe in a signal handler)."""
        self._paged.stop()
        self._contiguous.stop()

    def run(self) -> Figure2Result:
        """Run all four and compare them with what is printed."""
        paged = self._paged.run()
        systems = (paged_system(POOL, paged), *self._contiguous.run())
        interrupted = len(systems) < len(PRINTED) or any(system.interrupted for system in systems)
        shares = () if interrupted else _shares(systems)
        failures = (*paged.failures, *(() if interrupted else _failures(systems, shares)))
        return Figure2Result(systems, shares, failures, interrupted)


def _shares(systems: Sequence[SystemResult]) -> tuple[Share, ...]:
    found = []
    for system in systems:
        means = system.figures["saturated"]
        if means is None:
            continue
        for share, printed in PRINTED[system.reservation].items():
            found.append(Share(system.reservation, system.placement, share, means[share], printed / 100))
    return tuple(found)


def _failures(systems: Sequence[SystemResult], shares: Sequence[Share]) -> list[str]:
    without = [system for system in systems if system.figures["saturated"] is None]
    far = sum(abs(share.difference) > TOLERANCE for share in shares)
    return [
        *([f"{len(without)} of {len(systems)} systems have no step with a queue"] if without else []),
        *([f"{far} of {len(shares)} shares are more than {TOLERANCE:.1%} of the pool from the paper's"] if far else []),
    ]
