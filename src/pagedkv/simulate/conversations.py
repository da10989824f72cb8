"""What prompts hold, where it is told by sessions and shared prefixes: the next prompt contains the last answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagedkv.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class Conversations:
    """Of each request, where the head of its prompt comes from. All int64 [n].

    parent: the request whose prompt and whole answer it starts with, always an earlier one, the parent of no other;
    -1: none. prefix: the shared text that it starts with, numbered from 0; -1: none. prefix_tokens: how many tokens of
    it. What follows, and what is generated, is the request's own. Two prefixes of one number are equal as far as both
    go. Keeps the arrays it is given; no stream.
    """

    parent: NDArray[np.int64]
    prefix: NDArray[np.int64]
    prefix_tokens: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.parent)

    def first(self, count: int) -> Conversations:
        """Return those of the first `count` requests as views of these arrays."""
        return Conversations(self.parent[:count], self.prefix[:count], self.prefix_tokens[:count])

    def check(self, prompt_tokens: NDArray[np.int64], output_tokens: NDArray[np.int64]) -> None:
        """Errors: InvalidArgumentError unless every prompt is as long as its head, and that of an earlier request."""
        if not len(self.parent) == len(self.prefix) == len(self.prefix_tokens) == len(prompt_tokens):
            raise InvalidArgumentError(f"conversations of {len(self)} prompts for {len(prompt_tokens)} requests")
        child = self.parent >= 0
        parents = self.parent[child]
        if bool(np.any(self.parent < -1) or np.any(self.parent >= np.arange(len(self)))):
            raise InvalidArgumentError("a conversation goes on from a later request; its turns must be in order")
        if len(parents) and int(np.bincount(parents).max()) > 1:
            raise InvalidArgumentError("two requests go on from the same one; a turn has one next turn")
        if bool(np.any(self.prefix < -1) or np.any(self.prefix[child] >= 0)):
            raise InvalidArgumentError("prefix is a number from 0, or -1 for none, which every turn but the first has")
        head = np.where(self.prefix >= 0, self.prefix_tokens, 0)
        head[child] = prompt_tokens[parents] + output_tokens[parents]
        wrong = np.flatnonzero((prompt_tokens < head) | (head < 0))
        if len(wrong):
            request = int(wrong[0])
            raise InvalidArgumentError(
                f"prompt {request} has {prompt_tokens[request]} tokens, and what it starts with {head[request]}"
            )

    def next_turns(self) -> NDArray[np.int64]:
        """Return the request that goes on from each one, -1 for none."""
        following = np.full(len(self), -1, dtype=np.int64)
        child = np.flatnonzero(self.parent >= 0)
        following[self.parent[child]] = child
        return following
