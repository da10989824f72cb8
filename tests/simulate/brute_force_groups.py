"""Groups of samples or beams once more: page tables as lists of numbered blocks, recounted in every step.

No manager, no formula of what a group needs: sharing, copies and footprints come out of the tables themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np

from .brute_force import arrive

Table = list[int]


@dataclass
class Group:
    """A request with its progress; tables and lengths: one of each sequence, none while it waits."""

    id: int
    arrival: int
    prompt: int
    output: int
    generated: int = 0
    tables: list[Table] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)


@dataclass
class GroupBruteForce:
    """Runs (arrival step, prompt, output) over blocks x block_size; afterwards `figures` and `log` are right."""

    requests: list[tuple[int, int, int]]
    blocks: int
    block_size: int
    size: int
    watermark: int = 0
    max_seqs: int | None = None
    final: bool = False
    survival: float | None = None  # None: samples
    seed: int = 42
    log: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fresh: Iterator[int] = count()
        self.random = np.random.PCG64(self.seed)
        known = [Group(i, *request) for i, request in enumerate(self.requests)]
        self.coming = [g for g in known if self._most(g) + self.watermark <= self.blocks]
        self.figures = {"rejected": len(known) - len(self.coming), "completed": 0, "steps": 0, "saturated_steps": 0}
        self.figures |= {"preemptions": 0, "recomputed_tokens": 0, "total_block_allocs": 0, "total_token_allocs": 0}
        self.figures |= {"peak_blocks": 0, "peak_logical_blocks": 0, "peak_saved_blocks": 0, "cow_copies": 0}
        self.figures |= {"sum_logical_blocks_over_steps": 0, "sum_allocated_blocks_over_steps": 0, "peak_running": 0}
        self.figures |= {"completed_tokens": 0, "sum_stored_tokens_over_steps": 0}
        self.ratios: list[float] = []
        self.running: list[Group] = []
        self.queue: list[Group] = []
        self._run()

    def _run(self) -> None:
        step = 0
        while self.running or self.queue or self.coming:
            idle = not self.running and not self.queue
            step, self.coming = arrive(step, self.coming, self.queue, idle=idle)
            if self.survival is not None:
                self._select(Fraction(self.survival))
            preempted = self._grow()
            if not preempted:
                self._admit()
            self._measure(step, preempted)
            for g in self.running:
                g.generated += 1
            ended = [g for g in self.running if g.generated == g.output]
            self.figures["completed"] += len(ended)
            self.figures["completed_tokens"] += sum(g.output * self.size for g in ended)
            self.running = [g for g in self.running if g.generated < g.output]
            step += 1

    def _tables(self) -> list[Table]:
        return [table for g in self.running for table in g.tables]

    def _used(self) -> int:
        return len({block for table in self._tables() for block in table})

    def _takes(self, g: Group, member: int) -> bool:
        """Does the next token of this sequence take a block: a new one, or a copy of one that others hold?"""
        if g.lengths[member] % self.block_size == 0:
            return True
        return sum(table[-1:] == g.tables[member][-1:] for table in g.tables) > 1

    def _store(self, g: Group, member: int) -> None:
        if self._takes(g, member):
            self.figures["total_block_allocs"] += 1
            if g.lengths[member] % self.block_size:
                self.figures["cow_copies"] += 1
                g.tables[member].pop()
            g.tables[member].append(next(self.fresh))
        g.lengths[member] += 1
        self.figures["total_token_allocs"] += 1

    def _start(self, g: Group) -> None:
        """The prompt once, then copies of the table, then what each sequence had generated."""
        g.tables, g.lengths = [[]], [0]
        for _ in range(g.prompt):
            self._store(g, 0)
        g.tables = [list(g.tables[0]) for _ in range(self.size)]
        g.lengths *= self.size
        for member in range(self.size):
            for _ in range(g.generated):
                self._store(g, member)

    def _need(self, g: Group, generated: int) -> int:
        """Start a copy of this group, count its blocks, and forget it."""
        before = dict(self.figures) if hasattr(self, "figures") else {"total_block_allocs": 0}
        self.figures = dict.fromkeys(("total_block_allocs", "cow_copies", "total_token_allocs"), 0)
        trial = Group(g.id, g.arrival, g.prompt, g.output, generated)
        self._start(trial)
        self.figures = before
        return len({block for table in trial.tables for block in table})

    def _most(self, g: Group) -> int:
        return self._need(g, g.output - 1)

    def _select(self, survival: Fraction) -> None:
        """Every beam continues itself or becomes a copy of another, all at once, once it has a token of its own."""
        for g in self.running:
            if g.lengths[0] == g.prompt:
                continue
            parents = []
            for own in range(self.size):
                stays, pick = (int(self.random.random_raw()) for _ in range(2))
                others = [beam for beam in range(self.size) if beam != own]
                other = others[(pick >> 32) * len(others) >> 32]
                parents.append(own if stays < survival * 2**64 else other)
            g.tables = [list(g.tables[parent]) for parent in parents]

    def _grow(self) -> list[int]:
        preempted: list[int] = []
        for g in list(self.running):
            for member in range(self.size):
                while g in self.running and self._takes(g, member) and self._used() == self.blocks:
                    preempted.append(self._preempt())
                if g in self.running:
                    self._store(g, member)
        return preempted

    def _preempt(self) -> int:
        victim = self.running.pop()
        self.figures["preemptions"] += 1
        self.figures["recomputed_tokens"] += victim.prompt + sum(n - victim.prompt for n in victim.lengths)
        victim.tables, victim.lengths = [], []
        self.queue.insert(0, victim)
        return victim.id

    def _admit(self) -> None:
        while self.queue and (self.max_seqs is None or len(self.running) < self.max_seqs):
            head = self.queue[0]
            if self._need(head, head.generated) + self.watermark > self.blocks - self._used():
                return
            if self.final and sum(map(self._most, [*self.running, head])) + self.watermark > self.blocks:
                return
            self._start(head)
            self.running.append(self.queue.pop(0))

    def _fills(self) -> int:
        """Tokens in all blocks, each block counted once."""
        fills: dict[int, int] = {}
        for g in self.running:
            for table, length in zip(g.tables, g.lengths, strict=True):
                for place, block in enumerate(table):
                    tokens = min(self.block_size, length - place * self.block_size)
                    fills[block] = max(fills.get(block, 0), tokens)
        return sum(fills.values())

    def _measure(self, step: int, preempted: list[int]) -> None:
        figures, used, logical = self.figures, self._used(), sum(map(len, self._tables()))
        figures["steps"] += 1
        figures["peak_blocks"] = max(figures["peak_blocks"], used)
        figures["peak_logical_blocks"] = max(figures["peak_logical_blocks"], logical)
        figures["peak_saved_blocks"] = max(figures["peak_saved_blocks"], logical - used)
        figures["peak_running"] = max(figures["peak_running"], len(self.running))
        figures["sum_allocated_blocks_over_steps"] += used
        figures["sum_logical_blocks_over_steps"] += logical
        figures["sum_stored_tokens_over_steps"] += self._fills()
        if self.queue:
            figures["saturated_steps"] += 1
            self.ratios.append(logical / used)
        self.log.append(
            {
                "step": step,
                "running": [g.id * self.size + member for g in self.running for member in range(self.size)],
                "stored": [length for g in self.running for length in g.lengths],
                "blocks": [len(table) for table in self._tables()],
                "used_blocks": used,
                "preempted": preempted,
                "waiting": [g.id for g in self.queue],
                "logical_blocks": logical,
                "stored_tokens": self._fills(),
                "copies": figures["cow_copies"],
            }
        )
