"""What a run counts of its events, and the requests that it refuses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rejection:
    """A request that could not fit an idle pool. needed includes no watermark; total is the pool's blocks."""

    request: int
    needed: int
    total: int


@dataclass(slots=True)
class Counters:
    """Event counts of a run so far. Tokens and blocks count recomputation too."""

    completed: int = 0
    completed_tokens: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0
    token_allocs: int = 0
    block_allocs: int = 0
    block_frees: int = 0
