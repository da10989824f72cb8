"""Token ids of simulated requests: equal where a trace says that prompts are equal, and nowhere else.

Every token of a block has one id, that of the block's content: identity x pieces + piece for a block of a prompt, where
an identity's tokens are cut into `pieces` blocks. What a request generates, and a prompt about which nothing is known,
has an id of the request's own. So a block that holds any of that is equal to no other request's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pagedkv.arguments import INT32_MAX
from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate.identities import PromptIdentities

Tokens = NDArray[np.int32]


class PromptTokens:
    """Makes token ids, int32, for blocks of `block_size` tokens. identities: what the prompts hold, if it is known.

    Errors: InvalidArgumentError for blocks that do not divide an identity's tokens, or more contents than int32 has
    numbers. Modifies only its memory of the last prompt; no stream.
    """

    def __init__(self, block_size: int, identities: PromptIdentities | None = None) -> None:
        self._block_size = block_size
        self._identities = identities
        self._pieces = 1
        self._first_own = 0  # ids from here on are requests' own
        self._last: tuple[int, Tokens] | None = None
        if identities is not None:
            self._pieces = _pieces(block_size, identities.tokens_per_id)
            self._first_own = (int(identities.ids.max(initial=-1)) + 1) * self._pieces
            self._check_room(len(identities), identities)

    @property
    def block_size(self) -> int:
        """Tokens a block."""
        return self._block_size

    def sequence(self, request: int, prompt: int, generated: int) -> Tokens:
        """Return the ids of a request's prompt and of what it has generated. Valid for ever; not to be written."""
        if self._last is None or self._last[0] != request or len(self._last[1]) != prompt + generated:
            # The head of the queue is tried in every step: its ids are made once.
            self._last = (request, self._make(request, prompt, generated))
        return self._last[1]

    def generated(self, requests: NDArray[np.int64]) -> Tokens:
        """Return the ids of the tokens that these requests generate, one each. Fresh array."""
        return (requests + self._first_own).astype(np.int32)

    def _make(self, request: int, prompt: int, generated: int) -> Tokens:
        tokens = np.full(prompt + generated, request + self._first_own, dtype=np.int32)
        if self._identities is not None:
            known = self._identities.of(request).astype(np.int64)[:, np.newaxis] * self._pieces
            contents = (known + np.arange(self._pieces)).ravel()
            blocks = -(-prompt // self._block_size)
            tokens[:prompt] = np.repeat(contents[:blocks], self._block_size)[:prompt]
        return tokens

    def _check_room(self, requests: int, identities: PromptIdentities) -> None:
        if self._first_own + requests > INT32_MAX:
            raise InvalidArgumentError(
                f"block_size is {self._block_size}: {int(identities.ids.max()) + 1} identities of "
                f"{identities.tokens_per_id} tokens make more contents than token ids go to, {INT32_MAX}; give larger "
                "blocks, or fewer requests"
            )


def _pieces(block_size: int, tokens_per_id: int) -> int:
    if tokens_per_id % block_size:
        raise InvalidArgumentError(
            f"block_size is {block_size}, and the trace says what each {tokens_per_id} tokens hold; give a block size "
            f"that divides {tokens_per_id}, or leave out prefix caching"
        )
    return tokens_per_id // block_size
