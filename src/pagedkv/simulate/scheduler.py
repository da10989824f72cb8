"""The baseline scheduler: first come first served, growth before admission, the newest is preempted.

It drives the real manager with a virtual clock. One step = one model iteration:

    arrive -> grow (one batched append) -> admit (only if nobody was preempted) -> measure -> execute

Cost: one native append, one admission attempt while requests wait, one read of the statistics; linear in steps.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pagedkv.errors import NeverFitsError, PagedKVError
from pagedkv.simulate.running import RunningSequences

if TYPE_CHECKING:
    from pagedkv.manager import KVCacheManager
    from pagedkv.simulate.arrivals import Arrivals
    from pagedkv.simulate.measure import Recorder
    from pagedkv.simulate.observer import Observer


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


class Scheduler:
    """One run over one manager; `run()` returns when the work is done or `stop()` was called.

    max_seqs: most sequences that may run at once (None: no cap). stop_after: end with the step in which so many
    requests have completed or been rejected (None: never). Modifies the manager; no stream.
    """

    def __init__(
        self,
        manager: KVCacheManager,
        arrivals: Arrivals,
        recorder: Recorder,
        *,
        max_seqs: int | None = None,
        stop_after: int | None = None,
    ) -> None:
        self.manager = manager
        self.counters = Counters()
        self.rejections: list[Rejection] = []
        self.observers: list[Observer] = []
        self.step = 0
        self.waiting: deque[int] = deque()
        self.running = RunningSequences()
        self.preempted: list[int] = []  # in this step
        self._arrivals = arrivals
        self._recorder = recorder
        self._max_seqs = max_seqs
        self._stop_after = stop_after
        self._stopping = False
        self._calendar: dict[int, list[int]] = {}  # last step -> ids; entries of preempted sequences are stale
        self._last_step: dict[int, int] = {}  # id -> its last step, running sequences only
        self._generated: dict[int, int] = {}  # id -> tokens generated before its preemption
        self._allocated = manager.get_stats().allocated_blocks

    def stop(self) -> None:
        """End the run after the current step (safe in a signal handler)."""
        self._stopping = True

    def run(self) -> None:
        """Step until every request has ended, `stop_after` is reached or `stop()` was called."""
        while not self._stopping and self._arrive():
            self.preempted.clear()
            self._grow()
            if self.waiting and not self.preempted:
                self._admit()
            self._measure()
            self._execute()
            self.step += 1
            if self._stop_after is not None and self._ended() >= self._stop_after:
                break

    def _ended(self) -> int:
        return self.counters.completed + len(self.rejections)

    def _arrive(self) -> bool:
        """Queue what is due; jump over steps in which nothing runs or waits. False: nothing is left to do."""
        while True:
            for request in self._arrivals.due(self.step):
                if self._rejects(request):
                    self._arrivals.ended(1)
                else:
                    self.waiting.append(request)
            if self.waiting or len(self.running):
                return True
            coming = self._arrivals.next_step()
            if self._stopping or coming is None or (self._stop_after is not None and self._ended() >= self._stop_after):
                return False
            self.step = max(self.step, coming)

    def _rejects(self, request: int) -> bool:
        """Refuse at once what cannot fit an idle pool: it would preempt itself for ever (the manager's own error)."""
        manager = self.manager
        most = self._arrivals.prompt[request] + self._arrivals.output[request] - 1
        if -(-most // manager.block_size) + manager.watermark <= manager.num_blocks:
            return False
        try:
            manager.admit(request, (), reserve=most)
        except NeverFitsError as error:
            self.rejections.append(Rejection(request, error.needed, error.total))
            return True
        raise PagedKVError(f"request {request} needs {most} tokens, more than the pool holds, and was admitted")

    def _grow(self) -> None:
        """Every running sequence stores one more token, oldest first; who stops short costs the newest its place."""
        start = 0
        while start < len(self.running):
            ids, ones = self.running.ids[start:], self.running.ones[start:]
            plan = self.manager.try_append(ids, ones, partial=True)
            assert plan is not None, "partial appends always return a plan"
            for observer in self.observers:
                observer.appended(plan, ids, ones)
            served = plan.served
            self.counters.token_allocs += served
            start += served
            if start < len(self.running):
                self._preempt(self.running.newest)

    def _preempt(self, victim: int) -> None:
        """Give back all blocks of `victim` and put it at the head of the queue; it keeps its generated tokens."""
        self._count_taken()
        last_step = self._last_step.pop(victim)
        self._generated[victim] = self._arrivals.output[victim] - (last_step + 1 - self.step)
        self.counters.preemptions += 1
        self.counters.recomputed_tokens += self.manager.seq_length(victim)
        self.manager.free([victim])
        self._count_given()
        self.running.remove(victim)
        self.waiting.appendleft(victim)
        self.preempted.append(victim)

    def _admit(self) -> None:
        """Admit from the head of the queue until one does not fit, then store their prompts in one append."""
        admitted: list[int] = []
        tokens: list[int] = []
        while self.waiting and (self._max_seqs is None or len(self.running) < self._max_seqs):
            request = self.waiting[0]
            generated = self._generated.get(request, 0)
            stored = self._arrivals.prompt[request] + generated
            if self.manager.try_admit(request, (), reserve=stored) is None:
                break
            self.waiting.popleft()
            self.running.add(request)
            last_step = self.step + self._arrivals.output[request] - generated - 1
            self._last_step[request] = last_step
            self._calendar.setdefault(last_step, []).append(request)
            admitted.append(request)
            tokens.append(stored)
        if admitted:
            self._store_prompts(admitted, tokens)

    def _store_prompts(self, admitted: list[int], tokens: list[int]) -> None:
        ids, counts = np.array(admitted, dtype=np.int64), np.array(tokens, dtype=np.int32)
        plan = self.manager.append(ids, counts)
        self.counters.token_allocs += sum(tokens)
        for observer in self.observers:
            observer.appended(plan, ids, counts)

    def _measure(self) -> None:
        if not len(self.running):
            raise PagedKVError(f"step {self.step}: {len(self.waiting)} requests wait and the idle pool takes none")
        stored = self._count_taken()
        self._recorder.add(self._allocated, stored, len(self.running), bool(self.waiting))
        for observer in self.observers:
            observer.measured(self)

    def _execute(self) -> None:
        """Every running sequence generates one token; those that have all of theirs leave."""
        scheduled = self._calendar.pop(self.step, None)
        if scheduled is None:
            return
        # A preempted sequence left its old entry behind; the step of its new admission is always a later one.
        done = [seq_id for seq_id in scheduled if self._last_step.get(seq_id) == self.step]
        if not done:
            return
        for observer in self.observers:
            observer.ending(done)
        self.manager.free(done)
        self._count_given()
        for seq_id in done:
            self.running.remove(seq_id)
            del self._last_step[seq_id]
            self._generated.pop(seq_id, None)
            self.counters.completed_tokens += self._arrivals.output[seq_id]
        self.counters.completed += len(done)
        self._arrivals.ended(len(done))

    def _count_taken(self) -> int:
        """Count blocks handed out since the last reading; return the stored tokens."""
        stats = self.manager.get_stats()
        self.counters.block_allocs += stats.allocated_blocks - self._allocated
        self._allocated = stats.allocated_blocks
        return stats.stored_tokens

    def _count_given(self) -> None:
        """Count blocks given back since the last reading."""
        allocated = self.manager.get_stats().allocated_blocks
        self.counters.block_frees += self._allocated - allocated
        self._allocated = allocated
