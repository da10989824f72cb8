"""Exports of device-resident tables into torch tensors, against the manager's own exports on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memory.plans import plan
from pagedkv import DevicePool, KVCacheManager, OpaqueLayout
from pagedkv.errors import InvalidArgumentError

from .engine_side import DlpackOnly, on_gpu

pytestmark = pytest.mark.gpu

POISON = -77_777


class Guarded:
    """A poisoned tensor inside a larger one: `inner` is written, the margins must stay."""

    def __init__(self, torch: Any, shape: tuple[int, ...], dtype: str) -> None:
        margin = 3
        self._whole = torch.full(
            (shape[0] + 2 * margin, *shape[1:]), POISON, dtype=getattr(torch, dtype), device="cuda"
        )
        self.inner = self._whole[margin : margin + shape[0]]
        self._margins = (self._whole[:margin], self._whole[margin + shape[0] :])
        torch.cuda.synchronize()

    def result(self, pool: DevicePool) -> Any:
        """The values as a NumPy array, once the pool's stream has passed."""
        pool.stream.synchronize()
        assert all(bool((margin == POISON).all()) for margin in self._margins), "written beside the array"
        return self.inner.cpu().numpy()


@pytest.fixture
def l2_pool() -> DevicePool:
    """L2's tables by hand: S0, 5 tokens on blocks [3, 7], in row 0; S1, 2 tokens on block [5], in row 1."""
    pool = DevicePool(OpaqueLayout(8, 4), 8, device="cuda:0")
    # A former owner's blocks lie behind the live ones: they must not show.
    pool.apply(plan(1, updates=[(0, 0, 3), (0, 1, 7), (0, 2, 6), (1, 0, 5), (1, 1, 4)]))
    return pool


def test_l2_a_dense_table_with_padding_rows(torch: Any, l2_pool: DevicePool) -> None:
    rows, lengths = on_gpu(torch, [0, 1, -1, -1], "int32"), on_gpu(torch, [5, 2, 0, 0], "int32")
    out = Guarded(torch, (4, 3), "int32")
    l2_pool.tables.gather(rows, lengths, out.inner)
    assert out.result(l2_pool).tolist() == [[3, 7, 0], [5, 0, 0], [0, 0, 0], [0, 0, 0]]
    l2_pool.close()


def test_l2_slots_with_padding_and_no_slot_beyond_the_row(torch: Any, l2_pool: DevicePool) -> None:
    rows = on_gpu(torch, [0] * 5 + [1] * 3 + [-1] * 2, "int32")
    positions = on_gpu(torch, [0, 1, 2, 3, 4, 0, 1, 5, 0, 7], "int64")
    lengths = on_gpu(torch, [5] * 5 + [2] * 3 + [0] * 2, "int32")
    out = Guarded(torch, (10,), "int64")
    l2_pool.tables.slots(rows, positions, out.inner, lengths=lengths)
    assert out.result(l2_pool).tolist() == [12, 13, 14, 15, 28, 20, 21, -1, -1, -1]
    l2_pool.close()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_slots_outside_the_table_are_none(torch: Any, l2_pool: DevicePool, dtype: str) -> None:
    rows = on_gpu(torch, [0, 0, 0, -5, 63, 64, 2**31 - 1, 1], "int32")
    positions = on_gpu(torch, [-1, 4 * 8, 2**31 - 1, 0, 0, 0, 0, 0], dtype)
    out = Guarded(torch, (8,), "int64")
    l2_pool.tables.slots(rows, positions, out.inner)
    assert out.result(l2_pool).tolist() == [-1, -1, -1, -1, 0, -1, -1, 20]
    l2_pool.close()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scratch", [0, 1])
