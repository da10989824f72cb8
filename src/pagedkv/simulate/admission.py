"""Admission: whether a request fits, the blocks that it takes, and its prompt, stored once and forked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pagedkv.simulate.batching import NO_CAP
from pagedkv.simulate.counters import Rejection
from pagedkv.simulate.groups import Groups, group_blocks, members

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pagedkv.manager import KVCacheManager
    from pagedkv.simulate.observer import Observer
    from pagedkv.simulate.prefix_reuse import PrefixReuse


@dataclass(slots=True)
class Admitted:
    """A request that was taken; generated: tokens a sequence from before its preemption.

    stored: tokens that are there: those it found, and what was stored of it. Only single sequences have any before all.
    """

    request: int
    prompt: int
    generated: int
    stored: int = 0

    def missing(self, size: int) -> int:
        """Tokens that are still to be computed, of all its `size` sequences."""
        return self.prompt + self.generated * size - self.stored


class Admission:
    """Admits whole groups, one `take` each, then `store` once for all that were taken. Modifies the manager.

    reuse: single sequences are admitted with their token ids, and stored one by one. longest_prefill: the most tokens
    that a request may have to store when it is admitted, after its last preemption too.
    """

    def __init__(
        self,
        manager: KVCacheManager,
        groups: Groups,
        reuse: PrefixReuse | None = None,
        *,
        longest_prefill: int = NO_CAP,
    ) -> None:
        self._manager = manager
        self._longest_prefill = longest_prefill
        self._reuse = reuse
        self._size = groups.size
        self._final = groups.admission == "final"
        self._promised = 0  # sum of the final footprints of all groups that run
        self._owed = 0  # blocks that taken groups need beyond the reserved ones, until `store`

    def reject(self, prompt: int, output: int, request: int) -> Rejection | None:
        """Return the rejection of what can never run, else None: in an idle pool it would preempt itself for ever."""
        needed = self._blocks(prompt, output - 1)
        if needed + self._manager.watermark > self._manager.num_blocks:
            return Rejection(request, needed, self._manager.num_blocks)
        tokens = prompt + self._size * (output - 1)
        if tokens > self._longest_prefill:
            return Rejection(request, tokens, self._longest_prefill, "tokens a step")
        return None

    def take(self, request: int, prompt: int, output: int, generated: int) -> Admitted | None:
        """Reserve the blocks of the request's root if the whole group fits; None: nothing was changed."""
        if self._final and not self._can_promise(prompt, output):
            return None
        cached = self._take(request, prompt, generated)
        if cached is None:
            return None
        if self._final:
            self._promised += self._blocks(prompt, output - 1)
        return Admitted(request, prompt, generated, cached)

    def left(self, prompt: int, output: int) -> None:
        """A group that ran has ended or was preempted."""
        if self._final:
            self._promised -= self._blocks(prompt, output - 1)

    def store(self, taken: list[Admitted], observers: Iterable[Observer]) -> int:
        """Store the prompts in one append, fork the groups, and store again what was generated before a preemption.

        Returns the tokens stored: the prompt once, the generated ones of every sequence. Observers see each plan.
        """
        size = self._size
        if size == 1:
            return self._append([(one.request, one.missing(1)) for one in taken], observers)
        stored = self._append([(one.request * size, one.prompt) for one in taken], observers)
        for one in taken:
            root, *children = members([one.request], size)
            self._manager.fork(root, children)
            for observer in observers:
                observer.forked(root, children)
        again = [one for one in taken if one.generated]
        tails = [(member, one.generated) for one in again for member in members([one.request], size)]
        self._owed = 0
        return stored + (self._append(tails, observers) if tails else 0)

    def store_part(self, one: Admitted, tokens: int, observers: Iterable[Observer]) -> int:
        """Store the next `tokens` tokens of a single sequence; more are to follow. Returns them."""
        one.stored += tokens
        return self._append([(one.request, tokens)], observers)

    def _append(self, tokens: list[tuple[int, int]], observers: Iterable[Observer]) -> int:
        ids = np.array([seq_id for seq_id, _ in tokens], dtype=np.int64)
        counts = np.array([count for _, count in tokens], dtype=np.int32)
        plan = self._manager.append(ids, counts)
        for observer in observers:
            observer.appended(plan, ids, counts)
        if self._reuse is not None:
            self._reuse.commit(ids, plan)
        return sum(count for _, count in tokens)

    def _take(self, request: int, prompt: int, generated: int) -> int | None:
        """Return the tokens that were found, 0 without prefix caching; None: it does not fit."""
        if self._reuse is not None:
            return self._reuse.admit(request, prompt, generated)
        if self._size == 1:
            return None if self._manager.try_admit(request, (), reserve=prompt + generated) is None else 0
        return 0 if self._take_group(request, prompt, generated) else None

    def _can_promise(self, prompt: int, output: int) -> bool:
        most = self._promised + self._blocks(prompt, output - 1)
        return most + self._manager.watermark <= self._manager.num_blocks

    def _take_group(self, request: int, prompt: int, generated: int) -> bool:
        """The manager knows the root alone, so the whole group's need is compared here."""
        manager = self._manager
        needed = self._blocks(prompt, generated)
        if needed + self._owed + manager.watermark > manager.get_stats().free_blocks:
            return False
        manager.admit(request * self._size, (), reserve=prompt)
        self._owed += needed - self._blocks(prompt, 0)
        return True

    def _blocks(self, prompt: int, generated: int) -> int:
        return group_blocks(prompt, generated, self._size, self._manager.block_size)
