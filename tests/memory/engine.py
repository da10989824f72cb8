"""A small engine on host streams: a manager, a pool, a compute stream and a copy stream, driven by a script.

The script is a list of (action, a, b) with small numbers, so that hypothesis can choose and shrink it: what the
engine puts on the streams, and how far each stream gets in between. Whatever the order in which the streams run,
every read must give the bytes that the program order says; the model is the token-unique pattern, by hand.
`Engine` orders its streams as the pool's contract says. Its subclasses in `planted_faults` each forget one thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pagedkv import DevicePool, KVCacheManager, OpaqueLayout
from pagedkv.backends.host import HostBackend, HostStream

from . import pattern_by_hand

TOKEN_BYTES = 8
BLOCK_SIZE = 2
NUM_BLOCKS = 5
ACTIONS = (
    "start",
    "grow",
    "finish",
    "read",
    "swap out",
    "swap in",
    "pin",
    "read pin",
    "unpin",
    "retire",
    "compute",
    "copy",
)

Action = tuple[str, int, int]
Bytes = npt.NDArray[np.uint8]


class WrongBytesError(AssertionError):
    """A read gave other bytes than the program order says."""


@dataclass(frozen=True)
class Read:
    """A read put on a stream: what it was for, where its bytes arrive, and what they must be; `places`: where among
    those that arrive, if not at their start.
    """

    what: str
    arrived: Bytes
    expected: bytes
    places: Sequence[int] | None = None

    def check(self) -> None:
        places = slice(len(self.expected)) if self.places is None else list(self.places)
        arrived = self.arrived.reshape(-1)[places].tobytes()
        if arrived != self.expected:
            raise WrongBytesError(f"{self.what}: {arrived.hex()} arrived, {self.expected.hex()} was written")


class Engine:
    """Carries out a script. Sequence ids are never used twice, so bytes of a former owner always show."""

    pool_type: type[DevicePool] = DevicePool

    def __init__(self) -> None:
        backend = HostBackend(stepped=True)
        self.manager = KVCacheManager(NUM_BLOCKS, BLOCK_SIZE)
        self.pool = self.pool_type(OpaqueLayout(TOKEN_BYTES, BLOCK_SIZE), NUM_BLOCKS, device=backend)
        self.backend = backend
        self.compute = self.pool.stream
        self.copy = backend.stream()
        self.lengths: dict[int, int] = {}
        self.pins: list[tuple[int, bytes]] = []
        self.reads: list[Read] = []
        self._next_id = 1
        self._open_step = 0

    def run(self, script: Sequence[Action]) -> None:
        """Carry out the script, let everything finish, check every read and that no block is lost."""
        for action, a, b in script:
            getattr(self, "_" + action.replace(" ", "_"))(a, b)
            self.manager.check()
        self._end()

    # --- ordering: what the planted faults leave out ------------------------------------------------------------------

    def order_copy_behind_compute(self) -> None:
        self.pool.fence(self.copy)

    def order_compute_behind_copy(self) -> None:
        event = self.backend.event()
        self.copy.record(event)
        self.compute.wait(event)

    def streams_of_a_step(self) -> tuple[HostStream, ...]:
        return (self.copy,)

    def free_behind(self, step: int) -> int | None:
        return step

    # --- actions ------------------------------------------------------------------------------------------------------

    def _start(self, a: int, b: int) -> None:
        """A new sequence, its tokens written by a kernel."""
        if self._admit(1 + a % 4):
            self._append(self._next_id - 1, 1 + a % 4)

    def _grow(self, a: int, b: int) -> None:
        if self.lengths:
            self._append(self._pick(a), b % 3)

    def _finish(self, a: int, b: int) -> None:
        """Its blocks may be reused by work put on the compute stream later."""
        if self.lengths:
            seq_id = self._pick(a)
            self.manager.free([seq_id])
            del self.lengths[seq_id]

    def _read(self, a: int, b: int) -> None:
        """A kernel that reads a whole sequence."""
        if self.lengths:
            self._put_read("read", self._pick(a), self.compute)

    def _swap_out(self, a: int, b: int) -> None:
        """A copy stream takes a sequence to the host, which is freed at once but pending until the copy is done."""
        if not self.lengths:
            return
        seq_id = self._pick(a)
        self._append(seq_id, 0)
        self.order_copy_behind_compute()
        self._put_read("swap out", seq_id, self.copy)
        self.manager.free([seq_id], after=self.free_behind(self._open_step))
        del self.lengths[seq_id]

    def _swap_in(self, a: int, b: int) -> None:
        """A copy stream brings a sequence's bytes into blocks just handed out; kernels may read them from then on."""
        count = 1 + a % 4
        if not self._admit(count):
            return
        seq_id = self._next_id - 1
        if not self._append(seq_id, count, write=False):
            return
        self.order_copy_behind_compute()
        blocks = self._blocks(seq_id)
        rows = np.zeros((len(blocks), BLOCK_SIZE * TOKEN_BYTES), np.uint8)
        rows.reshape(-1)[: count * TOKEN_BYTES] = list(pattern_by_hand.tokens(seq_id, count, TOKEN_BYTES))
        self.pool.write_blocks(blocks, rows, self.copy)
        self.order_compute_behind_copy()

    def _pin(self, a: int, b: int) -> None:
        """Hold a sequence's last block: the sequence's next write copies it first (copy-on-write)."""
        seq_id = self._pick(a) if self.lengths else 0
        if self.lengths.get(seq_id):
            first = (self.lengths[seq_id] - 1) // BLOCK_SIZE * BLOCK_SIZE
            block = int(self._blocks(seq_id)[first // BLOCK_SIZE])
            self.manager.allocator.increment_ref(block)
            held = pattern_by_hand.tokens(seq_id, self.lengths[seq_id], TOKEN_BYTES)[first * TOKEN_BYTES :]
            self.pins.append((block, held))
            if b >= 4:
                self._append(seq_id, 1)

    def _read_pin(self, a: int, b: int) -> None:
        if self.pins:
            block, held = self.pins[a % len(self.pins)]
            self.reads.append(Read("read pin", self.pool.read_blocks([block]), held))

    def _unpin(self, a: int, b: int) -> None:
        if self.pins:
            self.manager.allocator.free(self.pins.pop(a % len(self.pins))[0])

    def _retire(self, a: int, b: int) -> None:
        self.manager.retire(self.pool.finished_step())

    def _compute(self, a: int, b: int) -> None:
        """The compute stream gets on by some operations."""
        _ = [self.compute.step() for _ in range(1 + 2 * a)]

    def _copy(self, a: int, b: int) -> None:
        """The copy stream gets on by some operations; fewer, so that it lags."""
        _ = [self.copy.step() for _ in range(1 + a // 2)]

    # --- steps --------------------------------------------------------------------------------------------------------

    def _admit(self, count: int) -> bool:
        self._retire(0, 0)
        if self.manager.try_admit(self._next_id, (), reserve=count) is None:
            return False
        self.lengths[self._next_id] = 0
        self._next_id += 1
        return True

    def _append(self, seq_id: int, count: int, *, write: bool = True) -> bool:
        """A step: plan, apply, kernels. The step before it has got all its work by now."""
        if self.lengths[seq_id] + count > NUM_BLOCKS * BLOCK_SIZE:
            return False
        plan = self.manager.try_append([seq_id], [count])
        if plan is None:
            return False
        self._close_step()
        self.pool.apply(plan)
        self._open_step = plan.step
        start = self.lengths[seq_id]
        if write:
            self.pool.fill_tokens(seq_id, range(start, start + count), plan.slots)
        self.lengths[seq_id] = start + count
        return True

    def _close_step(self) -> None:
        if self._open_step:
            self.pool.step_done(self._open_step, also=self.streams_of_a_step())
            self._open_step = 0

    def _put_read(self, what: str, seq_id: int, stream: HostStream) -> None:
        expected = pattern_by_hand.tokens(seq_id, self.lengths[seq_id], TOKEN_BYTES)
        arrived = self.pool.read_blocks(self._blocks(seq_id), stream=stream)
        self.reads.append(Read(f"{what} of sequence {seq_id}", arrived, expected))

    def _blocks(self, seq_id: int) -> npt.NDArray[np.int32]:
        return self.manager.get_page_table(seq_id).entries

    def _pick(self, a: int) -> int:
        return sorted(self.lengths)[a % len(self.lengths)]

    def _end(self) -> None:
        for seq_id in sorted(self.lengths):
            self._put_read("last read", seq_id, self.compute)
        self._close_step()
        self.copy.synchronize()
        self.compute.synchronize()
        for read in self.reads:
            read.check()
        self._check_tables()
        self.manager.free(sorted(self.lengths))
        for block, _ in self.pins:
            self.manager.allocator.free(block)
        self._retire(0, 0)
        assert self.manager.get_stats().free_blocks == NUM_BLOCKS
        self.manager.check()
        self.pool.close()

    def _check_tables(self) -> None:
        """The tables on the device name the blocks that the manager means, as far as plans have named the sequence."""
        for seq_id, length in self.lengths.items():
            used = -(-length // BLOCK_SIZE)
            on_device = self.pool.tables.array[self.manager.row(seq_id), :used] if used else []
            assert list(on_device) == self._blocks(seq_id)[:used].tolist()
