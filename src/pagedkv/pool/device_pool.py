"""DevicePool: the bytes of all blocks, and the order of everything done to them.

Owns: one piece of memory for all blocks (made at construction; none later), the device-resident block tables,
the events of the steps in flight. A manager decides, a pool carries out; it knows no sequence.
Invariants: plans are applied in step order; finished_step <= last step marked done <= last step applied.
Streams: everything goes on the compute stream unless a method is given another; nothing synchronizes the
whole device. What is freed without `after` may be reused by work put on the compute stream later, so a copy
stream calls `fence` before it touches new blocks. Threads: one at a time.
Cost: `apply` O(copies + updates) and at most two launches; addresses O(1).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.backends import Backend, open_backend
from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.kernels import TableMemory
from pagedkv.layout import Layout
from pagedkv.pool.pool_attention import PoolAttention
from pagedkv.pool.pool_bytes import check_copies
from pagedkv.pool.step_events import StepEvents
from pagedkv.streams import AnyStream, Stream
from pagedkv.tables import BlockTables


class AppliedPlan(Protocol):
    """What `apply` reads of a step plan; `pagedkv.StepPlan` has it."""

    @property
    def step(self) -> int:
        """Number of the step, from 1."""

    @property
    def copies(self) -> npt.NDArray[np.int32]:
        """int32 [m, 2] (source, destination)."""

    @property
    def updates(self) -> npt.NDArray[np.int32]:
        """int32 [k, 3] (row, column, block)."""


class DevicePool(PoolAttention):
    """`num_blocks` blocks of `layout` on one device, plus `scratch_blocks` more behind them for padding.

    device: "auto", "host", "null", "cuda:N", or an open Backend. memory: the caller's writable, contiguous
    bytes to use instead of allocating; never copied, never freed. Raises InvalidArgumentError for bad sizes
    and BackendError when the memory cannot be had. A context manager: leaving it closes the pool.
    first_step: the step of the first plan that it applies; manager.last_step + 1 for a pool beside a running manager.
    """

    def __init__(
        self,
        layout: Layout,
        num_blocks: int,
        *,
        device: str | Backend = "auto",
        memory: object = None,
        scratch_blocks: int = 0,
        first_step: int = 1,
    ) -> None:
        super().__init__(layout, num_blocks, device=device, memory=memory, scratch_blocks=scratch_blocks)
        pad = self.num_blocks if self.scratch_blocks else 0
        self.tables = BlockTables(
            self.backend,
            pad=pad,
            width_limit=self.num_blocks,
            block_size=layout.block_size,
            stream=self._stream,
        )
        self.backend.kernels.prepare(self._memory)
        self._steps = StepEvents(self.backend)
        self._applied_step = whole_number(first_step, "first_step", minimum=1) - 1

    @classmethod
    def fit(
        cls, layout: Layout, fraction: float = 0.9, *, device: str | Backend = "auto", scratch_blocks: int = 0
    ) -> Self:
        """A pool as large as `fraction` (above 0, at most 1) of the device's free memory allows, with scratch blocks.

        Raises InvalidArgumentError for a fraction that is none or too little for one block, BackendError where the free
        memory is not known.
        """
        if isinstance(fraction, bool) or not isinstance(fraction, (int, float)) or not 0 < fraction <= 1:
            raise InvalidArgumentError(f"fraction is {fraction!r}; give a number above 0 and at most 1")
        backend = open_backend(device) if isinstance(device, str) else device
        memory = backend.memory_info()
        if memory is None:
            raise BackendError(name="UNKNOWN_MEMORY", text="this device does not tell its memory", call="fit")
        blocks = layout.blocks_in(int(memory.free * fraction)) - scratch_blocks
        if blocks < 1:
            raise InvalidArgumentError(
                f"{fraction} of {memory.free} free bytes hold no block of {layout.block_bytes} bytes besides "
                f"{scratch_blocks} scratch blocks; use smaller blocks or a larger fraction"
            )
        return cls(layout, min(blocks, INT32_MAX - 1), device=backend, scratch_blocks=scratch_blocks)

    @property
    def applied_step(self) -> int:
        """The step of the last applied plan, 0 at first."""
        return self._applied_step

    def apply(self, plan: AppliedPlan, stream: AnyStream | None = None) -> None:
        """Carry out a plan's block copies, then its table updates, before the kernels of its step.

        Put on `stream`, which is the compute stream from then on (None: the one there is); the first call on
        another stream is ordered behind all work on the former. The plan is read before the call returns.
        Raises InvalidArgumentError, nothing changed, for a step that is not later than the last, ids outside
        the pool, or copies that read what they write; BackendError if the pool is closed or lost, or is lost
        by this call; too little memory for larger tables changes nothing.
        """
        self.ensure_usable("apply")
        queue = self._queue(stream)
        step, copies, updates = _contents(plan)
        if step != self._applied_step + 1:
            raise InvalidArgumentError(
                f"step {step} was to be applied after step {self._applied_step}; apply every plan once, in step order"
            )
        check_copies(copies, self.total_blocks)
        rows, width = self.tables.check(updates, self.total_blocks) if len(updates) else (0, 0)
        # Before anything is put on the stream: too little memory must leave the pool as it was.
        larger = self.tables.allocate(rows, width)
        self._guard("apply", lambda: self._launch(copies, updates, larger, queue))
        self._applied_step = step

    def step_done(self, step: int, stream: AnyStream | None = None, *, also: Sequence[AnyStream] = ()) -> None:
        """The kernels of `step` are all put on `stream` (None: the compute stream), and on those of `also`,
        copy streams say.

        `finished_step` reaches the step once all of them have passed this place. Raises InvalidArgumentError
        unless steps come in order, each once, after the step's plan was applied. Does not wait.
        """
        queue = self._queue(stream)
        self.ensure_usable("step_done")
        whole_number(step, "step")
        if step > self._applied_step:
            raise InvalidArgumentError(
                f"step {step} cannot be done, its plan is not applied; the last one applied is {self._applied_step}"
            )
        self._guard("step_done", lambda: self._steps.mark(step, (queue, *map(self.backend.as_stream, also))))

    def finished_step(self) -> int:
        """The greatest step that has finished on the device with all before it, 0 at first: what a manager
        may `retire`.

        Does not wait. Raises BackendError on a lost pool: its blocks in flight are never handed out again.
        """
        return self._guard("finished_step", self._steps.finished)

    def wait_step(self, step: int) -> int:
        """Wait on the host until `step` has finished; returns `finished_step`.

        Raises InvalidArgumentError for a step without `step_done`, which no wait would end.
        """
        return self._guard("wait_step", lambda: self._steps.wait(step))

    def fence(self, stream: AnyStream) -> None:
        """Hold back what is put on `stream` from now on until all work put on the compute stream so far is
        done.

        A copy stream calls this before it reads blocks that the model writes and before it writes blocks just
        handed out. Nobody waits on the host.
        """
        second = self.backend.as_stream(stream)
        self._guard("fence", lambda: self._order_behind(self._stream, second))

    def close(self) -> None:
        """Wait for the compute stream, then free all memory; an adopted one is let go of. Safe to call twice,
        and on a lost pool.

        Other streams must be done with the pool. Addresses and views end here.
        """
        if self._closed:
            return
        self._closed = True
        buffers = [self._buffer, *self.tables.release()]
        if self._counter is not None:
            buffers.append(self._counter)
        # A device that failed may refuse these too; closing must still work, and let go of all it can.
        if self._failure is None:
            with suppress(BackendError):
                self._stream.synchronize()
        for buffer in buffers:
            with suppress(BackendError):
                self.backend.free(buffer)

    def __enter__(self) -> Self:
        self.ensure_usable("entering the pool's context")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "lost" if self._failure else f"at {self._base:#x}"
        blocks = f"{self.num_blocks}+{self.scratch_blocks} blocks"
        return f"<DevicePool {blocks}, {self.nbytes} bytes on {self.backend.name}, {state}>"

    def _launch(
        self,
        copies: npt.NDArray[np.int32],
        updates: npt.NDArray[np.int32],
        larger: TableMemory | None,
        stream: Stream,
    ) -> None:
        if stream != self._stream:
            self._order_behind(self._stream, stream)
            self._stream = self.tables.compute_stream = stream
        if larger is not None:
            self.tables.replace(larger, self._stream)
        self.backend.kernels.carry_out(self._memory, copies, self.tables.memory, updates, self._stream)

    def _order_behind(self, first: Stream, second: Stream) -> None:
        event = self.backend.event()
        first.record(event)
        second.wait(event)


def _contents(plan: AppliedPlan) -> tuple[int, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    try:
        return plan.step, plan.copies, plan.updates
    except AttributeError:
        raise InvalidArgumentError(
            f"a {type(plan).__name__} is no step plan; give what append or reserve returned"
        ) from None
