"""What every backend that has bytes must do besides: transfers, kernels equal to the reference, a pool's contents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from pagedkv import DevicePool, KVLayout, OpaqueLayout
from pagedkv.backends import Backend
from pagedkv.errors import InvalidArgumentError
from pagedkv.kernels import PoolMemory, TableMemory, TokenBatch
from pagedkv.layout import Layout
from pagedkv.streams import Buffer, Stream

from . import pattern_by_hand, pieces_by_hand
from .address_conformance import AddressConformance
from .plans import plan

LAYOUTS: list[Layout] = [
    OpaqueLayout(1, 1),
    OpaqueLayout(8, 2),
    OpaqueLayout(13, 3),
    OpaqueLayout(512, 16),
    OpaqueLayout(100_003, 7),
    KVLayout(2, 3, 20, "bfloat16", 5),
    KVLayout(1, 1, 1, "int8", 1, order="layer"),
    KVLayout(3, 1, 5, "int8", 3, order="layer", v_head_dim=4),
    KVLayout(2, 2, 24, "float8_e4m3fn", 4, order="layer", kv_layout="HND", scales=True),
    KVLayout.latent(3, 576, "bfloat16", 16, order="layer"),
    KVLayout(5, 8, 128, "float16", 16, order="layer", v_head_dim=64),
]


class ByteConformance(AddressConformance):
    """Derived from like AddressConformance; `adoptable` gives memory that this backend can adopt."""

    def adoptable(self, nbytes: int) -> object:
        raise NotImplementedError

    def test_upload_reads_its_argument_at_once(self, backend: Backend) -> None:
        stream, buffer = backend.stream(), backend.allocate(64)
        data = np.arange(8, dtype=np.uint8)
        backend.upload(buffer, 16, data, stream)
        data[:] = 99
        assert read(backend, buffer, 16, 8, stream).tolist() == list(range(8))

    def test_an_event_orders_two_streams(self, backend: Backend) -> None:
        writer, reader, event = backend.stream(), backend.stream(), backend.event()
        buffer = backend.allocate(1 << 20)
        for value in (1, 2, 3):
            backend.upload(buffer, 0, np.full(1 << 20, value, np.uint8), writer)
        writer.record(event)
        reader.wait(event)
        assert set(read(backend, buffer, 0, 1 << 20, reader).tolist()) == {3}

    def test_adopted_memory_is_used_in_place_and_never_freed(self, backend: Backend) -> None:
        layout = OpaqueLayout(16, 2)
        memory = self.adoptable(layout.pool_bytes(4))
        pool = DevicePool(layout, 4, device=backend, memory=memory)
        pool.fill_blocks([3], 7)
        pool.close()
        again = DevicePool(layout, 4, device=backend, memory=memory)
        assert again.verify_blocks([3], 7) == 0
        again.close()

    def test_adopted_memory_must_be_large_enough(self, backend: Backend) -> None:
        with pytest.raises(InvalidArgumentError, match="128 bytes"):
            DevicePool(OpaqueLayout(16, 2), 4, device=backend, memory=self.adoptable(127))

    @pytest.mark.parametrize("layout", LAYOUTS, ids=str)
    def test_tokens_hold_the_pattern_by_hand(self, backend: Backend, layout: Layout) -> None:
        stream, buffer = backend.stream(), backend.allocate(layout.pool_bytes(5))
        owners, positions = np.array([5, -(2**63), 2**63 - 1, 0]), np.array([0, 3, 2**63 - 1, 2**40])
        slots = np.array([5 * layout.block_size - 1, -1, 2, 3])
        backend.kernels.fill_tokens(
            PoolMemory(buffer, layout, 5, layout.extents(5)), TokenBatch(owners, positions, slots), stream
        )
        for owner, position, slot in zip(owners.tolist(), positions.tolist(), slots.tolist(), strict=True):
            if slot >= 0:
                pieces = pieces_by_hand.token(layout, 5, slot)
                held = b"".join(read(backend, buffer, *piece, stream).tobytes() for piece in pieces)
                assert held == pattern_by_hand.token(owner, position, layout.token_bytes)

    @pytest.mark.parametrize("layout", LAYOUTS, ids=str)
    def test_verify_counts_wrong_tokens_and_skips_padding(self, backend: Backend, layout: Layout) -> None:
        pool = DevicePool(layout, 6, device=backend)
        positions = np.arange(5 * layout.block_size)
        slots = positions + layout.block_size
        pool.fill_tokens(42, positions, slots)
        assert pool.verify_tokens(42, positions, slots) == 0
        last = pieces_by_hand.token_in_block(layout, 4 * layout.block_size - 1)
        flip(pool, 3, last[-1:])
        assert pool.verify_tokens(42, positions, slots) == 1
        flip(pool, 3, last[:-1])
        assert pool.verify_tokens(42, positions, slots) == 1, "a token counts once, whatever is wrong of it"
        slots[4 * layout.block_size - 1 - layout.block_size] = -1
        assert pool.verify_tokens(42, positions, slots) == 0
        pool.close()

    @pytest.mark.parametrize("layout", LAYOUTS, ids=str)
    def test_blocks_filled_copied_verified(self, backend: Backend, layout: Layout) -> None:
        pool = DevicePool(layout, 8, device=backend)
        pool.fill_blocks(range(8), range(100, 108))
        pool.copy_blocks([(0, 6), (0, 7), (2, 1)])
        assert pool.verify_blocks(range(8), [100, 102, 102, 103, 104, 105, 100, 100]) == 0
        # With blocks of one byte, two tags may share it: compare with the pattern by hand instead of a count.
        held = pool.read_blocks(range(8))
        pool.stream.synchronize()
        by_hand = [pattern_by_hand.token(tag, -1, layout.block_bytes) for tag in range(100, 108)]
        assert pool.verify_blocks(range(8), range(100, 108)) == sum(held[i].tobytes() != by_hand[i] for i in range(8))
        flip(pool, 5, [0])
        assert pool.verify_blocks([4, 5], [104, 105]) == 1
        flip(pool, 5, range(1, layout.block_bytes))
        assert pool.verify_blocks([4, 5], [104, 105]) == 1, "a block counts once, whatever is wrong of it"
        pool.close()

    @pytest.mark.parametrize("layout", LAYOUTS, ids=str)
    def test_blocks_are_transferred_to_where_they_lie(self, backend: Backend, layout: Layout) -> None:
        stream, memory = backend.stream(), self.adoptable(layout.pool_bytes(4))
        pool = DevicePool(layout, 4, device=backend, memory=memory)
        pool.write_blocks(range(4), np.zeros((4, layout.block_bytes), np.uint8), stream)
        data = np.random.default_rng(1).integers(1, 256, (2, layout.block_bytes), np.uint8)
        pool.write_blocks([3, 1], data, stream)
        raw, expected = read(backend, backend.adopt(memory), 0, pool.nbytes, stream), np.zeros(pool.nbytes, np.uint8)
        for block, row in ((3, data[0]), (1, data[1])):
            before = 0
            for offset, size in pieces_by_hand.block(layout, 4, block):
                expected[offset : offset + size] = row[before : before + size]
                before += size
        assert np.array_equal(raw, expected)
        held = pool.read_blocks([1, 0, 3], stream=stream)
        stream.synchronize()
        assert np.array_equal(held, [data[1], np.zeros(layout.block_bytes, np.uint8), data[0]])
        pool.close()

    @pytest.mark.parametrize("layout", LAYOUTS, ids=str)
    def test_scrubbed_blocks_are_zeros_and_no_others(self, backend: Backend, layout: Layout) -> None:
        pool = DevicePool(layout, 6, device=backend)
        data = np.random.default_rng(2).integers(1, 256, (6, layout.block_bytes), np.uint8)
        pool.write_blocks(range(6), data)
        pool.scrub_blocks([5, 2, 0])
        held = pool.read_blocks(range(6))
        pool.stream.synchronize()
        data[[5, 2, 0]] = 0
        assert np.array_equal(held, data)
        pool.close()

    @pytest.mark.parametrize("layout", LAYOUTS, ids=str)
    def test_floats_of_whole_blocks_and_of_no_others(self, backend: Backend, layout: Layout) -> None:
        with DevicePool(layout, 5, device=backend) as pool:
            if any(size % 4 for _, size in pieces_by_hand.block(layout, 5, 0)):
                with pytest.raises(InvalidArgumentError, match="no whole number of float32"):
                    pool.fill_floats([0], [1])
                return
            pool.fill_floats([0, 1, 2, 3, 4], [1, 2, 3, 4, 5])
            pool.fill_floats([4, 1], [1.5, -2.5])
            held = pool.read_blocks(range(5))
            pool.stream.synchronize()
            assert held.view(np.float32).min(axis=1).tolist() == [1, -2.5, 3, 4, 1.5]
            assert held.view(np.float32).max(axis=1).tolist() == [1, -2.5, 3, 4, 1.5]
            flip(pool, 3, [0, layout.block_bytes - 1])
            assert pool.verify_floats([4, 1, 3], [1.5, -2.5, 4]) == 2

    @pytest.mark.parametrize("layout", [OpaqueLayout(24, 3), LAYOUTS[-1], LAYOUTS[-3]], ids=str)
    def test_copies_are_whole_blocks_and_nothing_else(self, backend: Backend, layout: Layout) -> None:
        pool = DevicePool(layout, 40, device=backend)
        random = np.random.default_rng(7)
        held = random.integers(0, 256, (40, layout.block_bytes), dtype=np.uint8)
        pool.write_blocks(range(40), held)
        order = random.permutation(40)
        pairs = list(zip(order[:17].tolist(), order[20:37].tolist(), strict=True))
        pool.copy_blocks(pairs)
        for source, destination in pairs:
            held[destination] = held[source]
        after = pool.read_blocks(range(40))
        pool.stream.synchronize()
        assert np.array_equal(after, held)
        pool.close()

    def test_tables_grow_and_are_scattered(self, backend: Backend) -> None:
        stream = backend.stream()
        small, large = (TableMemory(backend.allocate(4 * r * w), r, w) for r, w in ((2, 3), (5, 4)))
        kernels = backend.kernels
        kernels.grow_table(TableMemory(small.buffer, 0, 0), small, 9, stream)
        kernels.scatter_table(small, plan(1, updates=[(0, 0, 5), (1, 2, 2**31 - 1)]).updates, stream)
        kernels.grow_table(small, large, 8, stream)
        kernels.scatter_table(large, plan(1, updates=[(4, 3, 1)]).updates, stream)
        cells = read(backend, large.buffer, 0, 80, stream).view(np.int32).reshape(5, 4)
        top = [[5, 9, 9, 8], [9, 9, 2**31 - 1, 8]]
        assert cells.tolist() == [*top, [8] * 4, [8] * 4, [8, 8, 8, 1]]

    @pytest.mark.parametrize("slots", [[-2], [20], [2**31], [2**62], [1.0], [True], [[1]]])
    def test_slots_outside_the_pool_are_refused(self, backend: Backend, slots: list[int]) -> None:
        pool = DevicePool(OpaqueLayout(8, 2), 9, device=backend, scratch_blocks=1)
        with pytest.raises(InvalidArgumentError):
            pool.fill_tokens(1, [0], slots)
        pool.fill_tokens(1, [0], [19])
        assert pool.verify_tokens(1, [0], [19]) == 0

    def test_empty_batches_do_nothing(self, backend: Backend) -> None:
        pool = DevicePool(OpaqueLayout(8, 2), 2, device=backend)
        pool.fill_tokens(1, [], [])
        pool.fill_blocks([], 1)
        pool.copy_blocks([])
        assert pool.verify_tokens(1, [], []) == pool.verify_blocks([], []) == 0
        assert pool.read_blocks([]).shape == (0, 16)
        pool.close()

    def test_batches_of_unequal_lengths_are_refused(self, backend: Backend) -> None:
        pool = DevicePool(OpaqueLayout(8, 2), 2, device=backend)
        with pytest.raises(InvalidArgumentError):
            pool.fill_tokens(1, [0, 1], [0])
        with pytest.raises(InvalidArgumentError):
            pool.verify_tokens([1, 2, 3], [0, 1], [0, 1])
        with pytest.raises(InvalidArgumentError):
            pool.fill_blocks([0, 1], [5, 6, 7])
        with pytest.raises(InvalidArgumentError):
            pool.write_blocks([0, 1], np.zeros((1, 16), np.uint8))
        with pytest.raises(InvalidArgumentError):
            pool.read_blocks([0], np.zeros((1, 15), np.uint8))
        pool.close()


def read(backend: Backend, buffer: Buffer, offset: int, nbytes: int, stream: Stream) -> npt.NDArray[np.uint8]:
    """Bytes of a buffer, waited for."""
    out = np.zeros(nbytes, np.uint8)
    backend.download(buffer, offset, out, stream)
    stream.synchronize()
    return out


def flip(pool: DevicePool, block: int, places: Sequence[int]) -> None:
    """Change some of a block's bytes."""
    held = pool.read_blocks([block])
    pool.stream.synchronize()
    held[0, places] ^= 0xFF
    pool.write_blocks([block], held)
