"""`PageTable` by itself: for readers, and for engines with a sequence store of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pagedkv import PageTable
from pagedkv.errors import InvalidArgumentError, SequenceStateError


def _three_blocks() -> PageTable:
    table = PageTable(4)
    for block in (7, 3, 5):
        table.append_block(block)
        table.set_filled_in_last(4)
    table.set_filled_in_last(2)
    return table


def test_blocks_and_tokens() -> None:
    table = _three_blocks()
    assert (table.num_blocks, len(table), table.num_tokens, table.filled_in_last, table.block_size) == (3, 3, 10, 2, 4)
    assert [table.get_physical_id(index) for index in range(3)] == [7, 3, 5]
    assert table.entries.tolist() == [7, 3, 5]
    assert table.entries.dtype == np.int32


def test_entries_are_a_copy() -> None:
    table = _three_blocks()
    table.entries[:] = 0
    assert table.entries.tolist() == [7, 3, 5]


def test_empty_and_cleared() -> None:
    for table in (PageTable(4), _three_blocks()):
        table.clear()
        assert (len(table), table.num_tokens, table.filled_in_last, table.entries.tolist()) == (0, 0, 0, [])
        with pytest.raises(SequenceStateError):
            table.set_filled_in_last(1)


def test_a_new_block_is_empty_and_follows_a_full_one() -> None:
    table = PageTable(4)
    table.append_block(0)
    assert (table.num_tokens, table.filled_in_last) == (0, 0)
    table.set_filled_in_last(3)
    with pytest.raises(SequenceStateError):
        table.append_block(1)
    assert len(table) == 1
    table.set_filled_in_last(4)
    table.append_block(1)
    assert (table.num_tokens, table.filled_in_last) == (4, 0)


@pytest.mark.parametrize("tokens", [-1, 5, 2**32, 2**63, 1.5, True, None])
def test_fills_outside_a_block(tokens: Any) -> None:
    table = _three_blocks()
    with pytest.raises(InvalidArgumentError):
        table.set_filled_in_last(tokens)
    assert table.num_tokens == 10


@pytest.mark.parametrize("index", [-1, 3, 2**32, 2**63, 0.0, None])
def test_blocks_outside_the_table(index: Any) -> None:
    """A table is no list: -1 is a mistake made earlier, not the last block."""
    with pytest.raises(InvalidArgumentError):
        _three_blocks().get_physical_id(index)


@pytest.mark.parametrize("block", [-1, 2**31, 2**32, 2**63, 1.5, True, None])
def test_ids_that_no_block_has(block: Any) -> None:
    table = PageTable(4)
    with pytest.raises(InvalidArgumentError):
        table.append_block(block)
    assert len(table) == 0


@pytest.mark.parametrize("size", [0, -1, 2**31, 2**63, 1.5, True, None])
def test_block_sizes_that_no_block_has(size: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        PageTable(size)
