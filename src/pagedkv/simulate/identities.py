"""What prompts hold, where a trace says it: one identity for every so many tokens, equal where the tokens are."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

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
    joined = IdentityRows(tokens_per_id)
    for prompt in prompts:
        joined.add(prompt)
    return joined.ordered(None)


class IdentityRows:
    """Collects identities prompt by prompt, four bytes each, numbered in order of first appearance. Modifies itself."""

    def __init__(self, tokens_per_id: int) -> None:
        self.tokens_per_id = tokens_per_id
        self._numbers: dict[Hashable, int] = {}
        self._ids = array("i")
        self._starts = array("q", [0])
        self._fresh = 0  # the next number of `add_scoped`

    def add(self, identities: Iterable[Hashable]) -> None:
        """Append a prompt with these identities."""
        numbers = self._numbers
        self._ids.extend([numbers.setdefault(identity, len(numbers)) for identity in identities])
        self._starts.append(len(self._ids))

    def extend(self, ids: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Append many prompts at once: the next counts[i] of `ids` are the i-th one's. The same as `add` one by one."""
        distinct, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        order, numbers = np.argsort(first), self._numbers
        named = np.empty(len(distinct), dtype=np.int32)
        named[order] = [numbers.setdefault(identity, len(numbers)) for identity in distinct[order].tolist()]
        self._ids.frombytes(named[inverse].tobytes())
        self._starts.frombytes((self._starts[-1] + np.cumsum(counts)).tobytes())

    def add_scoped(self, identities: Iterable[int], scope: dict[int, int], *, has_rest: bool) -> None:
        """Append a prompt whose identities mean something in `scope` only, which keeps their numbers and may be dropped
        with it; has_rest: its end is like nothing else. Not for use beside `add` and `extend`. Modifies `scope`."""
        for identity in identities:
            number = scope.get(identity)
            if number is None:
                number = scope[identity] = self._fresh
                self._fresh += 1
            self._ids.append(number)
        if has_rest:
            self._ids.append(self._fresh)
            self._fresh += 1
        self._starts.append(len(self._ids))

    def ordered(self, order: NDArray[np.int64] | None) -> PromptIdentities:
        """Return the identities, prompt i being the order[i]-th that was added (None: as added), numbered anew."""
        ids, starts = np.array(self._ids, dtype=np.int32), np.array(self._starts, dtype=np.int64)
        if order is not None:
            lengths = np.diff(starts)[order]
            moved = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
            ids = ids[np.repeat(starts[:-1][order] - moved[:-1], lengths) + np.arange(len(ids))]
            ids, starts = _numbered_by_appearance(ids), moved
        return PromptIdentities(ids, starts, self.tokens_per_id)


def _numbered_by_appearance(ids: NDArray[np.int32]) -> NDArray[np.int32]:
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    numbers = np.empty(len(first), dtype=np.int32)
    numbers[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return numbers[inverse]