def test_exports_equal_the_managers(torch: Any, seed: int, scratch: int) -> None:
    """Random sequences, some gone and their rows used again, exported in random order with padding rows."""
    random = np.random.default_rng(seed)
    block_size, count = int(random.choice([1, 4, 16])), 90
    manager = KVCacheManager(3000, block_size, scratch_blocks=scratch)
    pool = DevicePool(OpaqueLayout(8, block_size), 3000, device="cuda:0", scratch_blocks=scratch)
    for seq_id in range(count):
        manager.admit(seq_id, (), reserve=1)
    ids = np.arange(count)
    for _ in range(6):
        pool.apply(manager.append(ids, random.integers(0, 6 * block_size, len(ids))))
        ids = random.permutation(ids)
        manager.free(ids[:4])
        for new in range(count, count + 3):
            manager.admit(new, (), reserve=block_size + 1)
        ids, count = np.concatenate([ids[4:], np.arange(count, count + 3)]), count + 3
        manager.truncate(ids[:5], [manager.seq_length(seq_id) // 2 for seq_id in ids[:5].tolist()])
        pool.apply(manager.append(ids[::2], np.ones(len(ids[::2]), np.int32)))
    check_exports(torch, manager, pool, ids)
    pool.close()


def check_exports(torch: Any, manager: KVCacheManager, pool: DevicePool, ids: Any) -> None:
    padding = 7
    of_batch = [manager.row(seq_id) for seq_id in ids.tolist()]
    lens = manager.seq_lens(ids)
    rows = on_gpu(torch, of_batch + [-1] * padding, "int32")
    lengths = on_gpu(torch, [*lens.tolist(), *[0] * padding], "int32")
    width = manager.block_table(ids).shape[1] + 2

    dense = Guarded(torch, (len(ids) + padding, width), "int32")
    pool.tables.gather(rows, lengths, dense.inner)
    wanted = manager.block_table(ids, out=np.full((len(ids) + padding, width), POISON, np.int32))
    assert np.array_equal(dense.result(pool), cut(wanted, lens, manager))

    owners = np.repeat(np.asarray(of_batch, np.int32), lens)
    places = np.concatenate([np.arange(length) for length in lens.tolist()])
    slots = Guarded(torch, (len(owners),), "int64")
    pool.tables.slots(on_gpu(torch, owners, "int32"), on_gpu(torch, places, "int64"), slots.inner)
    assert np.array_equal(slots.result(pool), manager.slot_mapping(ids))

    expected = manager.csr(ids)
    tail = [int(expected.indptr[-1])] * padding
    indptr, last = (Guarded(torch, (len(rows) + extra,), "int32") for extra in (1, 0))
    indices = Guarded(torch, (len(expected.indices),), "int32")
    pool.tables.csr(rows, lengths, (indptr.inner, indices.inner, last.inner))
    assert indptr.result(pool).tolist() == [*expected.indptr.tolist(), *tail]
    assert indices.result(pool).tolist() == expected.indices.tolist()
    assert last.result(pool)[: len(ids)].tolist() == expected.last_page_len.tolist()


def cut(table: Any, lens: Any, manager: KVCacheManager) -> Any:
    """The manager exports reserved blocks too, the device those that tokens fill."""
    pad = manager.num_blocks if manager.scratch_blocks else 0
    for row, length in enumerate(lens.tolist()):
        table[row, -(-length // manager.block_size) :] = pad
    return table


def test_indices_that_do_not_fit_are_left_out(torch: Any, l2_pool: DevicePool) -> None:
    rows, lengths = on_gpu(torch, [1, 0, -1], "int32"), on_gpu(torch, [2, 5, 0], "int32")
    indptr, last = Guarded(torch, (4,), "int32"), Guarded(torch, (3,), "int32")
    indices = Guarded(torch, (2,), "int32")
    l2_pool.tables.csr(rows, lengths, (indptr.inner, indices.inner, last.inner))
    assert indptr.result(l2_pool).tolist() == [0, 1, 3, 3]
    assert indices.result(l2_pool).tolist() == [5, 3]
    assert last.result(l2_pool)[:2].tolist() == [2, 1]
    l2_pool.close()


def test_arrays_are_taken_from_other_libraries_too(torch: Any, cupy: Any, l2_pool: DevicePool) -> None:
    rows, lengths = cupy.asarray([1, 0], cupy.int32), DlpackOnly(on_gpu(torch, [2, 5], "int32"))
    out = cupy.full((2, 2), POISON, cupy.int32)
    cupy.cuda.Device().synchronize()
    l2_pool.tables.gather(rows, lengths, out)
    l2_pool.stream.synchronize()
    assert out.get().tolist() == [[5, 0], [3, 7]]
    l2_pool.close()


def test_arrays_of_another_kind_are_refused(torch: Any, l2_pool: DevicePool) -> None:
    good, out = on_gpu(torch, [0, 1], "int32"), on_gpu(torch, np.full((2, 4), POISON), "int32")
    calls: list[tuple[object, object, object]] = [
        (good.long(), good, out),
        (good, good.short(), out),
        (good, good, out.long()),
        (good, good, out[:, ::2]),
        (good, good, out.reshape(-1)),
        (good[:1], good, out),
        (good, good, out[:1]),
        (good.cpu(), good, out),
        ([0, 1], good, out),
    ]
    for rows, lengths, target in calls:
        with pytest.raises(InvalidArgumentError):
            l2_pool.tables.gather(rows, lengths, target)
    l2_pool.stream.synchronize()
    assert bool((out == POISON).all())
    l2_pool.close()
