"""What every backend must do, with bytes or without. A backend's test derives from this and gives `backend`."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from pagedkv import DevicePool, OpaqueLayout
from pagedkv.backends import Backend
from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.kernels import TableMemory

from .plans import plan


class AddressConformance:
    """Allocation, addresses, order of events, and a pool's bookkeeping."""

    @pytest.fixture
    def backend(self) -> Backend:
        raise NotImplementedError

    def test_names_itself(self, backend: Backend) -> None:
        assert backend.name in ("host", "null", "cuda")
        assert backend.device_name

    @pytest.mark.parametrize("nbytes", [1, 255, 4096, 1_000_003])
    def test_allocation_is_aligned_and_large_enough(self, backend: Backend, nbytes: int) -> None:
        assert backend.alignment >= 256
        buffer = backend.allocate(nbytes)
        assert buffer.address > 0
        assert buffer.address % backend.alignment == 0
        assert buffer.nbytes >= nbytes

    def test_live_allocations_do_not_overlap(self, backend: Backend) -> None:
        buffers = [backend.allocate(1 + 300 * i) for i in range(8)]
        assert all(buffer.address % backend.alignment == 0 for buffer in buffers)
        spans = sorted((b.address, b.address + b.nbytes) for b in buffers)
        assert all(left[1] <= right[0] for left, right in pairwise(spans))

    @pytest.mark.parametrize("nbytes", [0, -1, 1.5, float("nan"), True, "4096", None])
    def test_sizes_that_are_none(self, backend: Backend, nbytes: object) -> None:
        with pytest.raises(InvalidArgumentError):
            backend.allocate(nbytes)  # type: ignore[arg-type]

    def test_too_little_memory_says_how_much_was_asked_and_changes_nothing(self, backend: Backend) -> None:
        asked = 2**62 + 12345
        with pytest.raises(BackendError, match=str(asked)) as caught:
            backend.allocate(asked)
        assert "OUT_OF_MEMORY" in caught.value.name
        assert caught.value.call
        backend.free(backend.allocate(64))

    def test_a_buffer_is_freed_once(self, backend: Backend) -> None:
        buffer = backend.allocate(64)
        backend.free(buffer)
        with pytest.raises(InvalidArgumentError):
            backend.free(buffer)

    def test_free_refuses_what_is_no_buffer_of_it(self, backend: Backend) -> None:
        with pytest.raises(InvalidArgumentError):
            backend.free(object())  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "memory", [b"read only", [1, 2, 3], None, "text", np.zeros(8)[::2], np.array([object()]), np.float64(1)]
    )
    def test_adopt_refuses_what_it_cannot_write_in_place(self, backend: Backend, memory: object) -> None:
        with pytest.raises(InvalidArgumentError):
            backend.adopt(memory)

    def test_memory_info_is_plausible(self, backend: Backend) -> None:
        info = backend.memory_info()
        assert info is None or 0 < info.free <= info.total

    def test_an_event_is_done_after_its_record_has_happened(self, backend: Backend) -> None:
        stream, event = backend.stream(), backend.event()
        assert not event.done
        stream.record(event)
        event.synchronize()
        assert event.done
        stream.synchronize()
        assert event.done

    def test_a_wait_passes_through_streams(self, backend: Backend) -> None:
        first, second, third = (backend.stream() for _ in range(3))
        one, two, three = (backend.event() for _ in range(3))
        first.record(one)
        second.wait(one)
        second.record(two)
        third.wait(two)
        third.record(three)
        three.synchronize()
        assert one.done
        assert two.done

    def test_streams_and_events_of_others_are_refused(self, backend: Backend) -> None:
        stream = backend.stream()
        with pytest.raises(InvalidArgumentError):
            stream.wait(object())  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError):
            stream.record(object())  # type: ignore[arg-type]
        table = TableMemory(backend.allocate(64), 4, 4)
        with pytest.raises(InvalidArgumentError):
            backend.kernels.scatter_table(table, plan(1).updates, object())  # type: ignore[arg-type]

    def test_a_pool_puts_blocks_and_tokens_where_the_layout_says(self, backend: Backend) -> None:
        with DevicePool(OpaqueLayout(48, 4), 10, device=backend, scratch_blocks=2) as pool:
            assert pool.nbytes == 12 * 4 * 48
            assert pool.base % 256 == 0
            assert [pool.block_ptr(i) - pool.base for i in (0, 1, 9, 11)] == [0, 192, 9 * 192, 11 * 192]
            assert pool.token_ptr(9, 3) == pool.base + 9 * 192 + 3 * 48

    @pytest.mark.parametrize("block_id", [-1, 12, 2**31, 2**63, 0.0, True, None])
    def test_a_pool_gives_no_address_outside(self, backend: Backend, block_id: object) -> None:
        pool = DevicePool(OpaqueLayout(48, 4), 10, device=backend, scratch_blocks=2)
        with pytest.raises(InvalidArgumentError):
            pool.block_ptr(block_id)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError):
            pool.token_ptr(block_id, 0)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError):
            pool.token_ptr(0, 4)

    def test_a_pool_takes_plans_in_step_order_and_finishes_their_steps(self, backend: Backend) -> None:
        with DevicePool(OpaqueLayout(48, 4), 10, device=backend, first_step=3) as pool:
            if backend.has_bytes:
                pool.fill_blocks(range(10), 0)  # a copy of bytes that nobody wrote is a fault of this test
            with pytest.raises(InvalidArgumentError, match="step 4"):
                pool.apply(plan(4))
            pool.apply(plan(3, copies=[(0, 1)], updates=[(0, 0, 1)]))
            pool.apply(plan(4, updates=[(2, 3, 9)]))
            with pytest.raises(InvalidArgumentError, match="step 4"):
                pool.apply(plan(4))
            pool.step_done(4)
            assert pool.wait_step(4) == 4
            assert pool.finished_step() == 4
            assert pool.tables.rows >= 3
            assert pool.tables.width >= 4
            assert pool.tables.address > 0

    def test_a_closed_pool_raises(self, backend: Backend) -> None:
        pool = DevicePool(OpaqueLayout(48, 4), 10, device=backend)
        pool.apply(plan(1, updates=[(0, 0, 1)]))
        pool.close()
        pool.close()
        calls = (
            lambda: pool.apply(plan(2)),
            pool.finished_step,
            lambda: pool.step_done(1),
            lambda: pool.base,
            lambda: pool.block_ptr(0),
            lambda: pool.token_ptr(0, 0),
            pool.__enter__,
        )
        for call in calls:
            with pytest.raises(BackendError, match="closed"):
                call()
