"""One simulation: the real manager over a pool, a workload, the baseline scheduler, and the result as plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.errors import InvalidArgumentError, PagedKVError
from pagedkv.layout import Layout
from pagedkv.manager import KVCacheManager
from pagedkv.pool import DevicePool
from pagedkv.simulate.arrivals import Arrivals, ClosedLoop, Replay
from pagedkv.simulate.batching import UNLIMITED, Batching
from pagedkv.simulate.closed_replay import ClosedReplay
from pagedkv.simulate.contiguous import ContiguousComparison, compare_with_max_length
from pagedkv.simulate.conversation_tokens import ConversationTokens
from pagedkv.simulate.counters import Rejection
from pagedkv.simulate.figures import (
    Figures,
    contiguous_figures,
    prefix_figures,
    run_figures,
    sharing_figures,
    step_figures,
)
from pagedkv.simulate.groups import SINGLE, Groups
from pagedkv.simulate.histories import Histories
from pagedkv.simulate.history import History, Limits, history_recorder
from pagedkv.simulate.measure import Recorder, Totals
from pagedkv.simulate.prompt_histories import PromptHistories
from pagedkv.simulate.prompt_tokens import PromptTokens
from pagedkv.simulate.request_tokens import RequestTokens
from pagedkv.simulate.scheduler import Scheduler
from pagedkv.simulate.sharing import SharingRecorder, SharingTotals, nothing_shared
from pagedkv.simulate.step_time import Clock, StepTime
from pagedkv.simulate.timed_replay import TimedReplay
from pagedkv.simulate.verify import ByteVerifier, Verification
from pagedkv.simulate.workload import BASE_CASE_MAX_SEQ_LEN, Workload, base_case_requests
from pagedkv.stats import CacheStats


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """The pool: its layout, its blocks, and the blocks that admission leaves free (watermark)."""

    layout: Layout
    num_blocks: int
    watermark: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the pool."""
        return self.layout.pool_bytes(self.num_blocks)


