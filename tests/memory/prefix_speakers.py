"""What sequences say, and its bytes: a token's are made of all that comes before it, so a wrong block shows."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import pattern_by_hand

TOKEN_BYTES = 8
Span = tuple[int, int, bytes]

# They begin alike and part inside a block, at the end of one, and late.
BOOKS = ((0,) * 12, (0, 0, 0) + (1,) * 9, (0,) * 6 + (1, 0) * 3)
SALTS = (*(b"",) * 6, b"tenant", b"tenant")
PICTURES: tuple[tuple[Span, ...], ...] = (*((),) * 5, ((1, 4, b"cat"),), ((1, 4, b"dog"),), ((1, 4, b"cat"),))


@dataclass
class Speaker:
    """One sequence as its engine sees it. ``ids`` may lie ahead of ``length``: the rest of a prompt."""

    ids: list[int]
    salt: bytes
    spans: tuple[Span, ...]
    known: int  # leading ids that the manager was told
    length: int  # tokens that have their place
    written: int  # of these, leading ones whose writes are on the compute stream

    @classmethod
    def of_prompt(cls, a: int, b: int) -> Speaker:
        ids = list(BOOKS[a % len(BOOKS)][: 4 + b])
        return cls(ids, SALTS[a % len(SALTS)], PICTURES[b % len(PICTURES)], len(ids), 0, 0)

    def fork(self) -> Speaker:
        return Speaker(self.ids[:], self.salt, self.spans, self.known, self.length, self.written)

    def cut(self, length: int) -> None:
        """What it says next is something else, and nothing lies over it."""
        if length == self.length:
            return
        del self.ids[length:]
        self.spans = tuple((start, min(stop, length), what) for start, stop, what in self.spans if start < length)
        self.known = min(self.known, length)
        self.length = self.written = length

    def cover(self, position: int) -> tuple[int, bytes] | None:
        for start, stop, what in self.spans:
            if start <= position < stop:
                return position - start, what
        return None


@dataclass
class Names:
    """A number for each token with all that comes before it, over it, and separates it from equal ones."""

    numbers: dict[object, int] = field(default_factory=dict)

    def of(self, speaker: Speaker, count: int) -> list[int]:
        names = [self._number(speaker.salt)]
        for position, token in enumerate(speaker.ids[:count]):
            names.append(self._number((names[-1], token, speaker.cover(position))))
        return names[1:]

    def _number(self, what: object) -> int:
        return self.numbers.setdefault(what, len(self.numbers))

    def bytes_of(self, speaker: Speaker, count: int) -> bytes:
        names = self.of(speaker, count)
        return b"".join(pattern_by_hand.token(name, position, TOKEN_BYTES) for position, name in enumerate(names))
