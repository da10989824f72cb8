"""An engine's step loop on pagedkv: continuous batching, chunked prefill, one step in flight, drafts, preemption.

Run it: `python examples/engine_loop.py`. The "model" here is a pure function of (request, position), so no GPU is
needed and the output of every request can be checked. Everything about memory is what a real engine would do.

One turn of the loop:

    plan this step's tokens -> apply and launch -> commit -> admit what fits beside them
        -> collect the PREVIOUS step's results -> retire it -> reject drafts, give late ids, free what finished

Growth comes before admission, and nobody is admitted in a turn in which somebody had to wait for a block: else the
newcomer takes what the preemption has just freed, is preempted again, and the loop spins for ever.

The host never waits for the step that it has just launched, so it learns a token's id one step after the token got its
place. A sequence with drafts in flight sits out one step: where its next token goes depends on how many are accepted.
"""

from __future__ import annotations

import argparse
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from pagedkv import DevicePool, KVCacheManager, OpaqueLayout, StepPlan

VOCABULARY = 50_000


def true_token(request_id: int, position: int) -> int:
    """The model: what it samples for one position of one request."""
    return (request_id * 7919 + position * 104_729 + 17) % VOCABULARY


def accepted_drafts(request_id: int, position: int, drafts: int) -> int:
    """How many of the drafts that follow a position turn out to be right."""
    return (request_id + position) % (drafts + 1)


@dataclass
class Request:
    """One request; `tokens` are all ids that the host knows, the prompt's first."""

    request_id: int
    tokens: list[int]
    target: int  # tokens in all when it is finished
    drafts: int = 0  # tokens that it speculates a step
    prefill: int = 0  # tokens to compute before the first sample, counted when it is admitted
    stored: int = 0  # positions with a place, those of drafts included
    given: int = 0  # leading ids that the manager knows
    unverified: bool = False  # drafts are in flight


@dataclass(frozen=True)
class Work:
    """One request's share of a step: positions [start, start + count), the last `drafts` of them guesses."""

    request: Request
    start: int
    count: int
    drafts: int


@dataclass
class Summary:
    """What a run did."""

    steps: int = 0
    completed: int = 0
    preemptions: int = 0
    prefill_chunks: int = 0
    drafts: int = 0
    drafts_accepted: int = 0
    wrong_tokens: int = 0


