"""Block tables that live on the device: int32 [rows, width], one row a sequence, kept up to date by scatters.

Owns: the table's buffer, and outgrown ones until the work that reads them is done.
Order: growth and scatters are put on the compute stream in front of the kernels that read the result. Entries
past a sequence's blocks are valid block ids (padding, or a former owner's), never -1: a kernel may load them.
Cost: a scatter O(updates); growth O(table), at most logarithmically often.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pagedkv.backends import Backend
from pagedkv.errors import InvalidArgumentError
from pagedkv.kernels import Kernels, Place, TableBatch, TableMemory
from pagedkv.streams import AnyStream, Buffer, Event, Stream

_FIRST_ROWS, _FIRST_WIDTH = 64, 64


class BlockTables:
    """The device-resident block tables of one pool. Made by the pool; engines read them.

    `address`, `rows` and `width` change when an applied plan names a row or column beyond them: read them
    after `apply`.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        pad: int,
        width_limit: int,
        block_size: int,
        stream: Stream,
    ) -> None:
        self._backend = backend
        self._block_size = block_size
        self.compute_stream = stream  # the pool's; it says when that changes
        self._pad = pad
        self._width_limit = width_limit
        self._table: TableMemory | None = None
        # All memory not yet freed, so that none is lost sight of whatever call fails.
        self._owned: list[Buffer] = []
        self._outgrown: deque[tuple[Event, Buffer]] = deque()

    @property
    def address(self) -> int:
        """Device address of entry [0, 0]; 0 while no plan has had table updates. Valid until the next
        `apply`.
        """
        return self._table.buffer.address if self._table else 0

    @property
    def memory(self) -> TableMemory | None:
        """The tables as kernels take them; None while no plan has had table updates."""
        return self._table

    @property
    def rows(self) -> int:
        """Rows there is room for."""
        return self._table.rows if self._table else 0

    @property
    def width(self) -> int:
        """Columns there is room for = entries from one row to the next."""
        return self._table.width if self._table else 0

    @property
    def array(self) -> npt.NDArray[np.int32]:
        """The tables as int32 [rows, width], no copy; host only. Valid until the next `apply`; on no stream:
        synchronize first.

        Raises InvalidArgumentError where the host cannot address them.
        """
        if self._table is None:
            return np.zeros((0, 0), np.int32)
        view = self._backend.host_view(self._table.buffer)
        return view[: self.rows * self.width * 4].view(np.int32).reshape(self.rows, self.width)

    def check(self, updates: npt.NDArray[np.int32], num_blocks: int) -> tuple[int, int]:
        """The (rows, columns) that `updates` needs. Raises InvalidArgumentError for entries out of range;
        modifies nothing.
        """
        # As unsigned numbers, negative entries are huge: one maximum finds both kinds of wrong entry.
        row, column, block = updates.view(np.uint32).max(axis=0).tolist()
        if block >= num_blocks or column >= self._width_limit or row >= 2**31:
            raise InvalidArgumentError(
                f"updates of the plan go to row {row}, column {column}, block {block}; there are {num_blocks} blocks "
                f"and {self._width_limit} columns at most; apply the plan to the pool of its own manager"
            )
        return row + 1, column + 1

    def allocate(self, rows: int, width: int) -> TableMemory | None:
        """Memory for a table with room for that many rows and columns, for `replace`; None if there is room
        already.

        Raises BackendError when there is too little memory. The tables stay as they are.
        """
        if rows <= self.rows and width <= self.width:
            return None
        rows = _capacity(rows, self.rows or _FIRST_ROWS)
        width = min(_capacity(width, self.width or _FIRST_WIDTH), self._width_limit)
        self._owned.append(self._backend.allocate(rows * width * 4))
        return TableMemory(self._owned[-1], rows, width)

    def replace(self, new: TableMemory, stream: Stream) -> None:
        """Use `new` from here on: put on `stream` the copy of the old entries; the old memory is freed once
        that is done.
        """
        old, self._table = self._table, new
        # A first table has nothing to copy; as its own source with no rows it still gets its padding.
        source = old or TableMemory(new.buffer, 0, 0)
        self._backend.kernels.grow_table(source, new, self._pad, stream)
        self._free_outgrown()
        if old is not None:
            event = self._backend.event()
            self._outgrown.append((event, old.buffer))
            stream.record(event)

    def gather(self, rows: object, lengths: object, out: object, stream: AnyStream | None = None) -> None:
        """Dense block table of a batch into `out`, int32 [n, columns] on the device: each row's blocks, then padding.

        rows, lengths: int32 [n] on the device, lengths in tokens; a row below 0 is a padding row. Put on `stream`
        (None: the compute stream); no allocation, so it may be captured into a graph. Raises InvalidArgumentError.
        """
        batch = self._batch(rows, lengths)
        target = self._backend.as_array(out, "out", ("int32",), 2)
        _same_length("out", target, batch.rows)
        self._run(lambda k, table, s: k.gather_table(table, batch, target, self._pad, s), stream)

    def slots(
        self, rows: object, positions: object, out: object, *, lengths: object = None, stream: AnyStream | None = None
    ) -> None:
        """Slots into `out`, int64 [n] on the device: of position i in row i, -1 for what has none.

        rows: int32 [n], positions: int32 or int64 [n]. With lengths (int32 [n]), positions at or beyond them have none.
        Stream and errors: as gather.
        """
        batch = self._batch(rows, rows if lengths is None else lengths)
        places = self._backend.as_array(positions, "positions", ("int32", "int64"), 1)
        target = self._backend.as_array(out, "out", ("int64",), 1)
        _same_length("positions", places, batch.rows)
        _same_length("out", target, batch.rows)
        limited = lengths is not None
        self._run(lambda k, table, s: k.slots(table, batch, places, target, s, limited=limited), stream)

    def csr(
        self, rows: object, lengths: object, out: tuple[object, object, object], stream: AnyStream | None = None
    ) -> None:
        """FlashInfer's (indptr [n + 1], indices, last_page_len [n]) into `out`, int32 on the device.

        What does not fit `indices` is left out. Stream and errors: as gather.
        """
        batch = self._batch(rows, lengths)
        indptr, indices, last = (
            self._backend.as_array(value, name, ("int32",), 1)
            for value, name in zip(out, ("indptr", "indices", "last_page_len"), strict=True)
        )
        _same_length("indptr", indptr, batch.rows, more=1)
        _same_length("last_page_len", last, batch.rows)
        self._run(lambda k, table, s: k.csr(table, batch, indptr, indices, last, s), stream)

    def _batch(self, rows: object, lengths: object) -> TableBatch:
        lines = self._backend.as_array(rows, "rows", ("int32",), 1)
        tokens = self._backend.as_array(lengths, "lengths", ("int32",), 1)
        _same_length("lengths", tokens, lines)
        return TableBatch(lines, tokens, self._block_size)

    def _run(self, work: Callable[[Kernels, TableMemory, Stream], None], stream: AnyStream | None) -> None:
        if self._table is None:
            raise InvalidArgumentError("no plan with table updates has been applied; apply one before tables are read")
        queue = self.compute_stream if stream is None else self._backend.as_stream(stream)
        work(self._backend.kernels, self._table, queue)

    def release(self) -> list[Buffer]:
        """Give up all memory; the caller frees it, once no work is left that uses it."""
        buffers, self._owned = self._owned, []
        self._outgrown.clear()
        self._table = None
        return buffers

    def _free_outgrown(self) -> None:
        while self._outgrown and self._outgrown[0][0].done:
            buffer = self._outgrown.popleft()[1]
            self._owned.remove(buffer)
            self._backend.free(buffer)


def _same_length(name: str, array: Place, rows: Place, more: int = 0) -> None:
    if array.shape[0] != rows.shape[0] + more:
        raise InvalidArgumentError(
            f"{name} has {array.shape[0]} entries for {rows.shape[0]} rows; give {rows.shape[0] + more}"
        )


def _capacity(needed: int, current: int) -> int:
    """At least `needed`, by doubling `current`."""
    while current < needed:
        current *= 2
    return current
