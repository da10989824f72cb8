"""Prefix reuse once more: every block a number, its content all the tokens up to its end, every list searched.

No manager, no hash, no token ids. Of several copies of a content the first is found, and when that is gone the newest:
the manager's rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .brute_force import Request, arrive

Content = tuple[object, ...]


@dataclass
class Reusing(Request):
    """table: its blocks, none while it waits."""

    table: list[int] = field(default_factory=list)


@dataclass
class ReuseBruteForce:
    """Runs (arrival step, prompt, output) over blocks x block_size; afterwards `figures` and `log` are right.

    identities: what each prompt holds, one for tokens_per_id tokens; None: nothing in common.
    """

    requests: list[tuple[int, int, int]]
    identities: list[list[int]] | None
    tokens_per_id: int
    blocks: int
    block_size: int
    watermark: int = 0
    max_seqs: int | None = None
    final: bool = False
    log: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clean = list(range(self.blocks))
        self.cached: list[int] = []  # released longest ago first
        self.holders = [0] * self.blocks
        self.content: dict[int, Content] = {}
        self.copies: dict[Content, list[int]] = {}
        known = [Reusing(i, *request) for i, request in enumerate(self.requests)]
        self.coming = [r for r in known if self._most(r) + self.watermark <= self.blocks]
        self.figures = {"rejected": len(known) - len(self.coming), "completed": 0, "steps": 0, "saturated_steps": 0}
        self.figures |= {"preemptions": 0, "recomputed_tokens": 0, "total_token_allocs": 0, "total_block_allocs": 0}
        self.figures |= {"total_block_frees": 0, "peak_blocks": 0, "queried_tokens": 0, "hit_tokens": 0}
        self.figures |= {"queried_blocks": 0, "hit_blocks": 0, "revived_blocks": 0, "evictions": 0, "cached_blocks": 0}
        self.running: list[Reusing] = []
        self.queue: list[Reusing] = []
        self._run()

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
            for r in [r for r in self.running if r.generated == r.output]:
                self.figures["completed"] += 1
                self.running.remove(r)
                self._free(r)
            step += 1
        self.figures["cached_blocks"] = len(self.cached)

    def _most(self, r: Reusing) -> int:
        return self._count(r.prompt + r.output - 1)

    def _count(self, tokens: int) -> int:
        return (tokens + self.block_size - 1) // self.block_size

    def _used(self) -> int:
        return self.blocks - len(self.clean) - len(self.cached)

    def _upto(self, r: Reusing, blocks: int) -> Content:
        """What this request's first blocks hold, token by token."""
        tokens: list[object] = [(r.id, position) for position in range(blocks * self.block_size)]
        if self.identities is not None:
            for position in range(min(r.prompt, len(tokens))):
                place, offset = divmod(position, self.tokens_per_id)
                tokens[position] = ("id", self.identities[r.id][place], offset)
        return tuple(tokens)

    def _take(self) -> int:
        self.figures["total_block_allocs"] += 1
        if self.clean:
            block = self.clean.pop()
        else:
            block = self.cached.pop(0)
            self.figures["evictions"] += 1
            self._forget(block)
        self.holders[block] = 1
        return block

    def _forget(self, block: int) -> None:
        content = self.content.pop(block)
        self.copies[content].remove(block)
        if not self.copies[content]:
            del self.copies[content]
            assert not any(longer[: len(content)] == content for longer in self.copies), "a tail outlived its head"

    def _store(self, r: Reusing, tokens: int) -> None:
        """Store tokens of blocks that are already there; full blocks can be found from here on."""
        for count in range(r.stored + 1, r.stored + tokens + 1):
            if count % self.block_size == 0:
                block, content = r.table[count // self.block_size - 1], self._upto(r, count // self.block_size)
                self.content[block] = content
                self.copies.setdefault(content, []).insert(1, block)
        r.stored += tokens
        self.figures["total_token_allocs"] += tokens

    def _free(self, r: Reusing) -> None:
        for block in reversed(r.table):
            self.holders[block] -= 1
            if self.holders[block] == 0:
                self.figures["total_block_frees"] += 1
                (self.cached if block in self.content else self.clean).append(block)
        r.table, r.stored = [], 0

    def _grow(self) -> list[int]:
        preempted: list[int] = []
        for r in list(self.running):
            while r in self.running and r.stored % self.block_size == 0 and self._used() == self.blocks:
                victim = self.running.pop()
                self.figures["preemptions"] += 1
                self.figures["recomputed_tokens"] += victim.stored
                self._free(victim)
                self.queue.insert(0, victim)
                preempted.append(victim.id)
            if r in self.running:
                if r.stored % self.block_size == 0:
                    r.table.append(self._take())
                self._store(r, 1)
        return preempted

    def _admit(self) -> None:
        while self.queue and (self.max_seqs is None or len(self.running) < self.max_seqs):
            head = self.queue[0]
            if self.final and sum(map(self._most, [*self.running, head])) + self.watermark > self.blocks:
                return
            if not self._start(head):
                return
            self.running.append(self.queue.pop(0))

    def _start(self, r: Reusing) -> bool:
        length = r.prompt + r.generated
        found: list[int] = []
        while (len(found) + 1) * self.block_size < length and self._upto(r, len(found) + 1) in self.copies:
            found.append(self.copies[self._upto(r, len(found) + 1)][0])
        revived = [block for block in found if block in self.cached]
        needed = self._count(length) - len(found)
        if needed + self.watermark > self.blocks - self._used() - len(revived):
            return False
        for block in found:
            self.holders[block] += 1
        self.cached = [block for block in self.cached if block not in revived]
        r.table = found + [self._take() for _ in range(needed)]
        hit = r.stored = len(found) * self.block_size
        self._store(r, length - hit)
        self.figures["revived_blocks"] += len(revived)
        self.figures["queried_tokens"] += length
        self.figures["hit_tokens"] += hit
        self.figures["queried_blocks"] += length // self.block_size
        self.figures["hit_blocks"] += len(found)
        self.figures["recomputed_tokens"] -= hit if r.generated else 0
        return True

    def _measure(self, step: int, preempted: list[int]) -> None:
        figures, held = self.figures, {block for r in self.running for block in r.table}
        figures["steps"] += 1
        figures["saturated_steps"] += bool(self.queue)
        figures["peak_blocks"] = max(figures["peak_blocks"], self._used())
        assert len(held) == self._used()
        partial = sum(r.stored % self.block_size for r in self.running)
        full = {block for r in self.running for block in r.table[: r.stored // self.block_size]}
        self.log.append(
            {
                "step": step,
                "running": [r.id for r in self.running],
                "stored": [r.stored for r in self.running],
                "blocks": [len(r.table) for r in self.running],
                "used_blocks": self._used(),
                "preempted": preempted,
                "waiting": [r.id for r in self.queue],
                "cached_blocks": len(self.cached),
                "evictions": figures["evictions"],
                "queried_tokens": figures["queried_tokens"],
                "hit_tokens": figures["hit_tokens"],
                "logical_blocks": sum(len(r.table) for r in self.running),
                "stored_tokens": len(full) * self.block_size + partial,
            }
        )
