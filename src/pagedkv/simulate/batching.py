"""How many tokens one step may compute, and whether a prompt may be stored over several steps."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.errors import InvalidArgumentError

NO_CAP = sys.maxsize


@dataclass(frozen=True, slots=True)
class Batching:
    """max_batched_tokens: most tokens that a step computes (None: no cap); found ones cost nothing.

    A running sequence computes one token a step and goes first; the rest is for prompts, oldest admission first.
    chunked_prefill: a prompt longer than the rest is stored piece by piece, and the blocks of all of it are taken when
    it is admitted; else it waits for a step that has room for all of it.
    Errors: InvalidArgumentError.
    """

    max_batched_tokens: int | None = None
    chunked_prefill: bool = False

    def __post_init__(self) -> None:
        if self.max_batched_tokens is not None:
            whole_number(self.max_batched_tokens, "max_batched_tokens", minimum=1, maximum=INT32_MAX)
        elif self.chunked_prefill:
            raise InvalidArgumentError(
                "chunked_prefill cuts prompts to what a step may compute, and nothing says how much; give "
                "max_batched_tokens"
            )

    def check_group(self, size: int) -> None:
        """Refuse what groups of `size` sequences cannot do. Errors: InvalidArgumentError."""
        if size > 1 and self.chunked_prefill:
            raise InvalidArgumentError(
                f"chunked_prefill with groups of {size} sequences, which are forked when their prompt is whole; leave "
                "out one of them"
            )
        if size > self.cap:
            raise InvalidArgumentError(
                f"max_batched_tokens is {self.cap} and a request has {size} sequences, which compute a token each; "
                f"give {size} or more"
            )

    @property
    def cap(self) -> int:
        """Tokens a step; a number beyond all others where there is no cap."""
        return NO_CAP if self.max_batched_tokens is None else self.max_batched_tokens

    @property
    def longest_prefill(self) -> int:
        """The most tokens of one request that can be stored at its admission."""
        return NO_CAP if self.chunked_prefill else self.cap


UNLIMITED = Batching()
