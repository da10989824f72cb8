"""The baseline scheduler: first come first served, growth before admission, the newest is preempted.

It drives the real manager with a virtual clock. One step = one model iteration:

    arrive -> grow (one batched append) -> admit (only if nobody was preempted) -> measure -> execute

A request is a group of sequences (one, if nothing is said) that is admitted, grown, preempted and ended as a whole.
With prefix caching, requests are single sequences, and each finds what those admitted before it have stored.
Cost: one native append, one admission attempt while requests wait, one read of the statistics; linear in steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagedkv.errors import PagedKVError
from pagedkv.simulate.admission import Admission, Admitted
from pagedkv.simulate.beams import BeamSearch
from pagedkv.simulate.groups import SINGLE, Groups, members
from pagedkv.simulate.prefix_reuse import PrefixReuse
from pagedkv.simulate.running import RunningSequences
from pagedkv.simulate.step_loop import StepLoop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagedkv.manager import KVCacheManager
    from pagedkv.simulate.arrivals import Arrivals
    from pagedkv.simulate.counters import Rejection
    from pagedkv.simulate.measure import Recorder
    from pagedkv.simulate.observer import Observer
    from pagedkv.simulate.request_tokens import RequestTokens


class Scheduler(StepLoop):
    """One run over one manager.

    max_seqs, stop_after: the loop's. groups: what a request is; beams are drawn with `seed`.
    tokens: the requests' token ids, for single sequences over a manager with prefix caching (None: it has none).
    Modifies the manager; no stream.
    """

    def __init__(
        self,
        manager: KVCacheManager,
        arrivals: Arrivals,
        recorder: Recorder,
        *,
        max_seqs: int | None = None,
        stop_after: int | None = None,
        groups: Groups = SINGLE,
        seed: int = 42,
        tokens: RequestTokens | None = None,
    ) -> None:
        super().__init__(arrivals, max_seqs=max_seqs, stop_after=stop_after)
        self.manager = manager
        self.observers: list[Observer] = []
        self.running = RunningSequences(groups.size)
        self.preempted: list[int] = []  # in this step
        self._recorder = recorder
        self._group_size = groups.size
        self._reuse = None if tokens is None else PrefixReuse(manager, self.counters, tokens)
        self._admission = Admission(manager, groups, self._reuse)
        self._beams = BeamSearch(groups, seed) if groups.beam_width > 1 else None
        self._generated: dict[int, int] = {}  # id -> tokens a sequence generated before its preemption
        self.stats = manager.get_stats()  # as they were measured last
        self._allocated = self.stats.allocated_blocks

    def _rejection(self, request: int) -> Rejection | None:
        rejection = self._admission.reject(self._arrivals.prompt[request], self._arrivals.output[request], request)
        for observer in self.observers:
            if rejection is None:
                observer.arrived(request, self.step)
            else:
                observer.rejected(rejection)
        return rejection

    def _advance(self) -> None:
        self.preempted.clear()
        self._grow()
        if self.waiting and not self.preempted:
            self._admit()

    def _grow(self) -> None:
        """Every running sequence stores one more token, oldest first; who stops short costs the newest its place."""
        running = self.running
        if self._beams is not None and running.requests:
            self._reorder(self._beams)
        start = 0
        while start < len(running.ids):
            ids, ones = (running.ids[start:], running.ones[start:]) if start else (running.ids, running.ones)
            tokens = None if self._reuse is None else self._reuse.generated(ids)
            plan = self.manager.try_append(ids, ones, tokens=tokens, partial=True)
            assert plan is not None, "partial appends always return a plan"
            for observer in self.observers:
                observer.appended(plan, ids, ones)
            if self._reuse is not None:
                self._reuse.commit(ids, plan)
            served = plan.served
            self.counters.token_allocs += served
            start += served
            if start < len(running.ids):
                self._preempt(running.newest)

    def _reorder(self, beams: BeamSearch) -> None:
        """Beams that do not survive become copies of others, in one call for all groups."""
        ids, parents = beams.choose(self.running.ids)
        if not len(ids):
            return
        plan = self.manager.reorder(ids, parents)
        self._count_given()
        for observer in self.observers:
            observer.reordered(plan, ids, parents)

    def _preempt(self, victim: int) -> None:
        """Give back all blocks of `victim` and put it at the head of the queue; it keeps its generated tokens."""
        self._count_taken()
        prompt, output = self._arrivals.prompt[victim], self._arrivals.output[victim]
        last_step = self._last_step.pop(victim)
        self._generated[victim] = output - (last_step + 1 - self.step)
        sequences = members([victim], self._group_size)
        stored = int(self.manager.seq_lens(sequences).sum())
        self.counters.preemptions += 1
        self.counters.recomputed_tokens += stored - (self._group_size - 1) * prompt
        self.manager.free(sequences)
        self._count_given()
        self._admission.left(prompt, output)
        self.running.remove(victim)
        self.waiting.appendleft(victim)
        self.preempted.append(victim)
        for observer in self.observers:
            observer.preempted(victim, self.step)

    def _admit(self) -> None:
        """Admit from the head of the queue until one does not fit, and store their prompts."""
        taken: list[Admitted] = []
        arrivals = self._arrivals
        while self.waiting and (self._max_seqs is None or self.running.requests < self._max_seqs):
            request = self.waiting[0]
            prompt, output = arrivals.prompt[request], arrivals.output[request]
            generated = self._generated.get(request, 0)
            admitted = self._admission.take(request, prompt, output, generated)
            if admitted is None:
                break
            self.waiting.popleft()
            self.running.add(request)
            self._schedule(request, output - generated)
            if self._beams is not None and not generated:
                self._beams.started(request)
            for observer in self.observers:
                observer.admitted(request, self.step)
            taken.append(admitted)
            if self._reuse is not None:  # one by one: the next finds what this one stores
                self._store(taken)
        if taken:
            self._store(taken)

    def _store(self, taken: list[Admitted]) -> None:
        """Store the prompts of all that were taken in one append."""
        self.counters.token_allocs += self._admission.store(taken, self.observers)
        taken.clear()

    def _measure(self) -> None:
        if not self.running.requests:
            raise PagedKVError(f"step {self.step}: {len(self.waiting)} requests wait and the idle pool takes none")
        stored = self._count_taken()
        for observer in self.observers:
            observer.measured(self)
        self._recorder.add(self._allocated, stored, self.running.requests, len(self.waiting))

    def _leave(self, done: Sequence[int]) -> None:
        sequences = members(done, self._group_size)
        for observer in self.observers:
            observer.ending(sequences)
        self.manager.free(sequences)
        self._count_given()
        for request in done:
            self._end(request)

    def _end(self, request: int) -> None:
        prompt, output = self._arrivals.prompt[request], self._arrivals.output[request]
        self._admission.left(prompt, output)
        self.running.remove(request)
        self._generated.pop(request, None)
        self.counters.completed_tokens += output * self._group_size

    def _count_taken(self) -> int:
        """Count blocks that came into use since the last reading; return the stored tokens."""
        self.stats = self.manager.get_stats()
        allocated = self.stats.allocated_blocks
        self.counters.block_allocs += allocated - self._allocated
        self._allocated = allocated
        return self.stats.stored_tokens

    def _count_given(self) -> None:
        """Count blocks given back since the last reading."""
        allocated = self.manager.get_stats().allocated_blocks
        self.counters.block_frees += self._allocated - allocated
        self._allocated = allocated
