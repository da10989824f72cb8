"""Who keeps whom alive, and objects that were never built: an exception, not a crash of the process."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

from pagedkv import KVCacheManager


def test_the_allocator_view_keeps_its_manager_alive() -> None:
    manager = KVCacheManager(4, 4)
    manager.admit(1, [1])
    allocator = manager.allocator
    del manager
    gc.collect()
    assert allocator.get_ref_count(0) == 1
    assert allocator.allocate(1).tolist() == [1]


def test_a_manager_goes_when_nobody_needs_it() -> None:
    manager = KVCacheManager(4, 4)
    plan = manager.append([], [])
    allocator = manager.allocator
    gone = weakref.ref(manager)
    del manager, allocator
    gc.collect()
    assert gone() is None
    assert plan.step == 1


def test_exports_outlive_their_manager() -> None:
    manager = KVCacheManager(4, 4)
    manager.admit(1, range(6))
    manager.append([1], [6])
    table, slots, tables, ids = (
        manager.block_table([1]),
        manager.slot_mapping([1]),
        manager.csr([1]),
        manager.seq_ids(),
    )
    page_table, stats = manager.get_page_table(1), manager.get_stats()
    del manager
    gc.collect()
    assert (table.tolist(), slots.tolist(), ids.tolist()) == ([[0, 1]], [0, 1, 2, 3, 4, 5], [1])
    assert (tables.indptr.tolist(), tables.indices.tolist(), tables.last_page_len.tolist()) == ([0, 2], [0, 1], [2])
    assert (page_table.entries.tolist(), stats.allocated_blocks) == ([0, 1], 2)


@pytest.mark.parametrize(
    "expression",
    [
        "StepPlan.__new__(StepPlan).slots",
        "StepPlan.__new__(StepPlan).updates",
        "StepPlan.__new__(StepPlan).to_bytes()",
        "StepPlan.slots.fget(5)",
        "Unbuilt().allocator",
        "Unbuilt().get_stats()",
        "Unbuilt().append([], [])",
        "KVCacheManager.allocator.fget(5)",
        "BlockAllocator.__new__(BlockAllocator).allocate()",
        "PageTable.__new__(PageTable).entries",
    ],
)
def test_objects_that_were_never_built(expression: str) -> None:
    """The usual way to get one is a subclass that forgets ``super().__init__()``."""
    code = f"""
from pagedkv import *
class Unbuilt(KVCacheManager):
    def __init__(self):
        pass
try:
    {expression}
except TypeError:
    print("refused")
"""
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "refused\n"), run.stderr
