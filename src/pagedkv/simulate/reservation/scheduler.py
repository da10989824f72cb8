"""The scheduler of a contiguous system: a request keeps what it reserved to its end, so nothing grows or is preempted.

    arrive -> admit (while the head's reservation has a place) -> measure -> execute

Cost: O(1) a step, and one placement a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pagedkv.simulate.counters import Rejection
from pagedkv.simulate.reservation.lengths import RESERVATIONS
from pagedkv.simulate.step_loop import StepLoop

if TYPE_CHECKING:
    from pagedkv.simulate.arrivals import Arrivals
    from pagedkv.simulate.measure import Recorder
    from pagedkv.simulate.reservation.systems import ContiguousSystem
    from pagedkv.simulate.step_time import Clock


class ReservationScheduler(StepLoop):
    """One run of `system` over pool_tokens tokens; no sequence is longer than max_seq_len.

    recorder: made for blocks of one token; it gets the reserved tokens as allocated ones. expected: sum over all steps
    of p + o of the running requests; saturated_expected: over those with a queue. The rest is the loop's.
    """

    def __init__(
        self,
        system: ContiguousSystem,
        arrivals: Arrivals,
        recorder: Recorder,
        *,
        pool_tokens: int,
        max_seq_len: int,
        max_seqs: int | None = None,
        stop_after: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(arrivals, max_seqs=max_seqs, stop_after=stop_after, clock=clock)
        self.places: dict[int, tuple[int, int]] = {}  # running request -> start and length, in order of admission
        self.expected = 0
        self.saturated_expected = 0
        self._recorder = recorder
        self._reservation = RESERVATIONS[system.reservation]
        self._placement = system.place(pool_tokens, max_seq_len)
        self._pool_tokens = pool_tokens
        self._max_seq_len = max_seq_len
        self._stored = self._reserved = self._expected = 0  # tokens of the running requests in this step
        self._refused = False  # the head did not fit, and nothing was given back since

    def _rejection(self, request: int) -> Rejection | None:
        """Longer than the longest sequence, or a reservation that not even the idle pool has a place for."""
        prompt, output = self._arrivals.prompt[request], self._arrivals.output[request]
        if prompt + output - 1 > self._max_seq_len:
            return Rejection(request, prompt + output - 1, self._max_seq_len, "tokens")
        reserved = self._reservation(prompt, output, self._max_seq_len)
        if reserved > self._placement.largest:
            return Rejection(request, reserved, self._placement.largest, "tokens")
        return None

    def _runs(self) -> bool:
        return bool(self.places)

    def _advance(self) -> None:
        self._stored += len(self.places)
        self.work.begin(len(self.places), self._stored)
        if not self._refused:
            self._admit()

    def _admit(self) -> None:
        while self.waiting and (self._max_seqs is None or len(self.places) < self._max_seqs):
            request = self.waiting[0]
            prompt, output = self._arrivals.prompt[request], self._arrivals.output[request]
            tokens = self._reservation(prompt, output, self._max_seq_len)
            start = self._placement.take(tokens)
            if start is None:
                self._refused = True
                return
            self.waiting.popleft()
            self.places[request] = (start, tokens)
            self._stored += prompt
            self._reserved += tokens
            self._expected += prompt + output
            self.work.prefill(0, prompt)
            self._schedule(request, output)

    def _measure(self) -> None:
        self._recorder.add(self._reserved, self._stored, len(self.places), len(self.waiting))
        self.expected += self._expected
        if self.waiting:
            self.saturated_expected += self._expected

    def _leave(self, done: Sequence[int]) -> None:
        for request in done:
            prompt, output = self._arrivals.prompt[request], self._arrivals.output[request]
            start, tokens = self.places.pop(request)
            self._placement.give(start, tokens)
            self._stored -= prompt + output - 1
            self._reserved -= tokens
            self._expected -= prompt + output
            self.counters.completed_tokens += output
        self._refused = False
