"""When requests join the queue: replay of a workload, offline or timed, and the closed loop."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from pagedkv.arguments import whole_number
from pagedkv.simulate.workload import Workload


class Arrivals(Protocol):
    """What the scheduler asks of a source of requests; request i has prompt[i] and output[i] tokens.

    The lists only grow. `due(step)` returns the ids that join at or before `step` and were not returned before.
    `skip(step)`: nothing runs or waits; returns the step, this or a later one, at which more are due (None: never).
    `ended(requests)` says which requests left in this step; `seconds(request)` is when one came by a modeled clock
    (None: when it was due). Modifies itself; no stream.
    """

    prompt: list[int]
    output: list[int]

    def due(self, step: int) -> Iterable[int]: ...
    def skip(self, step: int) -> int | None: ...
    def seconds(self, request: int) -> float | None: ...
    def ended(self, requests: Sequence[int]) -> None: ...


class Replay:
    """Requests of a workload: all at step 0 (step_ticks None), or at floor(ticks since the first / step_ticks).

    step_ticks: ticks of 100 ns a step, at least 1. Errors: InvalidArgumentError.
    """

    def __init__(self, workload: Workload, step_ticks: int | None = None) -> None:
        self.prompt: list[int] = workload.prompt_tokens.tolist()
        self.output: list[int] = workload.output_tokens.tolist()
        self._steps: list[int] = [0] * len(workload)
        if step_ticks is not None and workload.arrival_ticks is not None:
            ticks = workload.arrival_ticks
            step = whole_number(step_ticks, "step_ticks", minimum=1)
            self._steps = ((ticks - ticks[:1]) // step).tolist()
        self._returned = 0

    def due(self, step: int) -> Iterable[int]:
        start = self._returned
        if start == len(self._steps) or self._steps[start] > step:
            return ()
        self._returned = bisect_right(self._steps, step, lo=start)
        return range(start, self._returned)

    def skip(self, step: int) -> int | None:
        return max(step, self._steps[self._returned]) if self._returned < len(self._steps) else None

    def seconds(self, request: int) -> float | None:
        return None

    def ended(self, requests: Sequence[int]) -> None:
        """Nothing to do: a replay does not wait for its requests."""


# So many requests are drawn at once before the first step; more would fill memory.
MOST_CONCURRENT = 1_000_000


class ClosedLoop:
    """`concurrency` requests at step 0; for every one that ends in a step, one more is drawn for the next.

    draw: endless (prompt, output) pairs. A rejected request counts as ended, so the level is kept.
    Errors: InvalidArgumentError.
    """

    def __init__(self, draw: Iterator[tuple[int, int]], concurrency: int) -> None:
        self.prompt: list[int] = []
        self.output: list[int] = []
        self._draw = draw
        self._wanted = whole_number(concurrency, "concurrency", minimum=1, maximum=MOST_CONCURRENT)

    def due(self, step: int) -> Iterable[int]:
        start = len(self.prompt)
        for _ in range(self._wanted):
            prompt, output = next(self._draw)
            self.prompt.append(prompt)
            self.output.append(output)
        self._wanted = 0
        return range(start, len(self.prompt))

    def skip(self, step: int) -> int | None:
        return step if self._wanted else None

    def seconds(self, request: int) -> float | None:
        return None

    def ended(self, requests: Sequence[int]) -> None:
        self._wanted += len(requests)