@dataclass
class Engine:
    """The loop's state. `manager` decides, `pool` carries out; neither knows the other."""

    manager: KVCacheManager
    pool: DevicePool
    waiting: deque[Request]
    tokens_per_step: int = 32
    running: list[Request] = field(default_factory=list)  # oldest admission first
    in_flight: tuple[int, list[Work]] | None = None  # the step that is computing now
    short_of_blocks: bool = False  # somebody got no place in this turn
    summary: Summary = field(default_factory=Summary)

    def run(self) -> Summary:
        """Until nothing waits, runs or computes."""
        while self.waiting or self.running or self.in_flight:
            self.turn()
        return self.summary

    def turn(self) -> None:
        """Launch one step, then collect the one before it."""
        launched = self._launch(self._schedule())
        if not self.short_of_blocks:
            self._admit()
        previous, self.in_flight = self.in_flight, launched
        if previous is not None:
            self._collect(*previous)
        self.summary.steps += 1

    def _admit(self) -> None:
        """First come, first served; blocks for the whole prompt are set aside at once, its chunks follow."""
        while self.waiting:
            request = self.waiting[0]
            if self.manager.try_admit(request.request_id, request.tokens) is None:
                return  # not now; `NeverFitsError` would mean never
            self.waiting.popleft()
            request.prefill = request.given = len(request.tokens)
            request.stored = 0
            self.running.append(request)

    def _schedule(self) -> list[Work]:
        """Decodes first, so that nobody who streams waits for a prompt; prompts share what is left of the budget."""
        budget, chosen = self.tokens_per_step, {}
        for prefilling in (False, True):
            for request in self.running:
                if request.unverified or (request.stored < request.prefill) != prefilling:
                    continue
                work = self._share(request, budget)
                if work.count:
                    chosen[request.request_id] = work
                    budget -= work.count
        return [chosen[r.request_id] for r in self.running if r.request_id in chosen]

    def _share(self, request: Request, budget: int) -> Work:
        if request.stored < request.prefill:
            return Work(request, request.stored, min(budget, request.prefill - request.stored), 0)
        # The last token is sampled, never stored; ask for no place beyond it, not even for drafts.
        useful = min(budget, request.target - 1 - request.stored)
        count = max(0, min(1 + request.drafts, useful))
        return Work(request, request.stored, count, max(0, count - 1))

    def _launch(self, batch: list[Work]) -> tuple[int, list[Work]] | None:
        """Give every token its place, preempting if it must be, and enqueue the step; None if there is none."""
        done: list[Work] = []
        step = 0
        self.short_of_blocks = False
        while batch:
            ids = [work.request.request_id for work in batch]
            plan = self.manager.append(ids, [work.count for work in batch], partial=True)
            step = plan.step
            self.pool.apply(plan)  # copies and table updates, before the kernels that need them
            self._compute(batch[: plan.served], plan)
            done += batch[: plan.served]
            batch = batch[plan.served :]
            self.short_of_blocks |= bool(batch)
            if not batch or self.manager.get_stats().pending_blocks:
                break  # blocks are on their way: preempting more of us would not bring them sooner
            victim = self._preempt_newest(after=step)
            batch = [work for work in batch if work.request is not victim]
        if not step:
            return None
        self.pool.step_done(step)
        ids = [work.request.request_id for work in done]
        self.manager.commit(ids, [work.request.stored for work in done])  # their writes are enqueued
        return step, done

    def _compute(self, served: list[Work], plan: StepPlan) -> None:
        """Where a real engine launches its model, with `pool.tables`, `plan.lengths` and `plan.slots`."""
        for work in served:
            work.request.stored = work.start + work.count
            work.request.unverified = work.drafts > 0
            self.summary.prefill_chunks += work.start < work.request.prefill
            self.summary.drafts += work.drafts
        if self.pool.backend.name != "null" and served:
            owners = np.repeat([work.request.request_id for work in served], [work.count for work in served])
            positions = np.concatenate([np.arange(work.start, work.start + work.count) for work in served])
            self.pool.fill_tokens(owners, positions, plan.slots)

    def _preempt_newest(self, after: int) -> Request:
        """Back to the head of the queue; what the host knows of it so far becomes its prompt."""
        victim = self.running.pop()
        self.manager.free([victim.request_id], after=after)  # steps that may still write its blocks are computing
        victim.unverified = False
        self.waiting.appendleft(victim)
        self.summary.preemptions += 1
        return victim

    def _collect(self, step: int, batch: list[Work]) -> None:
        """The results of the step before: rejections, late ids, endings."""
        self.pool.wait_step(step)
        self.manager.retire(self.pool.finished_step())
        rejected: dict[int, int] = {}
        for work in batch:
            self._take_samples(work, rejected)
        self.manager.truncate(list(rejected), list(rejected.values()), keep_blocks=True)
        self._give_late_ids()
        for request in [work.request for work in batch if len(work.request.tokens) == work.request.target]:
            self._finish(request)

    def _take_samples(self, work: Work, rejected: dict[int, int]) -> None:
        request, end = work.request, work.start + work.count
        if end < request.prefill or work.start + 1 > len(request.tokens):
            return  # a chunk in the middle of a prompt samples nothing
        right = accepted_drafts(request.request_id, work.start, work.drafts)
        first = end - work.drafts
        request.tokens += [true_token(request.request_id, p) for p in range(first, first + right + 1)]
        self.summary.drafts_accepted += right
        if work.drafts and request.unverified:  # else it was preempted meanwhile, or the drafts are newer than this
            request.stored = first + right
            request.unverified = False
            rejected[request.request_id] = request.stored

    def _give_late_ids(self) -> None:
        """Ids of tokens that have a place already; from here on full blocks of them could be found by others."""
        late = [r for r in self.running if min(r.stored, len(r.tokens)) > r.given]
        lengths = [min(r.stored, len(r.tokens)) for r in late]
        ids = [token for r, length in zip(late, lengths, strict=True) for token in r.tokens[r.given : length]]
        self.manager.commit([r.request_id for r in late], lengths, tokens=ids)
        for request, length in zip(late, lengths, strict=True):
            request.given = length

    def _finish(self, request: Request) -> None:
        """Its last step is over, but a newer one may hold a token of it that nobody needs: free behind that."""
        self.summary.completed += 1
        if request in self.waiting:  # it was preempted while its last token was computed
            self.waiting.remove(request)
            return
        self.summary.wrong_tokens += self._wrong_tokens(request)
        self.running.remove(request)
        self.manager.free([request.request_id], after=self.manager.last_step)

    def _wrong_tokens(self, request: Request) -> int:
        """Do the bytes in the pool, read through the page table, still belong to this request?"""
        if self.pool.backend.name == "null":
            return 0
        slots = self.manager.slot_mapping([request.request_id])
        return self.pool.verify_tokens([request.request_id], np.arange(len(slots)), slots)


def make_requests(count: int) -> deque[Request]:
    """Prompts of 3 to 60 tokens, 5 to 44 tokens to generate; every third request speculates."""
    requests: deque[Request] = deque()
    for number in range(count):
        prompt = [true_token(number, position) for position in range(3 + number * 29 % 58)]
        requests.append(Request(number, prompt, len(prompt) + 5 + number * 13 % 40, drafts=3 if number % 3 == 0 else 0))
    return requests


def make_engine(requests: deque[Request], *, num_blocks: int = 24, block_size: int = 8, device: str = "null") -> Engine:
    """A pool in which about four of the requests fit, so that they preempt each other."""
    manager = KVCacheManager(num_blocks, block_size, watermark=1)
    pool = DevicePool(OpaqueLayout(token_bytes=64, block_size=block_size), num_blocks, device=device)
    return Engine(manager, pool, requests)


def main() -> None:
    """Run the loop and print what happened."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--device", default="null", help="null: addresses only; host: every token's bytes are checked")
    options = parser.parse_args()
    engine = make_engine(make_requests(options.requests), device=options.device)
    with engine.pool:
        summary = engine.run()
    engine.manager.check()
    stats = engine.manager.get_stats()
    print(f"{summary.completed} requests in {summary.steps} steps, {summary.preemptions} preemptions")
    print(f"{summary.prefill_chunks} prefill chunks; {summary.drafts_accepted} of {summary.drafts} drafts accepted")
    print(f"{stats.peak_allocated_blocks} of {stats.total_blocks} blocks at most, {stats.free_blocks} free at the end")
    print(f"{summary.wrong_tokens} tokens with wrong bytes")


if __name__ == "__main__":
    main()
