"""What prompts hold, where a trace says it: one identity for every so many tokens, equal where the tokens are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np
from numpy.typing import NDArray

from pagedkv.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class PromptIdentities:
    """The identities of all prompts, one after another; the last one of a prompt also stands for a shorter rest.

    ids: int32, each >= 0; starts: int64 [requests + 1], where each prompt's identities start in ids; tokens_per_id: how
    many tokens one stands for. Prompts are equal from the start on as far as their identities are.
    Keeps the arrays it is given; no stream.
    """

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    tokens_per_id: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    def of(self, request: int) -> NDArray[np.int32]:
        """Return the identities of one prompt, a view."""
        return self.ids[self.starts[request] : self.starts[request + 1]]

    def first(self, count: int) -> PromptIdentities:
        """Return those of the first `count` prompts as views of these arrays."""
        starts = self.starts[: count + 1]
        return PromptIdentities(self.ids[: starts[-1]], starts, self.tokens_per_id)

    def check(self, prompt_tokens: NDArray[np.int64]) -> None:
        """Errors: InvalidArgumentError unless every prompt has as many identities as its tokens need."""
        if len(self) != len(prompt_tokens):
            raise InvalidArgumentError(f"identities of {len(self)} prompts for {len(prompt_tokens)} requests")
        wanted = -(-prompt_tokens // self.tokens_per_id)
        wrong = np.flatnonzero(np.diff(self.starts) != wanted)
        if len(wrong):
            request = int(wrong[0])
            raise InvalidArgumentError(
                f"prompt {request} has {len(self.of(request))} identities; {prompt_tokens[request]} tokens need "
                f"{wanted[request]}, one for {self.tokens_per_id} each"
            )


def join_identities(prompts: Sequence[Sequence[int]], tokens_per_id: int) -> PromptIdentities:
    """Return the identities of these prompts, numbered 0 .. n - 1 in order of first appearance.

    Any whole numbers will do, hashes of 64 bits and more too: only which are equal matters. Pure; no stream.
    """
    numbers: dict[int, int] = {}
    dense = [numbers.setdefault(identity, len(numbers)) for identity in chain.from_iterable(prompts)]
    starts = np.fromiter(accumulate(map(len, prompts), initial=0), dtype=np.int64, count=len(prompts) + 1)
    return PromptIdentities(np.array(dense, dtype=np.int32), starts, tokens_per_id)
