"""The scheduler with a cap on a step's tokens, in lists: no manager, every number recounted in every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .brute_force import arrive


@dataclass
class Capped:
    """A request with its progress. `target`: tokens that it stores before it generates (again)."""

    id: int
    arrival: int
    prompt: int
    output: int
    generated: int = 0
    stored: int = 0
    target: int = 0

    @property
    def whole(self) -> bool:
        return self.stored >= self.target


@dataclass
class BruteForceBatching:
    """Runs (arrival step, prompt, output) with at most `cap` tokens a step; `chunked`: prompts in pieces.

    work: of every step (decoding sequences, their context, prefilled tokens, pairs, context of prefilled ones).
    """

    requests: list[tuple[int, int, int]]
    blocks: int
    block_size: int
    cap: int
    chunked: bool
    log: list[dict[str, Any]] = field(default_factory=list)
    work: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        known = [Capped(i, *request) for i, request in enumerate(self.requests)]
        self.coming = [r for r in known if self._can_run(r)]
        self.figures = {"rejected": len(known) - len(self.coming), "completed": 0, "preemptions": 0}
        self.figures |= {"recomputed_tokens": 0, "total_token_allocs": 0}
        self.running: list[Capped] = []
        self.queue: list[Capped] = []
        self._run()

    def _can_run(self, r: Capped) -> bool:
        most = r.prompt + r.output - 1
        return self._blocks(most) <= self.blocks and (self.chunked or most <= self.cap)

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def _used(self) -> int:
        """A prompt's blocks are taken at admission, whatever is stored of it."""
        return sum(self._blocks(max(r.stored, r.target)) for r in self.running)

    def _run(self) -> None:
        step = 0
        while self.running or self.queue or self.coming:
            idle = not self.running and not self.queue
            step, self.coming = arrive(step, self.coming, self.queue, idle=idle)
            self.prefills: list[tuple[int, int]] = []
            preempted = self._grow()
            left = self.cap - self.decoding
            left = self._continue(left)
            if not preempted:
                self._admit(left)
            self._measure(step, preempted)
            for r in self.running:
                r.generated += r.whole
            done = [r for r in self.running if r.generated == r.output]
            self.figures["completed"] += len(done)
            self.running = [r for r in self.running if r.generated < r.output]
            step += 1

    def _grow(self) -> list[int]:
        preempted: list[int] = []
        self.decoding = self.context = 0
        for r in [r for r in self.running if r.whole]:
            while r in self.running and r.stored % self.block_size == 0 and self._used() == self.blocks:
                victim = self.running.pop()
                self.figures["preemptions"] += 1
                self.figures["recomputed_tokens"] += victim.stored
                victim.stored = victim.target = 0
                self.queue.insert(0, victim)
                preempted.append(victim.id)
            if r in self.running:
                r.stored += 1
                self.decoding += 1
                self.context += r.stored
                self.figures["total_token_allocs"] += 1
        return preempted

    def _prefill(self, r: Capped, tokens: int) -> None:
        if tokens:
            self.prefills.append((r.stored, r.stored + tokens))
        r.stored += tokens
        self.figures["total_token_allocs"] += tokens

    def _continue(self, left: int) -> int:
        for r in self.running:
            if not r.whole:
                tokens = min(left, r.target - r.stored)
                self._prefill(r, tokens)
                left -= tokens
        return left

    def _admit(self, left: int) -> None:
        while self.queue and left > 0:
            head = self.queue[0]
            target = head.prompt + head.generated
            if self._blocks(target) > self.blocks - self._used() or len(self.running) >= self.cap:
                return
            if target > left and not self.chunked:
                return
            head.target = target
            self.running.append(self.queue.pop(0))
            tokens = min(left, target)
            self._prefill(head, tokens)
            left -= tokens

    def _measure(self, step: int, preempted: list[int]) -> None:
        pairs = sum(sum(range(start + 1, stop + 1)) for start, stop in self.prefills)
        tokens = sum(stop - start for start, stop in self.prefills)
        self.work.append((self.decoding, self.context, tokens, pairs, sum(stop for _, stop in self.prefills)))
        assert self.decoding + tokens <= self.cap
        self.log.append(
            {
                "step": step,
                "running": [r.id for r in self.running],
                "stored": [r.stored for r in self.running],
                "blocks": [self._blocks(r.stored) for r in self.running],  # those that hold something
                "used_blocks": self._used(),
                "preempted": preempted,
                "waiting": [r.id for r in self.queue],
            }
        )
