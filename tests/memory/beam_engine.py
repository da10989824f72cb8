"""A small engine on host streams whose sequences share blocks: fork, write by batches, reorder, go back, end.

Each sequence is a list of tokens (writer, position); every write has a writer of its own, so bytes of a former owner,
of another holder or of an earlier try always show. Kernels find the tokens as those of a model do, through the
device-resident row of the sequence, when the compute stream gets to them; copy streams are given the page table.
The script is a list of (action, a, b) with small numbers, as in `engine`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np

from pagedkv import DevicePool, KVCacheManager, OpaqueLayout, StepPlan
from pagedkv.backends.host import HostBackend, HostStream
from pagedkv.layout import Layout
from pagedkv.pool.device_pool import AppliedPlan

from . import pattern_by_hand, pieces_by_hand
from .engine import Action, Read

TOKEN_BYTES = 8
BLOCK_SIZE = 3
NUM_BLOCKS = 9
MOST_LIVE = 6
BEAM_ACTIONS = (
    "start",
    "fork",
    "grow",
    "grow",
    "reorder",
    "cut",
    "finish",
    "read",
    "save",
    "retire",
    "compute",
    "copy",
)

Token = tuple[int, int]


class BeamEngine:
    """Carries out a script. Its subclasses in `beam_faults` each do one thing wrong."""

    pool_type: type[DevicePool] = DevicePool
    layout: Layout = OpaqueLayout(TOKEN_BYTES, BLOCK_SIZE)

    def __init__(self) -> None:
        self.backend = HostBackend(stepped=True)
        self.manager = KVCacheManager(NUM_BLOCKS, BLOCK_SIZE)
        self.memory = np.zeros(self.layout.pool_bytes(NUM_BLOCKS), np.uint8)
        self.pool = self.pool_type(self.layout, NUM_BLOCKS, device=self.backend, memory=self.memory)
        stream = self.pool.stream
        assert isinstance(stream, HostStream)
        self.compute = stream
        self.copy = self.backend.stream()
        self.tokens: dict[int, list[Token]] = {}
        self.reads: list[Read] = []
        self._ids = count(1)
        self._writers = count(1)
        self._open_step = 0

    def run(self, script: Sequence[Action]) -> None:
        """Carry out the script, let everything finish, check every read and that no block is lost."""
        for action, a, b in script:
            getattr(self, "_" + action)(a, b)
            self.manager.check()
        self._end()

    # --- what the planted faults do differently -----------------------------------------------------------------------

    def apply(self, plan: AppliedPlan) -> None:
        self.pool.apply(plan)

    def apply_reorder(self, plan: StepPlan) -> None:
        self.apply(plan)

    def plan_reorder(self, ids: Sequence[int], parents: Sequence[int]) -> list[StepPlan]:
        return [self.manager.reorder(ids, parents)]

    def apply_and_write(self, plan: StepPlan, writers: Sequence[int], positions: Sequence[int]) -> None:
        self.apply(plan)
        self.pool.fill_tokens(writers, positions, plan.slots)

    def name_before_reading(self, ids: Sequence[int]) -> None:
        """Rows of sequences that no plan has named since their fork are not on the device yet."""
        self._close_step()
        plan = self.manager.reserve(ids, [0] * len(ids))
        self.apply(plan)
        self._open_step = plan.step

    def order_copy_behind_compute(self) -> None:
        self.pool.fence(self.copy)

    def free_behind(self, step: int) -> int | None:
        return step

    # --- actions ------------------------------------------------------------------------------------------------------

    def _start(self, a: int, b: int) -> None:
        if len(self.tokens) < MOST_LIVE:
            seq_id = next(self._ids)
            self.manager.admit(seq_id, (), reserve=0)
            self.tokens[seq_id] = []
            self._append([seq_id], [1 + a % 5])

    def _fork(self, a: int, b: int) -> None:
        children = [next(self._ids) for _ in range(min(1 + b % 3, MOST_LIVE - len(self.tokens)))]
        if children and self.tokens:
            parent = self._some(a, 1)[0]
            self.manager.fork(parent, children)
            self.tokens.update({child: list(self.tokens[parent]) for child in children})

    def _grow(self, a: int, b: int) -> None:
        ids = self._some(a, 1 + b)
        self._append(ids, [1 + (a + i) % 2 for i in range(len(ids))])

    def _reorder(self, a: int, b: int) -> None:
        """All from one parent, a ring, or in leaps."""
        ids = self._some(a, 2 + b)
        parents = [(b + i * (a % 3)) % len(ids) for i in range(len(ids))]
        before = [self.tokens[seq_id] for seq_id in ids]
        self._close_step()
        for plan in self.plan_reorder(ids, parents):
            self._close_step()
            self.apply_reorder(plan)
            self._open_step = plan.step
        self.tokens.update({seq_id: list(before[parent]) for seq_id, parent in zip(ids, parents, strict=True)})

    def _cut(self, a: int, b: int) -> None:
        """Back into what others hold too; what comes next there is written by a later writer."""
        for seq_id in self._some(a, 1):
            length = len(self.tokens[seq_id]) * b // 8
            self.manager.truncate([seq_id], [length], keep_blocks=a % 2 == 1)
            del self.tokens[seq_id][length:]

    def _finish(self, a: int, b: int) -> None:
        """Some at once; what only they held may be reused by work put on the compute stream later."""
        ended = self._some(a, 1 + b // 2)
        self.manager.free(ended)
        for seq_id in ended:
            del self.tokens[seq_id]

    def _read(self, a: int, b: int) -> None:
        """Kernels that read whole sequences."""
        ids = self._some(a, 1 + b)
        if ids:
            self.name_before_reading(ids)
            for seq_id in ids:
                self._put_kernel(seq_id)

    def _save(self, a: int, b: int) -> None:
        """A copy stream takes a sequence to the host; it ends at once, but nobody may write what is still read."""
        for seq_id in self._some(a, 1):
            self._append([seq_id], [0])
            self.order_copy_behind_compute()
            arrived = self.pool.read_blocks(self._table(seq_id), stream=self.copy)
            places = self._places(len(self.tokens[seq_id]))
            self.reads.append(Read(f"save of sequence {seq_id}", arrived, self._bytes(seq_id), places))
            self.manager.free([seq_id], after=self.free_behind(self._open_step))
            del self.tokens[seq_id]

    def _retire(self, a: int, b: int) -> None:
        self.manager.retire(self.pool.finished_step())

    def _compute(self, a: int, b: int) -> None:
        _ = [self.compute.step() for _ in range(1 + 2 * a)]

    def _copy(self, a: int, b: int) -> None:
        _ = [self.copy.step() for _ in range(1 + a // 2)]

    # --- steps --------------------------------------------------------------------------------------------------------

    def _append(self, ids: Sequence[int], counts: Sequence[int]) -> None:
        """A step: plan, apply, kernels. The step before it has got all its work by now."""
        self._retire(0, 0)
        if any(len(self.tokens[s]) + n > NUM_BLOCKS * BLOCK_SIZE for s, n in zip(ids, counts, strict=True)):
            return
        self._close_step()
        plan = self.manager.append(ids, counts, partial=True)
        new: list[Token] = []
        for seq_id, added in list(zip(ids, counts, strict=True))[: plan.served]:
            start, writer = len(self.tokens[seq_id]), next(self._writers)
            mine = [(writer, position) for position in range(start, start + added)]
            self.tokens[seq_id] += mine
            new += mine
        self.apply_and_write(plan, [writer for writer, _ in new], [position for _, position in new])
        self._open_step = plan.step

    def _close_step(self) -> None:
        if self._open_step:
            self.pool.step_done(self._open_step, also=self.streams_of_a_step())
            self._open_step = 0

    def streams_of_a_step(self) -> tuple[HostStream, ...]:
        return (self.copy,)

    def _put_kernel(self, seq_id: int) -> None:
        expected, row = self._bytes(seq_id), self.manager.row(seq_id)
        used = -(-len(self.tokens[seq_id]) // BLOCK_SIZE)
        count = len(self.tokens[seq_id])
        arrived = np.zeros(count * TOKEN_BYTES, np.uint8)

        def kernel() -> None:
            blocks = self.pool.tables.array[row, :used].tolist() if used else []
            slots = [blocks[at // BLOCK_SIZE] * BLOCK_SIZE + at % BLOCK_SIZE for at in range(count)]
            pieces = [piece for slot in slots for piece in pieces_by_hand.token(self.layout, NUM_BLOCKS, slot)]
            arrived[:] = np.concatenate([self.memory[:0], *(self.memory[start : start + n] for start, n in pieces)])

        self.compute.enqueue(kernel)
        self.reads.append(Read(f"kernel on sequence {seq_id}", arrived, expected))

    def _bytes(self, seq_id: int) -> bytes:
        return b"".join(pattern_by_hand.token(*token, TOKEN_BYTES) for token in self.tokens[seq_id])

    def _places(self, count: int) -> list[int]:
        """Where the bytes of `count` tokens are among those of their blocks."""
        blocks = (at // BLOCK_SIZE * self.layout.block_bytes for at in range(count))
        return [
            block + byte for at, block in enumerate(blocks) for byte in pieces_by_hand.token_in_block(self.layout, at)
        ]

    def _table(self, seq_id: int) -> list[int]:
        used = -(-len(self.tokens[seq_id]) // BLOCK_SIZE)
        return [int(block) for block in self.manager.get_page_table(seq_id).entries[:used]]

    def _some(self, a: int, most: int) -> list[int]:
        """Up to `most` live sequences, from one chosen by `a` on, in one of the two directions."""
        live = sorted(self.tokens, reverse=a % 2 == 1)
        first = a % len(live) if live else 0
        return (live[first:] + live[:first])[:most]

    def _end(self) -> None:
        if self.tokens:
            self.name_before_reading(sorted(self.tokens))
        for seq_id in sorted(self.tokens):
            self._put_kernel(seq_id)
        self._close_step()
        self.copy.synchronize()
        self.compute.synchronize()
        for read in self.reads:
            read.check()
        for seq_id in sorted(self.tokens):
            used = self._table(seq_id)
            row = self.manager.row(seq_id)
            assert not used or self.pool.tables.array[row, : len(used)].tolist() == used
        self.manager.free(sorted(self.tokens))
        self._retire(0, 0)
        assert self.manager.get_stats().free_blocks == NUM_BLOCKS
        self.manager.check()
        self.pool.close()
