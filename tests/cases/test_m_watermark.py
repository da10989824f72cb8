"""M: the watermark keeps blocks for running sequences to grow; it must not make admission impossible."""

from __future__ import annotations

from typing import Any

import pytest

from pagedkv import KVCacheManager
from pagedkv.errors import InvalidArgumentError, NeverFitsError, OutOfBlocksError

from .refused import available, refused


@pytest.mark.parametrize(("num_blocks", "watermark"), [(256, 512), (256, 256), (1, 1), (10, -1)])
def test_m1_watermark_not_smaller_than_the_pool(num_blocks: int, watermark: int) -> None:
    with pytest.raises(InvalidArgumentError):
        KVCacheManager(num_blocks, 1, watermark=watermark)


@pytest.mark.parametrize("watermark", [0.1, 0.0, float("nan"), True, "1", None])
def test_m1_watermark_is_whole_blocks(watermark: Any) -> None:
    """A percentage is floored by whoever has one; 0.1 of a block is a mistake."""
    with pytest.raises(InvalidArgumentError):
        KVCacheManager(10, 4, watermark=watermark)


def _with(used: int) -> KVCacheManager:
    manager = KVCacheManager(10, 4, watermark=1)
    if used:
        manager.admit(99, (), reserve=min(used, 9) * 4)
        manager.append([99], [used * 4])
    return manager


def test_m1_idle_pool_serves_all_but_the_watermark() -> None:
    manager = _with(used=0)
    with refused(manager, NeverFitsError):
        manager.admit(1, (), reserve=40)
    with refused(manager, NeverFitsError):
        manager.try_admit(1, list(range(37)))
    manager.admit(1, (), reserve=36)
    assert available(manager) == 1


def test_m1_admission_leaves_the_watermark() -> None:
    manager = _with(used=7)
    with refused(manager, OutOfBlocksError) as caught:
        manager.admit(1, (), reserve=12)
    assert (caught.value.needed, caught.value.available) == (3, 3)
    assert "watermark" in str(caught.value), "3 needed and 3 there would read like a contradiction"
    assert manager.try_admit(1, (), reserve=12) is None
    manager.admit(1, (), reserve=8)
    assert available(manager) == 1


def test_m1_running_sequences_may_use_the_watermark() -> None:
    manager = _with(used=9)
    manager.append([99], [1])
    assert available(manager) == 0


def test_m1_look_ahead_may_use_the_watermark() -> None:
    manager = _with(used=9)
    manager.reserve([99], [40])
    assert available(manager) == 0


def test_m1_who_takes_no_block_is_admitted_to_a_full_pool() -> None:
    manager = _with(used=10)
    manager.admit(1, [])
    manager.admit(2, [1, 2, 3], reserve=0)
    assert available(manager) == 0


def test_m1_pending_blocks_do_not_count_as_available() -> None:
    manager = _with(used=9)
    manager.free([99], after=manager.last_step)
    assert manager.try_admit(1, [1]) is None
    with refused(manager, OutOfBlocksError) as caught:
        manager.admit(1, [1])
    assert (caught.value.available, caught.value.pending) == (1, 9)
    manager.retire(manager.last_step)
    manager.admit(1, [1])
