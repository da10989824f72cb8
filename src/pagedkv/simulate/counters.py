"""What a run counts of its events, and the requests that it refuses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rejection:
    """A request that could never run. needed includes no watermark; total is what there is.

    unit: "blocks" of a paged pool; "tokens" of a contiguous system, where `total` may be the longest sequence; "tokens
    a step", where a prompt may not be stored over several.
    """

    request: int
    needed: int
    total: int
    unit: str = "blocks"


@dataclass(slots=True)
class Counters:
    """Event counts of a run so far. Tokens and blocks count recomputation too.

    block_allocs: blocks that came into use; revived_blocks: those of them that came back from the cache with content.
    queried_blocks: full blocks of admitted prompts; hit_blocks: those that were found, in use or cached.
    """

    completed: int = 0
    completed_tokens: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0
    token_allocs: int = 0
    block_allocs: int = 0
    block_frees: int = 0
    queried_blocks: int = 0
    hit_blocks: int = 0
    revived_blocks: int = 0
