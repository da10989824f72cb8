"""N: tables outside the manager must not name blocks that a sequence no longer has."""

from __future__ import annotations

from pagedkv import KVCacheManager, StepPlan

from .refused import available, table


class DeviceTables:
    """The device-resident block tables: what the plans' updates have written so far, and nothing else."""

    def __init__(self) -> None:
        self.entries: dict[tuple[int, int], int] = {}

    def apply(self, plan: StepPlan) -> None:
        for row, column, block in plan.updates.tolist():
            self.entries[row, column] = block

    def of(self, manager: KVCacheManager, seq_id: int) -> list[int]:
        return [self.entries[manager.row(seq_id), column] for column in range(len(table(manager, seq_id)))]


def test_n3_truncated_block_is_gone_from_every_export_at_once() -> None:
    manager = KVCacheManager(4, 2)
    manager.admit(1, [1, 2, 3, 4])
    manager.append([1], [4])
    manager.append([1], [1])
    third = table(manager, 1)[2]
    manager.truncate([1], [4])
    manager.admit(2, [5, 6])
    manager.append([2], [2])
    assert table(manager, 2) == [third]
    assert third not in table(manager, 1)
    assert third not in manager.block_table([1]).tolist()[0]
    assert third not in manager.csr([1]).indices.tolist()
    assert third not in [slot // 2 for slot in manager.slot_mapping([1]).tolist()]
    assert available(manager) == 1


def test_n3_update_of_a_column_that_was_cut_and_grown_again() -> None:
    """The new block must reach the device although that column was reported once before."""
    manager, device = KVCacheManager(6, 2), DeviceTables()
    manager.admit(1, (), reserve=0)
    device.apply(manager.append([1], [5]))
    old = table(manager, 1)[2]
    manager.truncate([1], [2])
    manager.admit(2, [1, 2, 3, 4])
    device.apply(manager.append([2], [4]))
    assert old in table(manager, 2)
    device.apply(manager.append([1], [3]))
    for seq_id in (1, 2):
        assert device.of(manager, seq_id) == table(manager, seq_id)


def test_n3_next_sequence_in_a_row_does_not_inherit_its_entries() -> None:
    manager, device = KVCacheManager(6, 2), DeviceTables()
    for seq_id in (1, 2):
        manager.admit(seq_id, (), reserve=4)
        device.apply(manager.append([seq_id], [4]))
    row = manager.row(1)
    manager.free([1])
    manager.allocator.allocate(1)
    manager.admit(3, (), reserve=4)
    assert manager.row(3) == row
    plan = manager.append([3], [1])
    assert plan.updates[:, 1].tolist() == [0, 1], "what admission reserved is reported with the first plan"
    device.apply(plan)
    assert device.of(manager, 3) == table(manager, 3)
    assert device.of(manager, 2) == table(manager, 2)


def test_n3_nothing_is_reported_twice() -> None:
    manager = KVCacheManager(6, 4)
    manager.admit(1, (), reserve=6)
    assert len(manager.append([1], [0]).updates) == 2
    assert [len(manager.append([1], [1]).updates) for _ in range(9)] == [0] * 8 + [1]


def test_n3_whom_a_partial_append_did_not_serve_is_reported_later() -> None:
    manager, device = KVCacheManager(3, 2), DeviceTables()
    manager.admit(1, (), reserve=2)
    manager.admit(2, (), reserve=2)
    plan = manager.append([1, 2], [3, 3], partial=True)
    assert plan.served == 1
    assert set(plan.updates[:, 0].tolist()) == {manager.row(1)}
    device.apply(plan)
    device.apply(manager.append([2], [1]))
    assert device.of(manager, 2) == table(manager, 2)


def test_n3_a_failed_append_swallows_no_update() -> None:
    manager, device = KVCacheManager(3, 2), DeviceTables()
    manager.admit(1, (), reserve=2)
    manager.admit(2, (), reserve=2)
    assert manager.try_append([1, 2], [3, 3]) is None
    device.apply(manager.append([1, 2], [1, 1]))
    for seq_id in (1, 2):
        assert device.of(manager, seq_id) == table(manager, seq_id)


def test_n3_a_page_table_is_a_snapshot() -> None:
    manager = KVCacheManager(4, 2)
    manager.admit(1, [1, 2, 3])
    manager.append([1], [3])
    snapshot = manager.get_page_table(1)
    before = snapshot.entries.tolist()
    snapshot.entries[0] = 3
    manager.append([1], [2])
    manager.free([1])
    assert snapshot.entries.tolist() == before
    assert snapshot.num_tokens == 3