@dataclass(frozen=True, slots=True)
class Load:
    """The requests and the limits on them.

    workload: requests to replay; None: the closed loop, drawn with `seed` as long as the run lasts.
    step_ticks: 100 ns ticks a step for a timed replay; None: all are there at step 0.
    closed: the workload's requests come as others end, `concurrency` at once; its times are not used.
    concurrency: the level of the closed loop, and the contiguous comparison's K; max_seqs: a cap that is not. Both
    count requests.
    completions: the run ends with the step in which so many completed or were rejected (None: with the last request).
    max_seq_len: the contiguous comparison's L; None: the largest prompt + output that the pool can hold.
    groups: what a request is, one sequence if nothing is said; seed: of the closed loop and of beams.
    prefix_caching: prompts are looked up in what was stored before, by what the workload says of them; no groups then.
    batching: what a step may compute. step_time: turns steps into seconds (None: there are none); timed: the workload's
    times are replayed by that clock, in the place of step_ticks.
    """

    workload: Workload | None
    step_ticks: int | None = None
    concurrency: int | None = None
    max_seqs: int | None = None
    completions: int | None = None
    max_seq_len: int | None = None
    seed: int = 42
    groups: Groups = SINGLE
    prefix_caching: bool = False
    closed: bool = False
    batching: Batching = UNLIMITED
    step_time: StepTime | None = None
    timed: bool = False

    def __post_init__(self) -> None:
        for name in ("concurrency", "max_seqs", "completions", "max_seq_len"):
            value = getattr(self, name)
            if value is not None:
                whole_number(value, name, minimum=1, maximum=INT32_MAX)
        whole_number(self.seed, "seed")
        self.batching.check_group(self.groups.size)
        if self.timed and (self.step_time is None or self.step_ticks is not None or self.closed):
            raise InvalidArgumentError(
                "timed replays a workload's times by the clock of a step-time model: give step_time, and neither "
                "step_ticks nor closed"
            )
        if self.prefix_caching and self.groups.size > 1:
            raise InvalidArgumentError(
                f"prefix_caching with groups of {self.groups.size} sequences; leave out one of them"
            )

    def clock(self) -> Clock | None:
        """Return a fresh clock at 0 seconds; None without a step-time model."""
        return None if self.step_time is None else Clock(self.step_time)

    def arrivals(self, clock: Clock | None = None) -> Arrivals:
        """Return a fresh source of these requests. clock: the run's."""
        if self.workload is None:
            return ClosedLoop(base_case_requests(self.seed), self.concurrency or 1)
        if self.closed:
            return ClosedReplay(self.workload, self.concurrency or 1)
        if self.timed and clock is not None:
            return TimedReplay(self.workload, clock)
        return Replay(self.workload, self.step_ticks)

    def tokens(self, block_size: int) -> RequestTokens | None:
        """Return the requests' token ids for blocks of this size; None without prefix caching."""
        if not self.prefix_caching:
            return None
        if self.workload is None:
            return PromptTokens(block_size)
        if self.workload.conversations is None:
            return PromptTokens(block_size, self.workload.identities)
        lengths = self.workload.prompt_tokens, self.workload.output_tokens
        return ConversationTokens(block_size, self.workload.conversations, *lengths)

    @property
    def cap(self) -> int | None:
        """Most requests at once."""
        caps = [cap for cap in (self.concurrency, self.max_seqs) if cap is not None]
        return min(caps) if caps else None


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What came out. failures is empty if all checks passed and something completed; interrupted: stop() was called.

    too_long: requests that a contiguous reservation of max_seq_len tokens could not hold. seconds: the modeled clock's
    figures; None without a step-time model. history: plain data; None if it was not recorded.
    """

    figures: Figures
    totals: Totals
    comparison: ContiguousComparison
    rejections: tuple[Rejection, ...]
    verification: Verification | None
    too_long: int
    interrupted: bool
    failures: tuple[str, ...]
    seconds: dict[str, Any] | None = None
    history: History | None = None


class Simulation:
    """A run that is ready to start. verify: write and compare bytes (the device must have them). history: record it,
    within these limits.

    on_progress(ended requests) is called every 4096 steps. Errors: those of the manager and the pool for sizes that
    they refuse. Owns the manager and the pool; `run` may be called once.
    """

    def __init__(
        self,
        spec: PoolSpec,
        load: Load,
        *,
        device: str = "null",
        verify: bool = False,
        history: bool | Limits = False,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        self.spec = spec
        self.load = load
        block_size, caching = spec.layout.block_size, load.prefix_caching
        tokens = load.tokens(block_size)
        self.manager = KVCacheManager(spec.num_blocks, block_size, watermark=spec.watermark, prefix_caching=caching)
        self.pool = DevicePool(spec.layout, spec.num_blocks, device=device)
        clock = load.clock()
        self._arrivals = load.arrivals(clock)
        self._recorder = Recorder(block_size, self._progress if on_progress else None)
        self._on_progress = on_progress
        self._sharing = SharingRecorder() if load.groups.size > 1 or caching else None
        self._verifier = ByteVerifier(self.manager, self.pool, self._histories(tokens)) if verify else None
        self._interrupted = False
        self.scheduler = Scheduler(
            self.manager,
            self._arrivals,
            self._recorder,
            max_seqs=load.cap,
            stop_after=load.completions,
            groups=load.groups,
            seed=load.seed,
            tokens=tokens,
            batching=load.batching,
            clock=clock,
        )
        self._history = history_recorder(
            load, self.manager, self._arrivals, self._recorder, clock=clock, history=history
        )
        watching = (self._verifier, self._sharing, self._history)
        self.scheduler.observers += [one for one in watching if one is not None]

    def _histories(self, tokens: RequestTokens | None) -> Histories | PromptHistories | None:
        """Return who keeps in mind what each sequence must hold; None: what it wrote itself."""
        if tokens is not None:
            return PromptHistories(tokens, self._arrivals.prompt, self._arrivals.output)
        return Histories() if self.load.groups.size > 1 else None

    def stop(self) -> None:
        """End the run after the current step, with the figures so far (safe in a signal handler)."""
        self._interrupted = True
        self.scheduler.stop()

    def run(self) -> SimulationResult:
        """Run to the end and check: bytes, the manager's invariants, and that every block comes back."""
        with self.pool:
            self.scheduler.run()
            last = self.manager.get_stats()
            failures = self._close()
        return self._result(last, failures)

    def _progress(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self.scheduler.counters.completed + len(self.scheduler.rejections))

    def _close(self) -> list[str]:
        """Compare what still lives, free it, and look for broken invariants and lost blocks."""
        failures = []
        alive = self.scheduler.running.ids.tolist()
        if alive and self._verifier is not None:
            self._verifier.ending(alive)
        try:
            self.manager.check()
            self.manager.free(alive)
            self.manager.check()
        except PagedKVError as error:
            failures.append(f"the manager's check failed: {error}")
        held = self.manager.get_stats().allocated_blocks
        if held:
            failures.append(f"{held} blocks are still allocated after every sequence was freed")
        if self._verifier is not None and (wrong := self._verifier.result().wrong_tokens):
            failures.append(f"{wrong} tokens did not hold the bytes written for them")
        return failures

    def _result(self, last: CacheStats, failures: list[str]) -> SimulationResult:
        totals = self._recorder.totals()
        sharing = nothing_shared(totals) if self._sharing is None else self._sharing.totals()
        counters = self.scheduler.counters
        if not counters.completed and not self._interrupted:
            failures.append("no request completed")
        comparison = self._compare(totals, sharing)
        figures = run_figures(counters, requests=len(self._arrivals.prompt), rejected=len(self.scheduler.rejections))
        figures |= step_figures(totals, self.spec.layout, self.spec.num_blocks)
        allocated = last.allocated_blocks
        figures |= {"final_blocks": allocated, "final_block_utilization": allocated / self.spec.num_blocks}
        figures |= sharing_figures(sharing, totals, cow_copies=last.cow_copies)
        figures |= prefix_figures(counters, last)
        figures |= contiguous_figures(comparison, self.spec.nbytes)
        return SimulationResult(
            figures=figures,
            totals=totals,
            comparison=comparison,
            rejections=tuple(self.scheduler.rejections),
            verification=None if self._verifier is None else self._verifier.result(),
            too_long=sum(length - 1 > comparison.max_seq_len for length in self._lengths()),
            interrupted=self._interrupted,
            failures=tuple(failures),
            history=None if self._history is None else self._history.result(),
            seconds=None if (clock := self.scheduler.clock) is None else clock.figures(counters.completed_tokens),
        )

    def _compare(self, totals: Totals, sharing: SharingTotals) -> ContiguousComparison:
        load = self.load
        max_seq_len = load.max_seq_len
        if max_seq_len is None:
            max_seq_len = BASE_CASE_MAX_SEQ_LEN if load.workload is None else max(self._lengths(), default=1)
        capped_at = load.concurrency
        if capped_at is not None and load.workload is not None:
            capped_at = min(capped_at, len(load.workload))  # a cap above all requests reserves nothing more
        size = load.groups.size
        return compare_with_max_length(
            totals, sharing, self.spec.layout, max_seq_len, capped_at=capped_at, group_size=size
        )

    def _lengths(self) -> list[int]:
        """Return prompt + output of every request that was not rejected."""
        rejected = {rejection.request for rejection in self.scheduler.rejections}
        lengths = map(sum, zip(self._arrivals.prompt, self._arrivals.output, strict=True))
        return [length for request, length in enumerate(lengths) if request not in rejected]
