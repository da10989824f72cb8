"""Prompts of the reference model: who a sequence is before it has any block, and what the cache has of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .blocks import ModelPool
from .contents import Content, Span
from .refusal import bad_argument


@dataclass(frozen=True)
class Prompt:
    """Token ids, and what separates them from equal ones."""

    tokens: tuple[int, ...]
    salt: bytes = b""
    spans: tuple[Span, ...] = ()
    max_hit_tokens: int | None = None

    @classmethod
    def of(cls, tokens: Sequence[int]) -> Prompt:
        return cls(tuple(tokens))

    def check(self) -> None:
        """Spans ascend, do not overlap, lie within the tokens, and none is empty."""
        end = 0
        for start, stop, _ in self.spans:
            if not end <= start < stop <= len(self.tokens):
                raise bad_argument()
            end = stop

    def hit(self, pool: ModelPool, size: int) -> list[int]:
        """The blocks to take over: one token is left to compute, unless the caller says how many may be taken."""
        most = len(self.tokens) - 1 if self.max_hit_tokens is None else min(len(self.tokens), self.max_hit_tokens)
        columns = max(0, most) // size
        return pool.contents.match(Content.of(self.salt, self.tokens, self.spans, size, columns), columns)
