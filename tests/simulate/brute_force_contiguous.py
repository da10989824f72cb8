"""Contiguous reservation once more, in the fewest lines: the pool is a list with the owner of every token or unit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .brute_force import arrive

UNIT = 16
Log = list[dict[str, object]]


@dataclass
class Held:
    """A request, where it lies (None: it waits), and what it stores."""

    id: int
    arrival: int
    prompt: int
    output: int
    start: int = 0
    reserved: int = 0
    stored: int = 0


def power(number: int) -> int:
    """The smallest power of two that is not smaller."""
    size = 1
    while size < number:
        size *= 2
    return size


def arenas_of(units: int, longest: int) -> list[tuple[int, int]]:
    """(start, size) of what the buddy allocator starts with."""
    found, start, size = [], 0, power(-(-longest // UNIT))
    while size:
        if start + size <= units:
            found.append((start, size))
            start += size
        else:
            size //= 2
    return found


@dataclass
class BruteForceContiguous:
    """Runs (arrival step, prompt, output) over `pool` tokens; afterwards `figures` and `log` are right."""

    requests: list[tuple[int, int, int]]
    pool: int
    longest: int
    reservation: str
    placement: str
    max_seqs: int | None = None
    log: Log = field(default_factory=list)

    def __post_init__(self) -> None:
        known = [Held(i, *request) for i, request in enumerate(self.requests)]
        for r in known:
            r.reserved = self._reserve(r)
        self.running: list[Held] = []
        self.coming = [r for r in known if r.prompt + r.output - 1 <= self.longest and self._place(r) is not None]
        self.figures: Counter[str] = Counter(rejected=len(known) - len(self.coming), completed=0, steps=0)
        self.queue: list[Held] = []
        self._run()

    def _reserve(self, r: Held) -> int:
        wanted = {"max": self.longest, "pow2": r.prompt + power(r.output), "oracle": r.prompt + r.output}
        return min(wanted[self.reservation], self.longest)

    def _place(self, r: Held) -> int | None:
        """Where the request would start now."""
        if self.placement == "counting":
            return 0 if sum(other.reserved for other in self.running) + r.reserved <= self.pool else None
        taken = {token for other in self.running for token in range(other.start, other.start + self._extent(other))}
        if self.placement == "first_fit":
            starts = range(self.pool - r.reserved + 1)
            return next((s for s in starts if taken.isdisjoint(range(s, s + r.reserved))), None)
        return self._buddy(self._extent(r) // UNIT, {token // UNIT for token in taken})

    def _extent(self, r: Held) -> int:
        return UNIT * power(-(-r.reserved // UNIT)) if self.placement == "buddy" else r.reserved

    def _buddy(self, wanted: int, taken: set[int]) -> int | None:
        """The free stretches are the largest aligned ones without a taken unit: search them all."""
        free: list[tuple[int, int]] = []

        def look(start: int, size: int) -> None:
            if taken.isdisjoint(range(start, start + size)):
                free.append((size, start))
            elif size > 1:
                look(start, size // 2)
                look(start + size // 2, size // 2)

        for start, size in arenas_of(self.pool // UNIT, self.longest):
            look(start, size)
        fitting = [piece for piece in free if piece[0] >= wanted]
        return UNIT * min(fitting)[1] if fitting else None

    def _run(self) -> None:
        step = 0
        while self.coming or self.queue or self.running:
            step, self.coming = arrive(step, self.coming, self.queue, idle=not (self.queue or self.running))
            for r in self.running:
                r.stored += 1
            self._admit()
            self._measure(step)
            done = [r for r in self.running if r.stored == r.prompt + r.output - 1]
            self.running = [r for r in self.running if r not in done]
            self.figures["completed"] += len(done)
            step += 1

    def _admit(self) -> None:
        while self.queue and (self.max_seqs is None or len(self.running) < self.max_seqs):
            start = self._place(self.queue[0])
            if start is None:
                return
            head = self.queue.pop(0)
            head.start, head.stored = start, head.prompt
            self.running.append(head)

    def _measure(self, step: int) -> None:
        shares = Counter(token_states=0, reservation=0, internal=0, running=len(self.running))
        for r in self.running:
            shares["token_states"] += r.stored
            shares["reservation"] += r.prompt + r.output - r.stored
            shares["internal"] += r.reserved - (r.prompt + r.output)
        shares["external_and_free"] = self.pool - sum(r.reserved for r in self.running)
        self.figures["steps"] += 1
        self.figures["saturated_steps"] += bool(self.queue)
        for name, value in shares.items():
            self.figures[f"sum_{name}_over_steps"] += value
        places = {r.id: (r.start, r.reserved) for r in self.running}
        self.log.append({"step": step, "places": places, "waiting": [r.id for r in self.queue]})
