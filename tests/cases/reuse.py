"""A manager with prefix caching that is recounted after every call, and what a prompt's whole life is on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pagedkv import KVCacheManager

from .refused import observable, table

Make = Callable[..., "Reuse"]


class Reuse:
    """Has the manager's names; each call is followed by a recount of every invariant."""

    def __init__(self, num_blocks: int, block_size: int, **options: Any) -> None:
        self.manager = KVCacheManager(num_blocks, block_size, prefix_caching=True, **options)

    def __getattr__(self, name: str) -> Any:
        named = getattr(self.manager, name)
        if not callable(named):
            return named

        def checked(*arguments: Any, **options: Any) -> Any:
            try:
                return named(*arguments, **options)
            finally:
                self.manager.check()

        return checked

    def compute(self, seq_id: int, tokens: Sequence[int], **how: Any) -> int:
        """Admit a prompt, compute what the cache lacks, commit; returns the tokens that came from the cache."""
        cached = int(self.admit(seq_id, tokens, **how).cached_tokens)
        self.append([seq_id], [len(tokens) - cached])
        self.commit([seq_id], [len(tokens)])
        return cached

    def once(self, tokens: Sequence[int], **how: Any) -> list[int]:
        """Compute a prompt and free it; returns the blocks that it had."""
        self.compute(99, tokens, **how)
        blocks = table(self.manager, 99)
        self.free([99])
        return blocks

    def found(self, tokens: Sequence[int], **how: Any) -> int:
        """The hit of a lookup, which changes nothing."""
        before = observable(self.manager)
        hit = int(self.lookup(tokens, **how))
        assert observable(self.manager) == before
        return hit

    def table(self, seq_id: int) -> list[int]:
        return table(self.manager, seq_id)

    def refs(self, *blocks: int) -> list[int]:
        return [self.manager.allocator.get_ref_count(block) for block in blocks]

    @property
    def in_use(self) -> int:
        stats = self.manager.get_stats()
        return int(stats.allocated_blocks - stats.pending_blocks)

    @property
    def available(self) -> int:
        return int(self.manager.get_stats().free_blocks)

    @property
    def cached(self) -> int:
        return int(self.manager.get_stats().cached_blocks)


def span(first: int, last: int) -> list[int]:
    """The tokens first, first + 1 .. last."""
    return list(range(first, last + 1))
