"""Sequences of the reference model: three cursors, a table of block ids, and what the device already knows of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .text import Text


def blocks_for(tokens: int, block_size: int) -> int:
    """ceil(tokens / block_size): 0 tokens need 0 blocks."""
    return -(-tokens // block_size)


@dataclass
class ModelSequence:
    """``committed <= length <= capacity``; the ids of ``known`` leading tokens have been given, some perhaps ahead."""

    seq_id: int
    row: int
    block_size: int
    table: list[int] = field(default_factory=list)
    length: int = 0
    committed: int = 0
    text: Text = field(init=False)
    emitted: int = 0  # leading table entries that some plan's updates already carried, unchanged since

    def __post_init__(self) -> None:
        self.text = Text(self.block_size)

    @property
    def known(self) -> int:
        return len(self.text.ids)

    @property
    def capacity(self) -> int:
        return len(self.table) * self.block_size

    @property
    def filled_in_last(self) -> int:
        """Tokens in the last block of the table: 0 while that one is only reserved."""
        return self.tokens_in_column(len(self.table) - 1) if self.table else 0

    @property
    def last_page_len(self) -> int:
        """Tokens in the block that holds the last token: 1..B, and 0 for an empty sequence."""
        return (self.length - 1) % self.block_size + 1 if self.length else 0

    def tokens_in_column(self, column: int) -> int:
        """How many of this sequence's tokens lie in one column of its table."""
        return min(self.block_size, max(0, self.length - column * self.block_size))

    def columns(self, start: int, stop: int) -> range:
        """The columns that hold the positions [start, stop)."""
        if stop <= start:
            return range(0)
        return range(start // self.block_size, blocks_for(stop, self.block_size))

    def slots(self, positions: Iterable[int]) -> list[int]:
        size = self.block_size
        return [self.table[p // size] * size + p % size for p in positions]

    def shorten_table(self, columns: int) -> list[int]:
        """Cut the table; the cut entries come back deepest first, as they are released."""
        dropped = self.table[columns:]
        del self.table[columns:]
        self.emitted = min(self.emitted, columns)
        return dropped[::-1]
