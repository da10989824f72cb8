"""What is findable in the reference model: contents, spelled out in full, and the blocks that hold them.

A content is all that a block's tokens mean: the salt, and for every block from the sequence's first to this one its
tokens and what covers them. No hash, no tree and no serial: two contents are the same if they are equal, and one lies
below another if it begins with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .event_record import EventRecord

Span = tuple[int, int, bytes]  # first token, first token behind it, digest
Piece = tuple[int, int, int, bytes]  # of a span in one block: begin and end in the block, begin in the span, digest
BlockContent = tuple[tuple[int, ...], tuple[Piece, ...]]


@dataclass(frozen=True)
class Content:
    """The blocks of a chain from the first one on."""

    salt: bytes
    chain: tuple[BlockContent, ...]

    @classmethod
    def of(cls, salt: bytes, tokens: Sequence[int], spans: Sequence[Span], size: int, columns: int) -> Content:
        starts = range(0, columns * size, size)
        chain = ((tuple(tokens[at : at + size]), pieces(spans, at, at + size)) for at in starts)
        return cls(salt, tuple(chain))

    def head(self, columns: int) -> Content:
        return Content(self.salt, self.chain[:columns])

    def below(self, other: Content) -> bool:
        return self != other and self.head(len(other.chain)) == other

    @property
    def tokens(self) -> list[int]:
        return [token for tokens, _ in self.chain for token in tokens]


def pieces(spans: Sequence[Span], start: int, stop: int) -> tuple[Piece, ...]:
    """What covers the tokens [start, stop)."""
    return tuple(
        (max(first, start) - start, min(end, stop) - start, max(first, start) - first, digest)
        for first, end, digest in spans
        if first < stop and end > start
    )


@dataclass
class ModelIndex:
    """Every published block with its content. It never changes a block: it says which ones are findable no more."""

    record: EventRecord
    copies: dict[Content, list[int]] = field(default_factory=dict)  # the first one is what a match returns
    content_of: dict[int, Content] = field(default_factory=dict)

    def match(self, content: Content, most: int) -> list[int]:
        """The longest run of known blocks from the first one on."""
        found: list[int] = []
        while len(found) < most and content.head(len(found) + 1) in self.copies:
            found.append(self.copies[content.head(len(found) + 1)][0])
        return found

    def publish(self, block: int, content: Content) -> None:
        """The first copy stays the first; a new one is the next that would follow it."""
        self.content_of[block] = content
        if content not in self.copies:
            self.record.stored(block, content)
        self.copies.setdefault(content, []).insert(1, block)

    def lost(self, block: int) -> list[int]:
        """The block does not hold its content any more. Returns what else cannot be found now, in order of release."""
        content = self.content_of.pop(block, None)
        if content is None:
            return []
        self.copies[content].remove(block)
        if self.copies[content]:
            return []
        gone = [self._forget(other) for other in list(self.copies) if other.below(content)]
        del self.copies[content]
        self.record.removed(block, content)
        return _released(gone)

    def clear(self) -> list[int]:
        gone = list(self.copies.values())
        self.copies.clear()
        self.content_of.clear()
        self.record.cleared()
        return _released(gone)

    def _forget(self, content: Content) -> list[int]:
        blocks = self.copies.pop(content)
        self.record.removed(blocks[0], content)
        for block in blocks:
            del self.content_of[block]
        return blocks


def _released(gone: list[list[int]]) -> list[int]:
    """Of blocks that are withdrawn together the lowest is released last, so it is handed out first."""
    return sorted((block for blocks in gone for block in blocks), reverse=True)
