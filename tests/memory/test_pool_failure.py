"""After a failure inside the backend the pool is lost: calls raise, nothing pending is recycled, close works."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pagedkv import DevicePool, KVCacheManager, OpaqueLayout
from pagedkv.backends.host import HostBackend
from pagedkv.cache import KVCache
from pagedkv.errors import BackendError, OutOfBlocksError

from .faulty_backend import FaultyBackend
from .plans import plan

LAYOUT = OpaqueLayout(16, 2)


def _work(pool: DevicePool) -> None:
    """A bit of everything that reaches the backend."""
    pool.fill_blocks([0, 1], 5)
    pool.apply(plan(1, copies=[(0, 2)], updates=[(0, 0, 2)]))
    pool.apply(plan(2, updates=[(100, 0, 3)]))
    assert pool.verify_blocks([2], 5) == 0
    copy_stream = pool.backend.stream()
    pool.fence(copy_stream)
    pool.write_blocks([3], pool.read_blocks([2]), copy_stream)
    pool.step_done(2, also=[copy_stream])
    pool.finished_step()
    pool.wait_step(2)
    pool.apply(plan(3), pool.backend.stream())
    pool.copy_blocks([(0, 1)])
    pool.fill_tokens(1, [0], [0])
    pool.verify_tokens(1, [0], [0])


CALLS: list[Callable[[DevicePool], object]] = [
    lambda pool: pool.apply(plan(9)),
    lambda pool: pool.step_done(1),
    lambda pool: pool.finished_step(),
    lambda pool: pool.wait_step(0),
    lambda pool: pool.fence(HostBackend().stream()),
    lambda pool: pool.fill_tokens(1, [0], [0]),
    lambda pool: pool.verify_tokens(1, [0], [0]),
    lambda pool: pool.fill_blocks([0], 1),
    lambda pool: pool.verify_blocks([0], 1),
    lambda pool: pool.copy_blocks([(0, 1)]),
    lambda pool: pool.read_blocks([0]),
    lambda pool: pool.write_blocks([0], np.zeros((1, 32), np.uint8)),
    lambda pool: pool.bytes_of(0),
]


def _calls_of_work() -> int:
    backend = FaultyBackend()
    pool = DevicePool(LAYOUT, 4, device=backend)
    _work(pool)
    made = len(backend.faults.calls)
    pool.close()
    assert backend.live_buffers == 0
    return made


@pytest.mark.parametrize("fail_at", range(1, _calls_of_work() + 1))
def test_whichever_call_fails(fail_at: int) -> None:
    backend = FaultyBackend(fail_at)
    try:
        pool = DevicePool(LAYOUT, 4, device=backend)
    except BackendError:
        assert backend.live_buffers == 0
        return
    with pytest.raises(BackendError, match="INJECTED_FAULT"):
        _work(pool)
    if backend.faults.calls[fail_at - 1] not in ("allocate", "stream"):
        assert pool.failure is not None
        for call in CALLS:
            with pytest.raises(BackendError, match=r"lost since .* INJECTED_FAULT"):
                call(pool)
    pool.close()
    pool.close()
    assert backend.live_buffers == 0
    with pytest.raises(BackendError, match="closed"):
        pool.apply(plan(9))


@pytest.mark.parametrize("call", CALLS)
def test_every_call_on_a_lost_pool_raises(call: Callable[[DevicePool], object]) -> None:
    backend = FaultyBackend()
    pool = DevicePool(LAYOUT, 4, device=backend)
    pool.apply(plan(1))
    backend.faults.fail_at = len(backend.faults.calls) + 1
    with pytest.raises(BackendError, match="INJECTED_FAULT"):
        pool.fill_blocks([0], 1)
    backend.faults.fail_at = 0  # the device may seem to work again: the pool must not believe it
    with pytest.raises(BackendError, match="lost since"):
        call(pool)
    pool.close()
    assert backend.live_buffers == 0


def test_pending_blocks_of_a_lost_pool_are_never_handed_out_again() -> None:
    backend = HostBackend(stepped=True)
    cache = KVCache(KVCacheManager(2, 2), DevicePool(LAYOUT, 2, device=backend))
    cache.register_sequence(1, [1, 2, 3, 4])
    step = cache.append([1], [4]).step

    def kernel_that_faults() -> None:
        raise OSError("an illegal memory access was encountered")

    cache.pool.stream.enqueue(kernel_that_faults)  # type: ignore[attr-defined]
    cache.step_done(step)
    cache.free([1], after=step)
    assert cache.retire_finished() == 0
    with pytest.raises(BackendError, match="illegal memory access"):
        cache.pool.wait_step(step)
    for _ in range(3):
        with pytest.raises(BackendError, match="lost"):
            cache.retire_finished()
        with pytest.raises(OutOfBlocksError) as caught:
            cache.manager.allocator.allocate(1)
        assert (caught.value.available, caught.value.pending) == (0, 2)
    cache.check()
    cache.close()


def test_a_lost_or_closed_cache_plans_nothing() -> None:
    """The manager is asked only when its plan can be applied."""
    backend = FaultyBackend()
    cache = KVCache(KVCacheManager(4, 2), DevicePool(LAYOUT, 4, device=backend))
    cache.register_sequence(1, [1, 2])
    backend.faults.fail_at = len(backend.faults.calls) + 1
    with pytest.raises(BackendError):
        cache.pool.fill_blocks([0], 1)
    for _ in ("lost", "closed"):
        before = cache.get_stats(), cache.manager.last_step, cache.seq_length(1)
        for plans in (
            lambda: cache.append([1], [1]),
            lambda: cache.try_append([1], [1]),
            lambda: cache.reserve([1], [4]),
            lambda: cache.try_reserve([1], [4]),
            lambda: cache.append_token(1),
            lambda: cache.append_tokens(1, 2),
        ):
            with pytest.raises(BackendError):
                plans()
        assert (cache.get_stats(), cache.manager.last_step, cache.seq_length(1)) == before
        cache.close()


def test_too_little_memory_for_larger_tables_changes_nothing() -> None:
    backend = FaultyBackend()
    pool = DevicePool(LAYOUT, 4, device=backend)
    pool.apply(plan(1, updates=[(0, 0, 3)]))
    larger = plan(2, copies=[(0, 1)], updates=[(1000, 0, 2)])
    backend.faults.fail_at = len(backend.faults.calls) + 1
    with pytest.raises(BackendError):
        pool.apply(larger)
    backend.faults.fail_at = 0
    assert (pool.failure, pool.applied_step, pool.tables.rows) == (None, 1, 64)
    pool.apply(larger)
    assert pool.tables.array[[0, 1000], 0].tolist() == [3, 2]
    pool.close()
    assert backend.live_buffers == 0
