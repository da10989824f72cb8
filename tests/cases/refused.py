"""Shows that a refused call has changed nothing that anybody can see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from pagedkv import KVCacheManager
from pagedkv.errors import PagedKVError

E = TypeVar("E", bound=PagedKVError)


def observable(manager: KVCacheManager) -> dict[str, object]:
    """Everything that a caller can read, except that refused admissions are counted."""
    stats = manager.get_stats().as_dict()
    stats.pop("failed_admissions")
    blocks = range(manager.num_blocks)
    allocator = manager.allocator
    return {
        "stats": stats,
        "steps": (manager.last_step, manager.retired_step),
        "blocks": [(allocator.get_ref_count(b), allocator.state(b), allocator.block(b).fill) for b in blocks],
        "sequences": {
            seq_id: (
                manager.row(seq_id),
                manager.seq_length(seq_id),
                manager.committed_length(seq_id),
                manager.get_page_table(seq_id).entries.tolist(),
            )
            for seq_id in manager.seq_ids().tolist()
        },
    }


@contextmanager
def refused(manager: KVCacheManager, error: type[E]) -> Iterator[pytest.ExceptionInfo[E]]:
    """The block must raise exactly this error and leave the manager as it was."""
    before = observable(manager)
    with pytest.raises(error) as caught:
        yield caught
    assert caught.type is error
    manager.check()
    assert observable(manager) == before


def available(manager: KVCacheManager) -> int:
    """Clean plus cached blocks, after a recount of every invariant."""
    manager.check()
    return int(manager.get_stats().free_blocks)


def table(manager: KVCacheManager, seq_id: int) -> list[int]:
    return [int(block) for block in manager.get_page_table(seq_id).entries]
