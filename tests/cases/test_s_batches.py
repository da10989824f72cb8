"""S: found in review of the design. A repeated id in one batch would be counted once and written twice."""

from __future__ import annotations

import pytest

from pagedkv import KVCacheManager
from pagedkv.errors import InvalidArgumentError

from .refused import refused


@pytest.mark.parametrize("ids", [[7, 7], [7, 8, 7], [8, 7, 7]])
def test_s3_a_repeated_id_is_refused_by_every_batch_call(ids: list[int]) -> None:
    manager = KVCacheManager(8, 4)
    for seq_id in (7, 8):
        manager.admit(seq_id, [1, 2, 3])
    manager.append([7, 8], [1, 1])
    ones = [1] * len(ids)
    for call in (
        lambda: manager.append(ids, ones),
        lambda: manager.append(ids, ones, partial=True),
        lambda: manager.try_append(ids, ones),
        lambda: manager.reserve(ids, ones),
        lambda: manager.try_reserve(ids, ones),
        lambda: manager.commit(ids, ones),
        lambda: manager.truncate(ids, ones),
        lambda: manager.free(ids),
        lambda: manager.block_table(ids),
        lambda: manager.slot_mapping(ids),
        lambda: manager.csr(ids),
        lambda: manager.seq_lens(ids),
    ):
        with refused(manager, InvalidArgumentError) as caught:
            call()
        assert "7" in str(caught.value)


def test_s3_the_mark_of_a_refused_batch_does_not_stick() -> None:
    """The ids of a batch that failed are not "already named" in the next one."""
    manager = KVCacheManager(8, 4)
    manager.admit(7, [1])
    for _ in range(3):
        with refused(manager, InvalidArgumentError):
            manager.append([7, 7], [1, 1])
        manager.append([7], [1])
    assert manager.seq_length(7) == 3


def test_s3_ids_that_differ_only_in_their_high_bits_are_not_repeated() -> None:
    manager = KVCacheManager(8, 4)
    ids = [7, 7 + 2**32, 7 - 2**63, 2**63 - 1, -1]
    for seq_id in ids:
        manager.admit(seq_id, [1])
    assert manager.append(ids, [1] * 5).rows.tolist() == [0, 1, 2, 3, 4]
    assert sorted(manager.seq_ids().tolist()) == sorted(ids)
