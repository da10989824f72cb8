"""A cache and a pool used wrongly: plans made aside, use after close, arguments that are none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pagedkv import (
    BackendError,
    DevicePool,
    InvalidArgumentError,
    KVCache,
    KVCacheManager,
    OpaqueLayout,
    SequenceStateError,
    open_cache,
)

Call = Callable[[], object]


@pytest.mark.parametrize("growth", ["append", "try_append", "reserve", "try_reserve"])
def test_a_plan_made_aside_of_the_cache_is_not_lost_in_silence(growth: str) -> None:
    cache = open_cache("1KiB", 4, 8)
    cache.register_sequence(1)
    cache.manager.append([1], [4])
    before = cache.manager.get_stats()
    with pytest.raises(SequenceStateError, match="planned step 1, this pool has applied step 0"):
        getattr(cache, growth)([1], [8])
    assert cache.manager.get_stats() == before


def test_a_cache_is_not_made_over_plans_that_its_pool_never_saw() -> None:
    manager = KVCacheManager(4, 4)
    manager.admit(1, [1])
    manager.append([1], [1])
    with pytest.raises(SequenceStateError, match="first_step"):
        KVCache(manager, DevicePool(OpaqueLayout(8, 4), 4))
    cache = KVCache(manager, DevicePool(OpaqueLayout(8, 4), 4, first_step=manager.last_step + 1))
    cache.append([1], [4])


def test_nothing_of_a_closed_cache_names_its_memory() -> None:
    cache = open_cache("1KiB", 4, 8)
    cache.register_sequence(1)
    cache.append_tokens(1, 1)
    cache.close()
    cache.close()
    closed: tuple[Call, ...] = (
        lambda: cache.get_token_ptr(1, 0),
        lambda: cache.register_sequence(2),
        lambda: cache.admit(2, ()),
        lambda: cache.try_admit(2, ()),
        lambda: cache.append_token(1),
        cache.__enter__,
    )
    for call in closed:
        with pytest.raises(BackendError, match="closed"):
            call()
    with pytest.raises(SequenceStateError, match="no pool is bound"):
        cache.allocator.get_block_ptr(0)
    assert cache.allocator.block(0).device_ptr is None


WRONG: dict[str, Call] = {
    "no layout": lambda: DevicePool(None, 4),  # type: ignore[arg-type]
    "no plan": lambda: DevicePool(OpaqueLayout(8, 4), 4).apply(None),  # type: ignore[arg-type]
    "no manager": lambda: KVCache(None, None),  # type: ignore[arg-type]
    "no step": lambda: DevicePool(OpaqueLayout(8, 4), 4).step_done("x"),  # type: ignore[arg-type]
    "half a step": lambda: DevicePool(OpaqueLayout(8, 4), 4, first_step=1.5),  # type: ignore[arg-type]
    "no first step": lambda: DevicePool(OpaqueLayout(8, 4), 4, first_step=0),
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG.keys())
def test_arguments_that_are_none_are_typed_errors(call: Call) -> None:
    with pytest.raises(InvalidArgumentError):
        call()
