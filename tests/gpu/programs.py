"""Random engine programs on a manager and a pool, and the model of their contents: who wrote which token.

Every append writes under a name of its own, so a byte left from an earlier owner, or from before a truncation, shows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from memory import pattern_by_hand
from pagedkv import DevicePool, KVCacheManager, KVLayout

LAYOUT = KVLayout(40, 4)
NUM_BLOCKS = 60
IN_FLIGHT = 2


@dataclass(frozen=True)
class Result:
    """What a program leaves: the plans in order, the contents of all live tokens, and how much happened."""

    plans: str
    contents: bytes
    copies: int
    tokens: int


@dataclass
class Program:
    """One run; `owners` is the model: of every sequence, the name under which each of its tokens was written."""

    device: str
    seed: int
    owners: dict[int, list[int]] = field(default_factory=dict)
    pins: list[tuple[int, bytes]] = field(default_factory=list)
    next_id: int = 1
    copies: int = 0
    tokens: int = 0

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.manager = KVCacheManager(NUM_BLOCKS, LAYOUT.block_size)
        self.pool = DevicePool(LAYOUT, NUM_BLOCKS, device=self.device)
        self.digest = hashlib.sha256()

    def run(self, steps: int) -> Result:
        """Carry it out; every step is checked against the manager's invariants, every fifth against the bytes."""
        with self.pool:
            for step in range(steps):
                self.release()
                self.admit()
                self.grow()
                self.manager.check()
                if step % 5 == 4:
                    self.verify()
            self.verify()
            return Result(self.digest.hexdigest(), self.contents(), self.copies, self.tokens)

    def admit(self) -> None:
        for _ in range(int(self.random.integers(3))):
            if self.manager.try_admit(self.next_id, (), reserve=int(self.random.integers(1, 20))):
                self.owners[self.next_id] = []
                self.next_id += 1

    def grow(self) -> None:
        """One step: append, apply, the kernels that write, step_done; then retire what is certainly done."""
        ids = self.some(0.7)
        plan = self.manager.append(ids, self.random.integers(0, 7, len(ids)), partial=True)
        self.digest.update(plan.to_bytes())
        self.pool.apply(plan)
        self.copies += len(plan.copies)
        names: list[int] = []
        positions: list[int] = []
        for seq_id, length in zip(ids[: plan.served], plan.lengths.tolist(), strict=True):
            written, name = self.owners[seq_id], seq_id << 32 | plan.step
            positions += range(len(written), length)
            names += [name] * (length - len(written))
            written += [name] * (length - len(written))
        if names:
            self.pool.fill_tokens(names, positions, plan.slots)
            self.tokens += len(names)
        self.pool.step_done(plan.step)
        if plan.step > IN_FLIGHT:  # the same blocks are free on every device, however fast it is
            self.pool.wait_step(plan.step - IN_FLIGHT)
            self.manager.retire(plan.step - IN_FLIGHT)

    def release(self) -> None:
        """Truncate some, free some, pin some blocks (so that their next writer copies) and unpin some."""
        for seq_id in self.some(0.3):
            length = int(self.random.integers(len(self.owners[seq_id]) + 1))
            self.manager.truncate([seq_id], [length], keep_blocks=bool(self.random.integers(2)))
            del self.owners[seq_id][length:]
        for seq_id in self.some(0.12):
            self.manager.free([seq_id], after=self.manager.last_step if self.random.integers(2) else None)
            del self.owners[seq_id]
        while self.pins and self.random.random() < 0.4:
            self.manager.allocator.free(self.pins.pop(0)[0])
        for seq_id in self.some(0.2):
            if self.owners[seq_id] and len(self.pins) < 6:
                self.pin(seq_id)

    def pin(self, seq_id: int) -> None:
        written = self.owners[seq_id]
        column = (len(written) - 1) // LAYOUT.block_size
        block = int(self.manager.get_page_table(seq_id).entries[column])
        first = column * LAYOUT.block_size
        self.manager.allocator.increment_ref(block)
        self.pins.append((block, by_hand(written, first)))

    def some(self, share: float) -> list[int]:
        """A random part of the live sequences, in random order."""
        ids = np.array(sorted(self.owners), np.int64)
        chosen: list[int] = self.random.permutation(ids[self.random.random(len(ids)) < share]).tolist()
        return chosen

    def verify(self) -> None:
        ids = sorted(self.owners)
        names = [name for seq_id in ids for name in self.owners[seq_id]]
        positions = [position for seq_id in ids for position in range(len(self.owners[seq_id]))]
        assert [self.manager.seq_length(seq_id) for seq_id in ids] == [len(self.owners[seq_id]) for seq_id in ids]
        if names:
            assert self.pool.verify_tokens(names, positions, self.manager.slot_mapping(ids)) == 0
        for block, expected in self.pins:
            held = self.pool.read_blocks([block])
            self.pool.stream.synchronize()
            assert held.tobytes()[: len(expected)] == expected, f"pinned block {block} was written"

    def contents(self) -> bytes:
        """The bytes of all live tokens, read block by block and compared with the pattern by hand."""
        result = b""
        for seq_id in sorted(self.owners):
            expected = by_hand(self.owners[seq_id], 0)
            held = self.pool.read_blocks(self.manager.get_page_table(seq_id).entries)
            self.pool.stream.synchronize()
            assert held.tobytes()[: len(expected)] == expected
            result += expected
        return result


def by_hand(names: list[int], first: int) -> bytes:
    """What the tokens from `first` on hold."""
    return b"".join(
        pattern_by_hand.token(names[position], position, LAYOUT.token_bytes) for position in range(first, len(names))
    )
