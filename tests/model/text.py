"""What a sequence of the reference model says, as far as anybody told: its side of prefix reuse."""

from __future__ import annotations

from dataclasses import dataclass, field

from .contents import Content, Span, pieces


@dataclass
class Text:
    """Token ids from the first position on, some perhaps ahead of the sequence's length; what covers them; its salt."""

    block_size: int
    ids: list[int] = field(default_factory=list)
    salt: bytes = b""
    spans: list[Span] = field(default_factory=list)
    published: int = 0  # leading columns that the sequence is done with
    unpublishable: int | None = None  # no column from here on is published: what covers its tokens was cut

    def copy(self) -> Text:
        return Text(self.block_size, list(self.ids), self.salt, list(self.spans), self.published, self.unpublishable)

    def content(self, column: int) -> Content:
        """What the sequence's block in this column holds."""
        return Content.of(self.salt, self.ids, self.spans, self.block_size, column + 1)

    def cover(self, position: int) -> tuple[int, bytes] | None:
        """The place inside the span that covers a token, and its digest."""
        for first, end, digest in self.spans:
            if first <= position < end:
                return position - first, digest
        return None

    def publishable(self, committed: int) -> range:
        """Full, committed columns of known tokens that the sequence is not done with."""
        full = min(committed, len(self.ids)) // self.block_size
        return range(self.published, full if self.unpublishable is None else min(full, self.unpublishable))

    def cut(self, length: int) -> None:
        """What comes behind ``length`` is other tokens from now on, not known yet and covered by nothing."""
        column = length // self.block_size
        start = column * self.block_size
        if start < length and pieces(self.spans, start, start + self.block_size):
            self.unpublishable = column if self.unpublishable is None else min(column, self.unpublishable)
        del self.ids[length:]
        self.spans = [(first, min(end, length), digest) for first, end, digest in self.spans if first < length]
        self.published = min(self.published, column)
