"""The baseline scheduler: first come first served, growth before admission, the newest is preempted.

It drives the real manager with a virtual clock. One step = one model iteration:

    arrive -> grow (one batched append) -> admit (only if nobody was preempted) -> measure -> execute

A request is a group of sequences (one, if nothing is said) that is admitted, grown, preempted and ended as a whole.
With prefix caching, requests are single sequences, and each finds what those admitted before it have stored.
Where a step's tokens are capped, what growth leaves is for prompts. A prompt that is stored piece by piece is always
the newest request's: it goes on before the next is admitted.
Cost: one native append, one admission attempt while requests wait, one read of the statistics; linear in steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagedkv.errors import PagedKVError
from pagedkv.simulate.admission import Admission, Admitted
from pagedkv.simulate.batching import UNLIMITED, Batching
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
    from pagedkv.simulate.step_time import Clock


class Scheduler(StepLoop):
    """One run over one manager.

    max_seqs, stop_after, clock: the loop's. groups: what a request is; beams are drawn with `seed`.
    tokens: the requests' token ids, for single sequences over a manager with prefix caching (None: it has none).
    batching: what a step may compute. Errors: InvalidArgumentError for groups that it is not for.
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
        batching: Batching = UNLIMITED,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(arrivals, max_seqs=max_seqs, stop_after=stop_after, clock=clock)
        batching.check_group(groups.size)
        self.manager = manager
        self.observers: list[Observer] = []
        self.running = RunningSequences(groups.size)
        self.preempted: list[int] = []  # in this step
        self._recorder = recorder
        self._group_size = groups.size
        self._reuse = None if tokens is None else PrefixReuse(manager, self.counters, tokens)
        self._admission = Admission(manager, groups, self._reuse, longest_prefill=batching.longest_prefill)
        self._batching = batching
        self._capped = batching.max_batched_tokens is not None
        self._tokens_left = batching.cap  # of this step
        self._partial: Admitted | None = None  # the newest request, if its prompt is not whole
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

    def _runs(self) -> bool:
        return self.running.requests > 0

    def _advance(self) -> None:
        self.preempted.clear()
        self._grow()
        if self._partial is not None:
            self._go_on(self._partial)
        if self.waiting and not self.preempted:
            self._admit()

    def _grow(self) -> None:
        """All that generate store one more token, oldest first; who stops short costs the newest its place."""
        if self._beams is not None and self.running.requests:
            self._reorder(self._beams)
        grown = self._append_one_each()
        self._tokens_left = self._batching.cap - grown
        if self.clock is not None:
            partial = 0 if self._partial is None else self._partial.stored
            self.work.begin(grown, self.manager.get_stats().logical_tokens - partial)

    def _append_one_each(self) -> int:
        """Return how many sequences have grown and still run."""
        running, start = self.running, 0
        while start < (end := len(running.ids) - (self._partial is not None)):
            ids, ones = running.ids[start:end], running.ones[start:end]
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
            if start < end:
                self._preempt(running.newest)
        return end  # a group that gave way to itself may have grown in part

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
        if self._partial is not None:
            self._partial = None
        else:
            self._generated[victim] = output - (self._last_step.pop(victim) + 1 - self.step)
        if self._reuse is not None:
            self._reuse.lost(victim)
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
            if self._capped and not self._step_takes(request, prompt, generated):
                break
            admitted = self._admission.take(request, prompt, output, generated)
            if admitted is None:
                break
            self.waiting.popleft()
            self.running.add(request)
            for observer in self.observers:
                observer.admitted(request, self.step)
            if admitted.missing(self._group_size) > self._tokens_left:
                self._store(taken)
                self._partial = admitted
                self._store_part(admitted)
                return
            self._begin(admitted)
            taken.append(admitted)
            if self._reuse is not None:  # one by one: the next finds what this one stores
                self._store(taken)
        self._store(taken)

    def _step_takes(self, request: int, prompt: int, generated: int) -> bool:
        """Whether the step's tokens are enough for a request, or for a piece of its prompt."""
        size = self._group_size
        if self._tokens_left < 1 or len(self.running.ids) + size > self._batching.cap:
            return False
        if self._batching.chunked_prefill:
            return True
        if self._reuse is not None:
            return self._reuse.missing(request, prompt, generated) <= self._tokens_left
        return prompt + generated * size <= self._tokens_left

    def _begin(self, one: Admitted) -> None:
        """A request whose prompt is whole with this step generates from this step on."""
        self._tokens_left -= one.missing(self._group_size)
        self._schedule(one.request, self._arrivals.output[one.request] - one.generated)
        if self._beams is not None and not one.generated:
            self._beams.started(one.request)

    def _go_on(self, one: Admitted) -> None:
        """Store the next piece of a prompt, the last one perhaps."""
        if one.missing(1) > self._tokens_left:
            self._store_part(one)
            return
        self._partial = None
        self._begin(one)
        self._store([one])

    def _store_part(self, one: Admitted) -> None:
        tokens, self._tokens_left = self._tokens_left, 0
        if tokens:
            if self.clock is not None:
                self.work.prefill(one.stored, one.stored + tokens)
            self.counters.token_allocs += self._admission.store_part(one, tokens, self.observers)

    def _store(self, taken: list[Admitted]) -> None:
        """Store the prompts of all that were taken in one append."""
        if not taken:
            return
        if self.clock is not None:
            for one in taken:
                self._count_work(one)
        self.counters.token_allocs += self._admission.store(taken, self.observers)
        taken.clear()

    def _count_work(self, one: Admitted) -> None:
        size, end = self._group_size, one.prompt + one.generated
        self.work.prefill(one.stored, one.prompt if size > 1 else end)
        if size > 1 and one.generated:
            for _ in range(size):
                self.work.prefill(one.prompt, end)

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
