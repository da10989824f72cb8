"""Random engine programs on a manager and a pool, and the model of their contents: who wrote which token.

Every append writes under a name of its own, so a byte left from an earlier owner, from before a truncation or from
another beam shows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from memory import pattern_by_hand, pieces_by_hand
from pagedkv import DevicePool, KVCacheManager, KVLayout, OpaqueLayout, StepPlan
from pagedkv.layout import Layout

TOKEN_BYTES, BLOCK_SIZE = 40, 4
LAYOUTS: dict[str, Layout] = {
    "block-major": OpaqueLayout(TOKEN_BYTES, BLOCK_SIZE),
    "layer-major": KVLayout(2, 2, 4, "int8", BLOCK_SIZE, order="layer", v_head_dim=6),
}
NUM_BLOCKS = 60
IN_FLIGHT = 2
MOST_SEQUENCES = 24


@dataclass(frozen=True)
class Result:
    """What a program leaves: the plans in order, the contents of all live tokens, and how much happened."""

    plans: str
    contents: bytes
    copies: int
    tokens: int
    moves: int
    most_saved: int


@dataclass
class Program:
    """One run; `owners` is the model: of every sequence, the name under which each of its tokens was written.

    `reported`: sequences that a plan has named since they came to be, whose lines on the device must be their tables.
    """

    device: str
    seed: int
    pool_type: type[DevicePool] = DevicePool
    order: str = "block-major"
    owners: dict[int, list[int]] = field(default_factory=dict)
    reported: set[int] = field(default_factory=set)
    pins: list[tuple[int, bytes]] = field(default_factory=list)
    next_id: int = 1
    copies: int = 0
    tokens: int = 0
    moves: int = 0
    most_saved: int = 0

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.layout = LAYOUTS[self.order]
        self.manager = KVCacheManager(NUM_BLOCKS, BLOCK_SIZE)
        self.pool = self.pool_type(self.layout, NUM_BLOCKS, device=self.device)
        self.digest = hashlib.sha256()

    def run(self, steps: int) -> Result:
        """Carry it out; every step is checked against the manager's invariants, every fifth against the bytes."""
        with self.pool:
            for step in range(steps):
                self.release()
                self.admit()
                self.fork()
                self.reorder()
                self.grow()
                self.manager.check()
                self.most_saved = max(self.most_saved, self.manager.get_stats().saved_blocks)
                if step % 5 == 4:
                    self.verify()
            self.verify()
            return self.result()

    def result(self) -> Result:
        contents = self.contents()
        return Result(self.digest.hexdigest(), contents, self.copies, self.tokens, self.moves, self.most_saved)

    def admit(self) -> None:
        for _ in range(int(self.random.integers(3))):
            if self.manager.try_admit(self.next_id, (), reserve=int(self.random.integers(1, 20))):
                self.owners[self.next_id] = []
                self.next_id += 1

    def fork(self) -> None:
        """Some get children; half of these are put on the device at once, the others when they are first named."""
        for parent in self.some(0.1):
            children = list(range(self.next_id, self.next_id + int(self.random.integers(1, 4))))
            if len(self.owners) + len(children) > MOST_SEQUENCES:
                return
            self.next_id += len(children)
            self.manager.fork(parent, children)
            self.owners.update((child, list(self.owners[parent])) for child in children)
            if self.random.integers(2):
                self.carry_out(self.manager.reserve(children, self.manager.seq_lens(children)), children)

    def reorder(self) -> None:
        """Some become others: parents of the same fork or of none, itself, one parent for many."""
        ids = self.some(0.4)
        if not ids or self.random.random() < 0.4:
            return
        parents = self.random.integers(0, len(ids), len(ids))
        self.carry_out(self.manager.reorder(ids, parents), ids)
        written = [list(self.owners[ids[parent]]) for parent in parents.tolist()]
        self.owners.update(zip(ids, written, strict=True))
        self.moves += int((parents != np.arange(len(ids))).sum())

    def grow(self) -> None:
        """One step: append, apply, the kernels that write, step_done; then retire what is certainly done."""
        ids = self.some(0.7)
        plan = self.manager.append(ids, self.random.integers(0, 7, len(ids)), partial=True)
        names: list[int] = []
        positions: list[int] = []
        for seq_id, length in zip(ids[: plan.served], plan.lengths.tolist(), strict=True):
            written, name = self.owners[seq_id], seq_id << 32 | plan.step
            positions += range(len(written), length)
            names += [name] * (length - len(written))
            written += [name] * (length - len(written))
        self.carry_out(plan, ids[: plan.served], names, positions)
        self.tokens += len(names)
        if plan.step > IN_FLIGHT:  # the same blocks are free on every device, however fast it is
            self.pool.wait_step(plan.step - IN_FLIGHT)
            self.manager.retire(plan.step - IN_FLIGHT)

    def carry_out(
        self, plan: StepPlan, named: Sequence[int], names: Sequence[int] = (), positions: Sequence[int] = ()
    ) -> None:
        """Apply a plan, write its tokens, mark its step."""
        self.digest.update(plan.to_bytes())
        self.pool.apply(plan)
        self.copies += len(plan.copies)
        if names:
            self.pool.fill_tokens(names, positions, plan.slots)
        self.pool.step_done(plan.step)
        self.reported.update(named)

    def release(self) -> None:
        """Truncate some, free some, pin some blocks (so that their next writer copies) and unpin some."""
        for seq_id in self.some(0.3):
            length = int(self.random.integers(len(self.owners[seq_id]) + 1))
            self.manager.truncate([seq_id], [length], keep_blocks=bool(self.random.integers(2)))
            del self.owners[seq_id][length:]
        for seq_id in self.some(0.12):
            self.manager.free([seq_id], after=self.manager.last_step if self.random.integers(2) else None)
            del self.owners[seq_id]
            self.reported.discard(seq_id)
        while self.pins and self.random.random() < 0.4:
            self.manager.allocator.free(self.pins.pop(0)[0])
        for seq_id in self.some(0.2):
            if self.owners[seq_id] and len(self.pins) < 6:
                self.pin(seq_id)

    def pin(self, seq_id: int) -> None:
        written = self.owners[seq_id]
        column = (len(written) - 1) // BLOCK_SIZE
        block = int(self.manager.get_page_table(seq_id).entries[column])
        first = column * BLOCK_SIZE
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
        self.verify_tables()
        for block, expected in self.pins:
            assert self.tokens_of([block], len(expected)) == expected, f"pinned block {block} was written"

    def verify_tables(self) -> None:
        """The device's lines are the page tables, entry by entry."""
        memory = self.pool.tables.memory
        if memory is None:
            return
        held = np.empty(memory.rows * memory.width * 4, np.uint8)
        self.pool.backend.download(memory.buffer, 0, held, self.pool.stream)
        self.pool.stream.synchronize()
        table = held.view(np.int32).reshape(memory.rows, memory.width)
        for seq_id in sorted(self.reported):
            entries = self.manager.get_page_table(seq_id).entries
            line = table[self.manager.row(seq_id), : len(entries)]
            assert line.tolist() == entries.tolist(), f"the line of sequence {seq_id} is not its table"

    def contents(self) -> bytes:
        """The bytes of all live tokens, read block by block and compared with the pattern by hand."""
        result = b""
        for seq_id in sorted(self.owners):
            expected = by_hand(self.owners[seq_id], 0)
            assert self.tokens_of(self.manager.get_page_table(seq_id).entries, len(expected)) == expected
            result += expected
        return result

    def tokens_of(self, blocks: npt.ArrayLike, nbytes: int) -> bytes:
        """The first `nbytes` bytes of the tokens of these blocks, token by token."""
        held = self.pool.read_blocks(blocks)
        self.pool.stream.synchronize()
        order = [byte for slot in range(BLOCK_SIZE) for byte in pieces_by_hand.token_in_block(self.layout, slot)]
        return held[:, order].tobytes()[:nbytes]


def by_hand(names: list[int], first: int) -> bytes:
    """What the tokens from `first` on hold."""
    return b"".join(
        pattern_by_hand.token(names[position], position, TOKEN_BYTES) for position in range(first, len(names))
    )
