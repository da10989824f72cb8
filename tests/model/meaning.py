"""What a written token means: everything before it in its sequence, its id, and what covers it. One number each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .contents import Content

Cover = tuple[int, bytes] | None  # place inside the span, digest


@dataclass(frozen=True)
class Written:
    token: int
    meaning: int


class Meanings:
    """Two tokens have the same number if and only if their keys and values would be the same."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._last_blocks: dict[Content, list[int]] = {}

    def of_salt(self, salt: bytes) -> int:
        return self._number(salt)

    def behind(self, before: int, token: int, cover: Cover) -> int:
        return self._number((before, token, cover))

    def of_tokens(self, salt: bytes, tokens: Sequence[int], cover: Callable[[int], Cover]) -> list[int]:
        meanings = [self.of_salt(salt)]
        for position, token in enumerate(tokens):
            meanings.append(self.behind(meanings[-1], token, cover(position)))
        return meanings[1:]

    def of_last_block(self, content: Content) -> list[int]:
        if content not in self._last_blocks:
            covers: list[Cover] = []
            for tokens, pieces in content.chain:
                here: list[Cover] = [None] * len(tokens)
                for begin, end, offset, digest in pieces:
                    here[begin:end] = [(offset + place, digest) for place in range(end - begin)]
                covers += here
            every = self.of_tokens(content.salt, content.tokens, covers.__getitem__)
            self._last_blocks[content] = every[-len(content.chain[-1][0]) :]
        return self._last_blocks[content]

    def _number(self, what: object) -> int:
        return self._numbers.setdefault(what, len(self._numbers))
