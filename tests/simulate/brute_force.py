"""The baseline scheduler once more, in the fewest lines: lists, no manager, every number recounted in every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar


class Comes(Protocol):
    """What its arrival needs to know of a request."""

    id: int
    arrival: int


R = TypeVar("R", bound=Comes)


def arrive(step: int, coming: list[R], queue: list[R], *, idle: bool) -> tuple[int, list[R]]:
    """Queue what is due; if nothing runs or waits, jump to the next arrival. The step, and who is still to come."""
    if idle:
        step = max(step, min(r.arrival for r in coming))
    queue += sorted((r for r in coming if r.arrival <= step), key=lambda r: (r.arrival, r.id))
    return step, [r for r in coming if r.arrival > step]


@dataclass
class Request:
    """A request with its progress."""

    id: int
    arrival: int
    prompt: int
    output: int
    generated: int = 0
    stored: int = 0


@dataclass
class BruteForce:
    """Runs (arrival step, prompt, output) over blocks x block_size; afterwards `figures` and `log` are right."""

    requests: list[tuple[int, int, int]]
    blocks: int
    block_size: int
    watermark: int = 0
    max_seqs: int | None = None
    log: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        known = [Request(i, *request) for i, request in enumerate(self.requests)]
        self.coming = [r for r in known if self._blocks(r.prompt + r.output - 1) + self.watermark <= self.blocks]
        self.figures = {"rejected": len(known) - len(self.coming), "completed": 0, "steps": 0, "saturated_steps": 0}
        self.figures |= {"preemptions": 0, "recomputed_tokens": 0, "total_block_allocs": 0, "peak_blocks": 0}
        self.running: list[Request] = []
        self.queue: list[Request] = []
        self._run()

    def _blocks(self, tokens: int) -> int:
        return (tokens + self.block_size - 1) // self.block_size

    def _used(self) -> int:
        return sum(self._blocks(r.stored) for r in self.running)

    def _run(self) -> None:
        step = 0
        while self.running or self.queue or self.coming:
            idle = not self.running and not self.queue
            step, self.coming = arrive(step, self.coming, self.queue, idle=idle)
            preempted = self._grow()
            if not preempted:
                self._admit()
            self._measure(step, preempted)
            for r in self.running:
                r.generated += 1
            self.figures["completed"] += sum(r.generated == r.output for r in self.running)
            self.running = [r for r in self.running if r.generated < r.output]
            step += 1

    def _grow(self) -> list[int]:
        preempted: list[int] = []
        for r in list(self.running):
            while r in self.running and r.stored % self.block_size == 0 and self._used() == self.blocks:
                victim = self.running.pop()
                self.figures["preemptions"] += 1
                self.figures["recomputed_tokens"] += victim.stored
                victim.stored = 0
                self.queue.insert(0, victim)
                preempted.append(victim.id)
            if r in self.running:
                self.figures["total_block_allocs"] += r.stored % self.block_size == 0
                r.stored += 1
        return preempted

    def _admit(self) -> None:
        while self.queue and (self.max_seqs is None or len(self.running) < self.max_seqs):
            head = self.queue[0]
            need = self._blocks(head.prompt + head.generated)
            if need + self.watermark > self.blocks - self._used():
                return
            head.stored = head.prompt + head.generated
            self.figures["total_block_allocs"] += need
            self.running.append(self.queue.pop(0))

    def _measure(self, step: int, preempted: list[int]) -> None:
        self.figures["steps"] += 1
        self.figures["saturated_steps"] += bool(self.queue)
        self.figures["peak_blocks"] = max(self.figures["peak_blocks"], self._used())
        self.log.append(
            {
                "step": step,
                "running": [r.id for r in self.running],
                "stored": [r.stored for r in self.running],
                "blocks": [self._blocks(r.stored) for r in self.running],
                "used_blocks": self._used(),
                "preempted": preempted,
                "waiting": [r.id for r in self.queue],
            }
        )
