"""Prefix reuse in a run: prompts are admitted with their token ids, and everything that is stored is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagedkv.manager import KVCacheManager
    from pagedkv.simulate.counters import Counters
    from pagedkv.simulate.request_tokens import RequestTokens
    from pagedkv.step_plan import StepPlan


class PrefixReuse:
    """The calls of a manager with prefix caching that one without does not need, and what they count. Modifies both."""

    def __init__(self, manager: KVCacheManager, counters: Counters, tokens: RequestTokens) -> None:
        self._manager = manager
        self._counters = counters
        self._tokens = tokens
        self._lost: set[int] = set()  # requests that were preempted and not admitted again

    def admit(self, request: int, prompt: int, generated: int) -> int | None:
        """Admit a request that stores prompt + generated tokens; return how many it found, None if it does not fit."""
        length = prompt + generated
        before = self._manager.get_stats().allocated_blocks
        admission = self._manager.try_admit(request, self._tokens.sequence(request, prompt, generated))
        if admission is None:
            return None
        cached, size = admission.cached_tokens, self._manager.block_size
        counters, hits = self._counters, cached // size
        handed_out = -(-length // size) - hits
        counters.queried_blocks += length // size
        counters.hit_blocks += hits
        counters.revived_blocks += self._manager.get_stats().allocated_blocks - before - handed_out
        if request in self._lost:  # with all its tokens, and these are not computed again
            self._lost.remove(request)
            counters.recomputed_tokens -= cached
        return cached

    def lost(self, request: int) -> None:
        """A request was preempted."""
        self._lost.add(request)

    def missing(self, request: int, prompt: int, generated: int) -> int:
        """Return how many of its tokens a request would have to compute if it were admitted now. Changes nothing."""
        tokens = self._tokens.sequence(request, prompt, generated)
        return prompt + generated - self._manager.lookup(tokens)

    def generated(self, running: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the ids of the tokens that these requests store now, one each."""
        return self._tokens.generated(running)

    def commit(self, seq_ids: NDArray[np.int64], plan: StepPlan) -> None:
        """What the first `plan.served` sequences stored is there: from now on it is found."""
        self._manager.commit(seq_ids[: plan.served], plan.lengths[: plan.served])
