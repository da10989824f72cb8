"""Reading, writing and checking the bytes of a pool, by block and by token, in stream order.

For tests, demonstrations and `--verify`; an engine's own kernels write the real keys and values. Every method
raises InvalidArgumentError on a pool without bytes (the null backend), and BackendError when the pool is
closed or lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pagedkv.arguments import INT64_MAX, IntArray, integer_array
from pagedkv.errors import InvalidArgumentError
from pagedkv.kernels import TokenBatch
from pagedkv.pool.pool_memory import PooledMemory
from pagedkv.streams import AnyStream, Buffer, Stream

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


class PoolBytes(PooledMemory):
    """A PooledMemory whose bytes can be filled, verified, copied, read and written. See `DevicePool`."""

    _counter: Buffer | None = None

    def fill_tokens(
        self,
        seq_ids: npt.ArrayLike,
        positions: npt.ArrayLike,
        slots: npt.ArrayLike,
        stream: AnyStream | None = None,
    ) -> None:
        """Write the token-unique pattern of (sequence, position) into each slot.

        positions, slots: int64 [n]; seq_ids: int64 [n] or one id for all. A slot of -1 is skipped. Put on
        `stream` (None: the compute stream); arguments are read at once. Raises InvalidArgumentError for a
        slot outside the pool.
        """
        tokens = self._tokens(seq_ids, positions, slots)
        queue = self._queue(stream)
        self._guard("fill_tokens", lambda: self.backend.kernels.fill_tokens(self._memory, tokens, queue))

    def verify_tokens(
        self,
        seq_ids: npt.ArrayLike,
        positions: npt.ArrayLike,
        slots: npt.ArrayLike,
        stream: AnyStream | None = None,
    ) -> int:
        """The number of tokens whose slot does not hold their pattern. Arguments as `fill_tokens`; modifies
        nothing.

        Put on `stream` and waited for.
        """
        tokens = self._tokens(seq_ids, positions, slots)
        kernels = self.backend.kernels
        return self._count("verify_tokens", lambda c, s: kernels.verify_tokens(self._memory, tokens, c, s), stream)

    def fill_blocks(self, block_ids: npt.ArrayLike, tags: npt.ArrayLike, stream: AnyStream | None = None) -> None:
        """Write the pattern of a tag over each whole block. block_ids [n]; tags: int64 [n] or one for all.
        Put on `stream`.
        """
        ids, names = self._tagged(block_ids, tags)
        queue = self._queue(stream)
        self._guard("fill_blocks", lambda: self.backend.kernels.fill_blocks(self._memory, ids, names, queue))

    def verify_blocks(self, block_ids: npt.ArrayLike, tags: npt.ArrayLike, stream: AnyStream | None = None) -> int:
        """The number of blocks that do not hold their tag's pattern. Put on `stream` and waited for; modifies
        nothing.
        """
        ids, names = self._tagged(block_ids, tags)
        kernels = self.backend.kernels
        return self._count("verify_blocks", lambda c, s: kernels.verify_blocks(self._memory, ids, names, c, s), stream)

    def fill_floats(self, block_ids: npt.ArrayLike, values: npt.ArrayLike, stream: AnyStream | None = None) -> None:
        """Write one number to every float32 of each whole block. block_ids [n]; values: float32 [n] or one for
        all. Put on `stream`; arguments are read at once.

        Raises InvalidArgumentError for blocks, or pieces of them, that are no whole number of floats.
        """
        ids, numbers = self._valued(block_ids, values)
        queue = self._queue(stream)
        self._guard("fill_floats", lambda: self.backend.kernels.fill_floats(self._memory, ids, numbers, queue))

    def verify_floats(self, block_ids: npt.ArrayLike, values: npt.ArrayLike, stream: AnyStream | None = None) -> int:
        """The number of float32 values that are not their block's number (a NaN never is). Arguments as
        `fill_floats`; modifies nothing.

        Put on `stream` and waited for.
        """
        ids, numbers = self._valued(block_ids, values)
        kernels = self.backend.kernels
        return self._count(
            "verify_floats", lambda c, s: kernels.verify_floats(self._memory, ids, numbers, c, s), stream
        )

    def scrub_blocks(self, block_ids: npt.ArrayLike, stream: AnyStream | None = None) -> None:
        """Write zeros over each whole block. block_ids [n]. Put on `stream`."""
        ids = self._ids(block_ids)
        queue = self._queue(stream)
        self._guard("scrub_blocks", lambda: self.backend.kernels.scrub_blocks(self._memory, ids, queue))

    def copy_blocks(self, pairs: npt.ArrayLike, stream: AnyStream | None = None) -> None:
        """Copy whole blocks; pairs [n, 2] of (source, destination). Put on `stream` (None: the compute
        stream).

        Raises InvalidArgumentError for ids outside the pool, or where a destination is also a source or comes
        twice.
        """
        given = _array(pairs, "copies", "pairs of (source, destination)")
        if given.shape[1:] != (2,) and given.shape != (0,):
            raise InvalidArgumentError(f"copies have shape {given.shape}; give pairs of (source, destination), (n, 2)")
        checked = self._ids(given.reshape(-1)).astype(np.int32).reshape(-1, 2)
        check_copies(checked, self.total_blocks)
        queue = self._queue(stream)
        self._guard("copy_blocks", lambda: self.backend.kernels.copy_blocks(self._memory, checked, queue))

    def read_blocks(self, block_ids: npt.ArrayLike, out: Bytes | None = None, stream: AnyStream | None = None) -> Bytes:
        """Whole blocks into host memory: uint8 [n, block_bytes], `out` if given. Put on `stream`. In a layer-major pool
        a block's bytes are its pieces, K to V's scales, layer by layer.

        The result is valid once the stream has passed: synchronize it, or wait for an event recorded after
        this call.
        """
        ids = self._ids(block_ids)
        shape = (len(ids), self.layout.block_bytes)
        rows = np.empty(shape, np.uint8) if out is None else out
        if not isinstance(rows, np.ndarray) or rows.shape != shape or rows.dtype != np.uint8 or not rows.flags.carray:
            found = f"{rows.dtype} {rows.shape}" if isinstance(rows, np.ndarray) else f"a {type(rows).__name__}"
            raise InvalidArgumentError(f"out is {found}; give writable, contiguous uint8 {shape}")
        self._guard("read_blocks", lambda: self._transfer(self.backend.download, ids, rows, stream))
        return rows

    def write_blocks(self, block_ids: npt.ArrayLike, data: Bytes, stream: AnyStream | None = None) -> None:
        """Whole blocks from host memory: `data` uint8 [n, block_bytes] as of read_blocks, read before the call returns.
        Put on `stream`.
        """
        ids = self._ids(block_ids)
        shape = (len(ids), self.layout.block_bytes)
        rows = np.ascontiguousarray(_array(data, "data", f"uint8 {shape}"))
        if rows.shape != shape or rows.dtype != np.uint8:
            raise InvalidArgumentError(f"data is {rows.dtype} {rows.shape}; give uint8 {shape}")
        self._guard("write_blocks", lambda: self._transfer(self.backend.upload, ids, rows, stream))

    def bytes_of(self, block_id: int) -> Bytes:
        """A block's bytes in place: writable uint8 [block_bytes], no copy, host only.

        Valid until `close`. On no stream: synchronize first. Raises InvalidArgumentError in a layer-major pool, where
        they lie in many places.
        """
        self.ensure_usable("bytes_of")
        if not self._memory.extents.contiguous:
            raise InvalidArgumentError("a block of a layer-major pool lies in many places; use read_blocks or layer")
        start = self._block(block_id) * self.layout.block_bytes
        return self.backend.host_view(self._buffer)[start : start + self.layout.block_bytes]

    def _count(self, call: str, verify: Callable[[Buffer, Stream], None], stream: AnyStream | None) -> int:
        self.ensure_usable(call)
        queue = self._queue(stream)
        counter = self._counter = self._counter or self.backend.allocate(8)
        result = np.zeros(8, np.uint8)

        def run() -> None:
            self.backend.upload(counter, 0, np.zeros(8, np.uint8), queue)
            verify(counter, queue)
            self.backend.download(counter, 0, result, queue)
            queue.synchronize()

        self._guard(call, run)
        return int(result.view(np.int64)[0])

    def _transfer(
        self,
        move: Callable[[Buffer, int, Bytes, Stream], None],
        ids: IntArray,
        rows: Bytes,
        stream: AnyStream | None,
    ) -> None:
        queue = self._queue(stream)
        for block_id, row in zip(ids.tolist(), rows, strict=True):
            before = 0
            for place, size in self._memory.extents.pieces(block_id):
                move(self._buffer, place, row[before : before + size], queue)
                before += size

    def _tokens(self, seq_ids: npt.ArrayLike, positions: npt.ArrayLike, slots: npt.ArrayLike) -> TokenBatch:
        limit = self.total_blocks * self.layout.block_size
        places = integer_array(slots, "slots", minimum=-1, maximum=limit - 1)
        spots = integer_array(positions, "positions", minimum=0, maximum=INT64_MAX)
        owners = _one_for_all(integer_array(seq_ids, "seq_ids", minimum=-INT64_MAX - 1, maximum=INT64_MAX), len(places))
        if not len(owners) == len(spots) == len(places):
            raise InvalidArgumentError(
                f"{len(owners)} seq_ids, {len(spots)} positions, {len(places)} slots; give one of each a token"
            )
        return TokenBatch(owners, spots, places)

    def _tagged(self, block_ids: npt.ArrayLike, tags: npt.ArrayLike) -> tuple[IntArray, IntArray]:
        ids = self._ids(block_ids)
        names = _one_for_all(integer_array(tags, "tags", minimum=-INT64_MAX - 1, maximum=INT64_MAX), len(ids))
        if len(names) != len(ids):
            raise InvalidArgumentError(
                f"{len(ids)} block ids and {len(names)} tags; give one tag for every block, or one for all"
            )
        return ids, names

    def _valued(self, block_ids: npt.ArrayLike, values: npt.ArrayLike) -> tuple[IntArray, Floats]:
        sizes = self._memory.extents.sizes
        if any(size % 4 for size in sizes):
            raise InvalidArgumentError(
                f"a block in pieces of {', '.join(map(str, sizes))} bytes holds no whole number of float32 in each; "
                "use fill_blocks"
            )
        ids = self._ids(block_ids)
        numbers = _numbers(values)
        if len(numbers) == 1:
            numbers = np.broadcast_to(numbers, len(ids))
        if len(numbers) != len(ids):
            raise InvalidArgumentError(
                f"{len(ids)} block ids and {len(numbers)} values; give one value for every block, or one for all"
            )
        return ids, numbers

    def _ids(self, block_ids: npt.ArrayLike) -> IntArray:
        return integer_array(block_ids, "block ids", minimum=0, maximum=self.total_blocks - 1)


def check_copies(pairs: npt.NDArray[np.int32], num_blocks: int) -> None:
    """Raise InvalidArgumentError unless int32 pairs [n, 2] stay in the pool and no block is written twice, or
    written and read.

    All copies of one launch run at the same time: such pairs would leave bytes that depend on chance.
    """
    if len(pairs) == 0:
        return
    ids = pairs.view(np.uint32)
    if int(ids.max()) >= num_blocks:
        raise InvalidArgumentError(
            f"copies name block {int(pairs.min())} .. {int(pairs.max())}, this pool has {num_blocks} blocks; "
            "apply the plan to the pool of its own manager"
        )
    sources, destinations = ids.T.tolist()
    written = set(destinations)
    if len(written) < len(pairs) or not written.isdisjoint(sources):
        raise InvalidArgumentError(
            "copies of one launch write a block twice, or read one that they write; make two launches"
        )


def _array(values: npt.ArrayLike, name: str, wanted: str) -> npt.NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise InvalidArgumentError(f"{name} is no array ({error}); give {wanted}") from None


def _one_for_all(values: IntArray, count: int) -> IntArray:
    return np.broadcast_to(values, count) if len(values) == 1 else values


def _numbers(values: npt.ArrayLike) -> Floats:
    given = _array(values, "values", "float32 values").reshape(-1)
    if given.dtype.kind not in "iuf":  # NumPy would make numbers of None, text and booleans
        raise InvalidArgumentError(f"values has dtype {given.dtype}; give float32 values")
    with np.errstate(over="ignore"):
        numbers = given.astype(np.float32)
    if not np.array_equal(np.isinf(numbers), np.isinf(given)):
        raise InvalidArgumentError("a value is beyond what float32 holds; give float32 values")
    return numbers
