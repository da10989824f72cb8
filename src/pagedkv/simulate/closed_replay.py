"""The closed loop over given requests: as many at once as there are users, each with its conversation."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from pagedkv.arguments import whole_number
from pagedkv.simulate.arrivals import MOST_CONCURRENT
from pagedkv.simulate.workload import Workload


class ClosedReplay:
    """`concurrency` first turns at step 0; for every request that ends, its next turn in the next step, if it has one,
    else the first turn of the next conversation. A rejected request counts as ended. Arrival times are not used.

    Errors: InvalidArgumentError.
    """

    def __init__(self, workload: Workload, concurrency: int) -> None:
        self.prompt: list[int] = workload.prompt_tokens.tolist()
        self.output: list[int] = workload.output_tokens.tolist()
        wanted = whole_number(concurrency, "concurrency", minimum=1, maximum=MOST_CONCURRENT)
        known = workload.conversations
        self._next_turn = [-1] * len(workload) if known is None else known.next_turns().tolist()
        firsts = range(len(workload)) if known is None else (known.parent < 0).nonzero()[0].tolist()
        self._firsts = deque(firsts)
        self._due: list[int] = []
        self._start(wanted)

    def due(self, step: int) -> Iterable[int]:
        due, self._due = self._due, []
        return due

    def skip(self, step: int) -> int | None:
        return step if self._due else None

    def seconds(self, request: int) -> float | None:
        return None

    def ended(self, requests: Sequence[int]) -> None:
        """Their users go on: with the next turn, or with another conversation."""
        for request in requests:
            following = self._next_turn[request]
            if following >= 0:
                self._due.append(following)
            else:
                self._start(1)

    def _start(self, conversations: int) -> None:
        while conversations and self._firsts:
            self._due.append(self._firsts.popleft())
            conversations -= 1
