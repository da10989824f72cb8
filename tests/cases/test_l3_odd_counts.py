"""L3: lengths and counts that are zero, negative, huge, fractional, or no numbers at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pagedkv import BlockAllocator, KVCacheManager
from pagedkv.errors import InvalidArgumentError, NeverFitsError

from .refused import available, refused, table

BAD_SIZES: list[Any] = [0, -5, -1, 1.5, float("nan"), float("inf"), True, "4", None, 2**31, 2**63, 2**100]


@pytest.mark.parametrize("value", BAD_SIZES)
def test_l3_pools_of_a_bad_size(value: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        KVCacheManager(value, 4)
    with pytest.raises(InvalidArgumentError):
        KVCacheManager(4, value)
    with pytest.raises(InvalidArgumentError):
        BlockAllocator(value)


@pytest.mark.parametrize("value", [-1, 1.5, float("nan"), True, "4", 2**63])
@pytest.mark.parametrize("option", ["max_tokens", "watermark", "scratch_blocks"])
def test_l3_options_that_are_no_counts(option: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        KVCacheManager(4, 4, **{option: value})


def test_l3_a_limit_of_zero_tokens_is_no_limit_anybody_means() -> None:
    with pytest.raises(InvalidArgumentError):
        KVCacheManager(4, 4, max_tokens=0)


def test_l3_allocator_counts() -> None:
    allocator = BlockAllocator(4)
    assert allocator.allocate(0).tolist() == []
    bad_counts: list[Any] = [-1, 1.5, float("nan"), True, "1", None]
    for bad in bad_counts:
        with pytest.raises(InvalidArgumentError):
            allocator.allocate(bad)
    for huge in (5, 2**31, 2**40, 2**63, 2**100):
        with pytest.raises(NeverFitsError):
            allocator.allocate(huge)
    assert allocator.num_free_blocks == 4


def test_l3_empty_sequences_live_without_blocks() -> None:
    manager = KVCacheManager(4, 4)
    admission = manager.admit(1, [])
    assert (admission.row, admission.cached_tokens) == (0, 0)
    assert manager.register_sequence(2) == 0
    assert manager.register_sequence(3, []) == 0
    assert (manager.seq_length(1), manager.capacity_tokens(1), table(manager, 1)) == (0, 0, [])
    assert manager.block_table([1]).shape[0] == 1
    assert manager.slot_mapping([1]).tolist() == []
    assert manager.csr([1]).last_page_len.tolist() == [0]
    assert available(manager) == 4
    manager.free([1, 2, 3])


def test_l3_append_of_nothing_is_a_step_that_changes_nothing() -> None:
    manager = KVCacheManager(4, 4)
    manager.admit(1, [], reserve=0)
    plan = manager.append([1], [0])
    assert (plan.served, plan.rows.tolist(), plan.lengths.tolist()) == (1, [0], [0])
    assert plan.slots.size == plan.updates.size == 0
    assert manager.append([], []).served == 0
    assert available(manager) == 4


@pytest.mark.parametrize("count", [-1, -(2**31), 1.5, 1.0, float("nan"), float("-inf"), True, "1", None])
def test_l3_counts_that_are_no_counts(count: Any) -> None:
    manager = KVCacheManager(4, 4)
    manager.admit(1, [1])
    for call in (
        lambda: manager.append([1], [count]),
        lambda: manager.append([1], np.array([count])),
        lambda: manager.append_tokens(1, count),
    ):
        with refused(manager, InvalidArgumentError):
            call()


@pytest.mark.parametrize("reserve", [-1, 1.5, 1.0, float("nan"), True, "1"])
def test_l3_reservations_that_are_no_counts(reserve: Any) -> None:
    manager = KVCacheManager(4, 4)
    with refused(manager, InvalidArgumentError):
        manager.admit(1, (), reserve=reserve)
    with refused(manager, InvalidArgumentError):
        manager.try_admit(1, [1], reserve=reserve)


@pytest.mark.parametrize("count", [2**31 - 1, 2**31, 2**32 + 1, 2**63 - 1, 2**63, 2**64 + 1])
def test_l3_counts_beyond_any_pool(count: int) -> None:
    """Cut to 32 or 64 bits, some of these would look like one token."""
    manager = KVCacheManager(4, 4)
    manager.admit(1, [1])
    for call in (
        lambda: manager.append([1], [count]),
        lambda: manager.append([1], [count], partial=True),
        lambda: manager.try_append([1], [count]),
        lambda: manager.append_tokens(1, count),
    ):
        with refused(manager, NeverFitsError):
            call()
    limited = KVCacheManager(4, 4, max_tokens=16)
    limited.admit(1, [1])
    with refused(limited, InvalidArgumentError):
        limited.append([1], [count])


def test_l3_one_token() -> None:
    manager = KVCacheManager(4, 4)
    assert manager.admit(1, [1]).cached_tokens == 0
    assert manager.append_token(1) == 0
    assert available(manager) == 3
