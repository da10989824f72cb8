"""The self-test's items that a reader can follow number by number: the allocator and a page table over real memory."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from pagedkv.cli.selftest_outcome import require

if TYPE_CHECKING:
    from pagedkv._core import BlockAllocator
    from pagedkv.pool import DevicePool

POOL_BYTES = 64 * 2**20
BLOCK_SIZE, TOKEN_BYTES = 16, 512  # blocks of 8,192 bytes
TAKEN = 5
PATTERNS = (100.0, 200.0, 300.0)
SKIPPED = (5, 3)


def allocator_item(device: str) -> str:
    """Take blocks, write (i + 1) x 1.5 to every float of the i-th, verify on the device, give all back."""
    pool, allocator = _open(device)
    with pool:
        before = _say_counts("before", allocator)
        ids = allocator.allocate(TAKEN)
        require(
            all(allocator.get_block_ptr(b) == pool.block_ptr(b) for b in ids.tolist()), "addresses are not the pool's"
        )
        values = [(i + 1) * 1.5 for i in range(TAKEN)]
        pool.fill_floats(ids, values)
        wrong = pool.verify_floats(ids, values)
        during = _say_counts(f"with {TAKEN} taken", allocator)
        allocator.free(ids)
        after = _say_counts("after", allocator)
        require(wrong == 0, f"{wrong} of {TAKEN * _floats(pool)} floats are not what was written")
        require(during == (before[0] - TAKEN, before[1] + TAKEN), f"{TAKEN} were taken, the counts say {during}")
        require(after == before, f"the counts were {before} and are {after}")
        return f"{TAKEN * _floats(pool):,} floats, 0 errors, counts restored"


def page_table_item(device: str) -> str:
    """Three blocks that are not neighbors behind one page table, reached by their logical index only."""
    from pagedkv._core import PageTable

    pool, allocator = _open(device)
    with pool:
        before = _counts(allocator)
        table = PageTable(BLOCK_SIZE)
        skipped: list[int] = []
        for skip in (*SKIPPED, 0):
            table.append_block(int(allocator.allocate(1)[0]))
            table.set_filled_in_last(BLOCK_SIZE)
            if skip:
                skipped.extend(allocator.allocate(skip).tolist())
        allocator.free(skipped)
        logical = range(len(PATTERNS))
        blocks = [table.get_physical_id(index) for index in logical]
        print("      logical -> physical: " + ", ".join(f"{index} -> {blocks[index]}" for index in logical))
        require(all(abs(b - a) > 1 for a, b in pairwise(blocks)), "the blocks are neighbors")
        for index in logical:
            pool.fill_floats(table.get_physical_id(index), PATTERNS[index])
        wrong = sum(pool.verify_floats(table.get_physical_id(index), PATTERNS[index]) for index in logical)
        require(wrong == 0, f"{wrong} of {len(blocks) * _floats(pool)} floats are not their logical block's")
        allocator.free(blocks)
        require(_counts(allocator) == before, f"the counts were {before} and are {_counts(allocator)}")
        return f"{len(blocks) * _floats(pool):,} floats through the logical index, 0 errors"


def _open(device: str) -> tuple[DevicePool, BlockAllocator]:
    from pagedkv._core import BlockAllocator
    from pagedkv.layout import OpaqueLayout
    from pagedkv.pool import DevicePool

    layout = OpaqueLayout(TOKEN_BYTES, BLOCK_SIZE)
    pool = DevicePool(layout, layout.blocks_in(POOL_BYTES), device=device)
    return pool, BlockAllocator(pool.num_blocks, layout.block_bytes, pool.base)


def _floats(pool: DevicePool) -> int:
    return pool.layout.block_bytes // 4


def _counts(allocator: BlockAllocator) -> tuple[int, int]:
    return allocator.num_free_blocks, allocator.num_allocated_blocks


def _say_counts(when: str, allocator: BlockAllocator) -> tuple[int, int]:
    free, allocated = _counts(allocator)
    print(f"      {when}: {free:,} free, {allocated:,} allocated, {allocator.num_total_blocks:,} in all")
    return free, allocated
