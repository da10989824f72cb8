"""`KVCacheManager`: construction, plain queries, the scalar names, rows and steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pagedkv
from pagedkv import CsrTables, KVCacheManager, errors
from pagedkv.errors import InvalidArgumentError, OutOfBlocksError, SequenceStateError


def test_options_can_be_read_back() -> None:
    manager = KVCacheManager(10, 4, max_tokens=17, watermark=2, scratch_blocks=3, prefix_caching=True)
    assert (manager.num_blocks, manager.block_size, manager.block_size_tokens) == (10, 4, 4)
    assert (manager.max_tokens, manager.watermark, manager.scratch_blocks) == (17, 2, 3)
    assert (manager.last_step, manager.retired_step, manager.prefix_caching) == (0, 0, True)
    plain = KVCacheManager(10, 4)
    assert (plain.max_tokens, plain.watermark, plain.scratch_blocks, plain.prefix_caching) == (None, 0, 0, False)


@pytest.mark.parametrize("name", ["num_blocks", "block_size", "max_tokens", "watermark", "prefix_caching", "last_step"])
def test_options_are_fixed(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(KVCacheManager(10, 4), name, 1)


def test_options_are_keyword_only() -> None:
    """``KVCacheManager(10, 4, 16)`` could mean any of them."""
    build: Any = KVCacheManager
    with pytest.raises(TypeError):
        build(10, 4, 16)


def test_rows_are_the_lowest_free_numbers() -> None:
    manager = KVCacheManager(10, 4)
    assert [manager.admit(seq_id, ()).row for seq_id in (50, 51, 52, 53)] == [0, 1, 2, 3]
    manager.free([52, 50])
    assert [manager.admit(seq_id, ()).row for seq_id in (60, 61, 62)] == [0, 2, 4]
    assert manager.row(53) == 3
    assert manager.seq_ids().tolist() == [60, 51, 61, 53, 62], "in row order"


def test_many_rows() -> None:
    """Row numbers come from a tree of 64-bit words: 64 and 4096 are its edges."""
    manager = KVCacheManager(1, 1)
    for seq_id in range(4200):
        assert manager.admit(seq_id, ()).row == seq_id
    for seq_id in (4199, 4096, 4095, 64, 63, 0):
        manager.free([seq_id])
        assert manager.admit(seq_id, ()).row == seq_id
    manager.check()
    manager.free(list(range(4200)))
    assert manager.admit(5, ()).row == 0
    manager.check()


def test_scalar_names_are_the_batch_calls() -> None:
    manager = KVCacheManager(4, 4)
    assert manager.register_sequence(1, [1, 2, 3]) == 0
    assert manager.register_sequence(2, range(2)) == 0
    assert manager.append_tokens(1, 3).tolist() == [0, 1, 2]
    assert manager.append_token(1) == 3
    assert manager.append_tokens(1, 0).tolist() == []
    manager.truncate_sequence(1, 1)
    assert manager.append_token(1) == 1
    manager.free_sequence(1)
    manager.free_sequence(2)
    assert manager.get_stats().free_blocks == 4


def test_append_tokens_that_runs_out_half_way_leaves_nothing() -> None:
    manager = KVCacheManager(2, 4)
    manager.register_sequence(1)
    manager.allocator.allocate(1)
    with pytest.raises(OutOfBlocksError):
        manager.append_tokens(1, 6)
    assert manager.seq_length(1) == 0
    assert manager.get_stats().free_blocks == 1


def test_membership() -> None:
    manager = KVCacheManager(2, 4)
    manager.admit(-(2**63), ())
    assert -(2**63) in manager
    assert 2**63 - 1 not in manager
    bad: Any = "7"
    with pytest.raises(InvalidArgumentError):
        assert bad in manager


def test_cursors_start_at_zero() -> None:
    manager = KVCacheManager(4, 4)
    admission = manager.admit(1, [1, 2, 3, 4, 5])
    assert (admission.seq_id, admission.row, admission.cached_tokens) == (1, 0, 0)
    assert (manager.seq_length(1), manager.committed_length(1), manager.capacity_tokens(1)) == (0, 0, 8)
    with pytest.raises(AttributeError):
        admission.row = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("prompt", "reserve", "capacity"), [(5, None, 8), (5, 0, 0), (5, 1, 4), (0, 9, 12), (5, 9, 12)]
)
def test_reservation_at_admission(prompt: int, reserve: int | None, capacity: int) -> None:
    manager = KVCacheManager(4, 4)
    manager.admit(1, range(prompt), reserve=reserve)
    assert manager.capacity_tokens(1) == capacity


def test_chunks_of_a_prompt_fill_the_blocks_it_reserved() -> None:
    manager = KVCacheManager(3, 4)
    manager.admit(1, range(10))
    before = manager.get_stats().allocated_blocks
    slots = [slot for chunk in (3, 4, 3) for slot in manager.append([1], [chunk]).slots.tolist()]
    assert slots == list(range(10))
    assert manager.get_stats().allocated_blocks == before == 3


def test_flags_are_keyword_only() -> None:
    manager: Any = KVCacheManager(4, 4)
    manager.admit(1, [1])
    with pytest.raises(TypeError):
        manager.append([1], [1], None, True)
    with pytest.raises(TypeError):
        manager.truncate([1], [0], True)
    with pytest.raises(TypeError):
        manager.free([1], 0)
    assert manager.seq_length(1) == 0


def test_csr_targets() -> None:
    manager = KVCacheManager(8, 4)
    manager.admit(1, ())
    manager.append([1], [9])
    good = [np.full(size, 7, np.int32) for size in (2, 3, 1)]
    tables = manager.csr([1], out=(good[0], good[1], good[2]))
    assert isinstance(tables, CsrTables)
    assert tables.indptr is good[0]
    bad_targets: list[Any] = [
        good,
        tuple(good[:2]),
        (good[0], good[1], None),
        (good[0][:1], good[1], good[2]),
        (good[0], good[1][:2], good[2]),
        (good[0], good[1], good[2][:0]),
        (good[0].astype(np.int64), good[1], good[2]),
    ]
    for target in bad_targets:
        with pytest.raises(InvalidArgumentError):
            manager.csr([1], out=target)
    assert [part.tolist() for part in good] == [[0, 3], [0, 1, 2], [1]]


def test_width_and_target_must_agree() -> None:
    manager = KVCacheManager(8, 4)
    manager.admit(1, range(9))
    out = np.zeros((1, 4), np.int32)
    assert manager.block_table([1], out=out, width=4).tolist() == [[0, 1, 2, 0]]
    for width in (3, 5, -1, 2**31, 2**63):
        with pytest.raises(InvalidArgumentError):
            manager.block_table([1], out=out, width=width)
    with pytest.raises(InvalidArgumentError):
        manager.block_table([1], width=-1)


def test_every_error_of_the_core_is_exported() -> None:
    for name in errors.__all__:
        assert getattr(pagedkv, name) is getattr(errors, name)
    with pytest.raises(SequenceStateError):
        KVCacheManager(4, 4).row(1)
