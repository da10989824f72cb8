"""Drawn loads: arrivals, lengths, system prompts and sessions of several turns, all from one seed.

Each quantity has a generator of its own, `numpy.random.default_rng` of a child of `SeedSequence(seed)`, so changing one
does not change the others. A seed gives the same load with the same NumPy; a saved trace gives it for ever.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate.conversations import Conversations
from pagedkv.simulate.distributions import MOST_VARIATION, Lengths, Uniform
from pagedkv.simulate.workload import Workload

ARRIVALS = ("offline", "poisson", "gamma", "closed")
MOST_REQUESTS = 10_000_000  # all are drawn up front; more would fill memory before the first step
MOST_TURNS = 10_000
TICKS_PER_SECOND = 10_000_000
LATEST_TICKS = 2**62

_Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Turns:
    """What requests share. turns: requests a session, each prompt with the last prompt and answer in front of what is
    drawn; gap_s: mean seconds from one turn's arrival to the next's, exponential. system_tokens: a system prompt in
    front of each session, one of `system_prompts` different ones, drawn alike. Errors: InvalidArgumentError."""

    turns: int = 1
    gap_s: float = 10.0
    system_tokens: int = 0
    system_prompts: int = 1

    def __post_init__(self) -> None:
        whole_number(self.turns, "turns", minimum=1, maximum=MOST_TURNS)
        whole_number(self.system_tokens, "system_tokens", minimum=0, maximum=INT32_MAX)
        whole_number(self.system_prompts, "system_prompts", minimum=1, maximum=INT32_MAX)
        if not 0 <= self.gap_s <= 1e9:
            raise InvalidArgumentError(f"gap between turns is {self.gap_s} s; give one from 0 to 1e9")


@dataclass(frozen=True, slots=True)
class SyntheticLoad:
    """A load to draw. requests: how many, turns counted singly.

    arrivals: "offline" and "closed" have no times; "poisson" and "gamma" have `rate` first turns a second, the gaps'
    coefficient of variation 1 or `variation`. lengths: of prompts and outputs; resampled: a workload whose pairs of
    lengths are drawn, with replacement, in their place. Errors: InvalidArgumentError for values outside their ranges.
    """

    requests: int
    arrivals: str = "offline"
    rate: float = 1.0
    variation: float = 1.0
    lengths: tuple[Lengths, Lengths] = (Uniform(1, 1), Uniform(1, 1))
    resampled: Workload | None = None
    turns: Turns = Turns()
    seed: int = 42

    def __post_init__(self) -> None:
        whole_number(self.requests, "requests", minimum=1, maximum=MOST_REQUESTS)
        whole_number(self.seed, "seed")
        if self.arrivals not in ARRIVALS:
            raise InvalidArgumentError(f"arrivals is {self.arrivals[:40]!r}; give one of {', '.join(ARRIVALS)}")
        if not 1e-6 <= self.rate <= 1e6:
            raise InvalidArgumentError(f"rate is {self.rate} a second; give one from 1e-6 to 1e6")
        if not 1e-3 <= self.variation <= MOST_VARIATION:
            raise InvalidArgumentError(f"variation of arrivals is {self.variation}; give one from 0.001 to 100")

    def draw(self) -> Workload:
        """Return the requests: timed ones by arrival, offline ones turn by turn, closed ones session by session.

        Errors: InvalidArgumentError if a conversation grows beyond 2**31-1 tokens, or times beyond 64 bits. Pure.
        """
        children = np.random.SeedSequence(self.seed).spawn(5)
        prompts, outputs, arrivals, gaps, systems = (np.random.default_rng(child) for child in children)
        added, output = self._lengths(prompts, outputs)
        number = np.arange(self.requests)
        session, turn = number // self.turns.turns, number % self.turns.turns
        prompt = self._whole_prompts(added, output, turn)
        system = systems.integers(0, self.turns.system_prompts, size=int(session[-1]) + 1)
        ticks = self._ticks(arrivals, gaps, session, turn) if self.arrivals in ("poisson", "gamma") else None
        order = number
        if ticks is not None:
            order = np.argsort(ticks, kind="stable")
            ticks = ticks[order]
        elif self.arrivals == "offline":
            order = np.argsort(turn, kind="stable")
        known = self._conversations(turn, system[session], order)
        return Workload(prompt[order], output[order], ticks, conversations=known)

    def _lengths(self, prompts: np.random.Generator, outputs: np.random.Generator) -> tuple[_Counts, _Counts]:
        if self.resampled is not None:
            rows = prompts.integers(0, len(self.resampled), size=self.requests)
            return self.resampled.prompt_tokens[rows], self.resampled.output_tokens[rows]
        return self.lengths[0].draw(prompts, self.requests), self.lengths[1].draw(outputs, self.requests)

    def _whole_prompts(self, added: _Counts, output: _Counts, turn: _Counts) -> _Counts:
        """Return the lengths of prompts with all that stands in front of what was drawn for them."""
        both = added + output
        before = np.cumsum(both) - both  # of all requests; less what stood before the session
        prompt: _Counts = self.turns.system_tokens + added + before - before[np.arange(len(turn)) - turn]
        if int((prompt + output).max()) > INT32_MAX:
            raise InvalidArgumentError(
                f"{self.turns.turns} turns grow to {int((prompt + output).max())} tokens, more than {INT32_MAX}; give "
                "fewer turns or shorter lengths"
            )
        return prompt

    def _ticks(
        self, arrivals: np.random.Generator, gaps: np.random.Generator, session: _Counts, turn: _Counts
    ) -> _Counts:
        shape = 1.0 if self.arrivals == "poisson" else 1 / self.variation**2
        first = arrivals.gamma(shape, 1 / (shape * self.rate), size=int(session[-1]) + 1)
        first[0] = 0.0  # time starts with the first request
        gap = gaps.exponential(self.turns.gap_s, size=len(turn))
        gap[turn == 0] = 0.0
        if float(first.sum() + gap.sum()) * TICKS_PER_SECOND >= LATEST_TICKS:
            raise InvalidArgumentError("arrival times go beyond 64 bits; give a higher rate, or fewer requests")
        # Gaps are rounded, not sums, so that sums are exact and no turn comes before the one before it.
        waited = np.cumsum(_ticks(gap))
        ticks: _Counts = np.cumsum(_ticks(first))[session] + waited - waited[np.arange(len(turn)) - turn]
        return ticks

    def _conversations(self, turn: _Counts, system: _Counts, order: _Counts) -> Conversations | None:
        if self.turns.turns == 1 and not self.turns.system_tokens:
            return None
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        parent = np.where(turn > 0, place[np.arange(len(turn)) - (turn > 0)], -1)[order]
        has_system = (turn == 0) & (self.turns.system_tokens > 0)
        prefix = np.where(has_system, system, -1)[order]
        return Conversations(parent, prefix, np.where(has_system, self.turns.system_tokens, 0)[order])


def _ticks(seconds: NDArray[np.float64]) -> _Counts:
    return np.rint(seconds * TICKS_PER_SECOND).astype(np.int64)
