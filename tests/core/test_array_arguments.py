"""Every form in which numbers may be handed in, and every form in which they may not."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

from pagedkv import KVCacheManager
from pagedkv.errors import InvalidArgumentError, SequenceStateError


def _manager() -> KVCacheManager:
    manager = KVCacheManager(64, 4)
    for seq_id in (1, 2, 3):
        manager.admit(seq_id, (), reserve=0)
    return manager


def _strided(values: list[int], dtype: str) -> np.ndarray[Any, Any]:
    return np.repeat(np.array(values, dtype), 3)[::3]


def _reversed(values: list[int], dtype: str) -> np.ndarray[Any, Any]:
    return np.array(values[::-1], dtype)[::-1]


def _read_only(values: list[int], dtype: str) -> np.ndarray[Any, Any]:
    array = np.array(values, dtype)
    array.flags.writeable = False
    return array


def _unaligned(values: list[int], dtype: str) -> np.ndarray[Any, Any]:
    raw = b"\0" + np.array(values, dtype).tobytes()
    return np.frombuffer(raw, np.uint8)[1:].view(dtype)


SHAPES = [np.array, _strided, _reversed, _read_only, _unaligned]
DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", ">i4", ">i8", ">u2"]


@pytest.mark.parametrize("make", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_integer_arrays_of_any_width_order_and_stride(dtype: str, make: Any) -> None:
    manager = _manager()
    plan = manager.append(make([3, 1, 2], dtype), make([5, 0, 2], dtype))
    assert plan.rows.tolist() == [2, 0, 1]
    assert plan.lengths.tolist() == [5, 0, 2]
    manager.check()


@pytest.mark.parametrize(
    "ids",
    [
        [3, 1, 2],
        (3, 1, 2),
        range(1, 4),
        deque([3, 1, 2]),
        np.array([3, 1, 2], object),
        [np.int64(3), np.int8(1), 2],
        np.array([3, 1, 2]).data,
    ],
)
def test_sequences_of_python_numbers(ids: Any) -> None:
    manager = _manager()
    assert manager.append(ids, [1, 1, 1]).rows.tolist() == [seq_id - 1 for seq_id in ids]


@pytest.mark.parametrize("empty", [[], (), range(0), np.zeros(0), np.zeros(0, np.int32), np.zeros(0, bool)])
def test_empty_batches_of_any_type(empty: Any) -> None:
    """``[]`` is an array of floats to NumPy; it names nobody all the same."""
    manager = _manager()
    plan = manager.append(empty, empty)
    assert (plan.served, plan.slots.shape) == (0, (0,))
    manager.commit(empty, empty, tokens=empty)
    manager.truncate(empty, empty)
    manager.free(empty)
    assert manager.block_table(empty).shape[0] == 0
    assert manager.slot_mapping(empty, starts=empty, stops=empty).shape == (0,)
    assert manager.seq_lens(empty).shape == (0,)
    assert manager.admit(9, empty).cached_tokens == 0
    manager.allocator.free(empty)


BAD: list[Any] = [
    [1.0, 2.0, 3.0],
    [1, 2.5, 3],
    [1, True, 3],
    [True, True, True],
    np.array([1.0, 2.0, 3.0]),
    np.array([1, 2, 3], bool),
    np.array([1, 2, 3], complex),
    np.array([1, 2, 3], "m8[s]"),
    np.array(["1", "2", "3"]),
    np.array([1, 2.5, None], object),
    np.array([[1, 2, 3]]),
    np.array(1),
    [[1, 2, 3]],
    [[1], [2], [3, 4]],
    [1, None, 3],
    [1, float("nan"), 3],
    ["1", "2", "3"],
    "123",
    b"123",
    {1, 2, 3},
    {1: 1, 2: 2, 3: 3},
    iter([1, 2, 3]),
    None,
    1,
    object(),
]


@pytest.mark.parametrize("index", range(len(BAD)))
def test_what_is_no_list_of_integers(index: int) -> None:
    manager = _manager()
    bad = BAD[index]
    with pytest.raises(InvalidArgumentError):
        manager.append(bad, [1, 1, 1])
    with pytest.raises(InvalidArgumentError):
        manager.append([1, 2, 3], bad)
    if bad is not None:
        with pytest.raises(InvalidArgumentError):
            manager.append([1, 2, 3], [1, 1, 1], tokens=bad)
    with pytest.raises(InvalidArgumentError):
        manager.free(bad)
    with pytest.raises(InvalidArgumentError):
        manager.admit(9, bad)
    assert manager.get_stats().logical_tokens == 0
    assert manager.last_step == 0
    manager.check()


@pytest.mark.parametrize("token", [2**31, -(2**31) - 1, 2**63, 2**100, 1.5, None])
def test_tokens_are_32_bit_integers(token: Any) -> None:
    """Cut to 32 bits, an id beyond them would be another token, and a wrong prefix hit."""
    manager = _manager()
    for call in (
        lambda: manager.admit(9, [1, token]),
        lambda: manager.append([1], [2], tokens=[1, token]),
        lambda: manager.admit(9, np.array([1, token], object)),
    ):
        with pytest.raises(InvalidArgumentError):
            call()
    manager.admit(9, [2**31 - 1, -(2**31)])
    manager.append([9], [2])
    manager.commit([9], [2], tokens=[])


@pytest.mark.parametrize("seq_id", [2**63, -(2**63) - 1, 2**64 + 1, 2**100])
def test_ids_beyond_64_bits_name_nobody(seq_id: int) -> None:
    """2**64 + 1 cut to 64 bits would be sequence 1."""
    manager = _manager()
    for call in (
        lambda: manager.append([seq_id], [1]),
        lambda: manager.append(np.array([seq_id], object), [1]),
        lambda: manager.admit(seq_id, [1]),
        lambda: manager.seq_length(seq_id),
        lambda: seq_id in manager,
    ):
        with pytest.raises(InvalidArgumentError):
            call()


def test_an_unsigned_id_beyond_int64() -> None:
    manager = _manager()
    with pytest.raises(InvalidArgumentError):
        manager.free(np.array([2**63 + 1], np.uint64))


def test_inputs_are_neither_changed_nor_kept() -> None:
    manager = _manager()
    ids, counts = np.array([2, 1], np.int64), np.array([3, 4], np.int32)
    plan = manager.append(ids, counts)
    ids[:], counts[:] = 0, 0
    assert plan.rows.tolist() == [1, 0]
    assert manager.seq_lens([2, 1]).tolist() == [3, 4]


def test_a_target_may_be_an_argument_too() -> None:
    """Arguments are read before anything is written."""
    manager = _manager()
    ids = np.array([3, 1, 2], np.int32)
    manager.append([3, 1, 2], [7, 8, 9])
    assert manager.seq_lens(ids, out=ids).tolist() == [7, 8, 9]
    slots = np.array([1, 2, 3, 0, 0, 0], np.int64)[:3]
    assert manager.slot_mapping(slots, starts=[7, 8, 6], stops=[8, 9, 7], out=slots).shape == (3,)


@pytest.mark.parametrize("salt", [None, "text", bytearray(b"x"), 7])
def test_a_salt_is_bytes(salt: Any) -> None:
    manager = _manager()
    with pytest.raises(InvalidArgumentError):
        manager.admit(9, [1], salt=salt)
    manager.admit(9, [1], salt=b"")
    manager.admit(10, [1], salt=b"tenant")


def test_more_than_the_inline_buffer_holds() -> None:
    """Small batches are copied onto the stack, larger ones are not."""
    manager = KVCacheManager(1024, 4)
    ids = list(range(300))
    for seq_id in ids:
        manager.admit(seq_id, ())
    for size in (7, 8, 9, 63, 64, 65, 300):
        assert manager.append(ids[:size], [1] * size).rows.tolist() == ids[:size]
    with pytest.raises(SequenceStateError):
        manager.append([*ids, 999], [1] * 301)
