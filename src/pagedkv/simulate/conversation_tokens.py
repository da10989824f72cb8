"""Token ids of simulated requests that go on from one another: prompts hold earlier prompts and answers.

Every text (a shared prefix, what a request adds to its prompt, what it generates) has one id for all of its tokens.
Blocks are told apart by all their tokens and everything before, so equal runs mean equal prefixes at any block size.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pagedkv.arguments import INT32_MAX
from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate.conversations import Conversations

Tokens = NDArray[np.int32]


class ConversationTokens:
    """Makes token ids, int32. prompts, outputs: int64 [n], the requests' lengths.

    Errors: InvalidArgumentError if there are more texts than int32 has numbers. Modifies only its memory of the last
    sequence; no stream.
    """

    def __init__(
        self,
        block_size: int,
        conversations: Conversations,
        prompts: NDArray[np.int64],
        outputs: NDArray[np.int64],
    ) -> None:
        self._block_size = block_size
        self._conversations = conversations
        self._prompts = prompts
        self._outputs = outputs
        self._answers = int(conversations.prefix.max(initial=-1)) + 1  # the id of request 0's answer
        self._questions = self._answers + len(conversations)
        if self._questions + len(conversations) > INT32_MAX:
            raise InvalidArgumentError(
                f"{len(conversations)} requests and prefixes up to {self._answers - 1} are more texts than token ids "
                f"go to, {INT32_MAX}; give fewer requests"
            )
        self._last: tuple[int, int, Tokens] | None = None

    @property
    def block_size(self) -> int:
        """Tokens a block."""
        return self._block_size

    def sequence(self, request: int, prompt: int, generated: int) -> Tokens:
        """Return the ids of a request's prompt and of what it has generated. Valid for ever; not to be written."""
        if self._last is None or self._last[:2] != (request, generated):
            # The head of the queue is tried in every step: its ids are made once.
            self._last = (request, generated, self._make(request, prompt, generated))
        return self._last[2]

    def generated(self, requests: NDArray[np.int64]) -> Tokens:
        """Return the ids of the tokens that these requests generate, one each. Fresh array."""
        return (requests + self._answers).astype(np.int32)

    def _make(self, request: int, prompt: int, generated: int) -> Tokens:
        texts, lengths = [self._answers + request], [generated]
        start = request
        length = prompt  # of the prompt of `start`
        while (parent := int(self._conversations.parent[start])) >= 0:
            answer = int(self._outputs[parent])
            texts += (self._questions + start, self._answers + parent)
            lengths += (length - int(self._prompts[parent]) - answer, answer)
            start, length = parent, int(self._prompts[parent])
        prefix = int(self._conversations.prefix[start])
        shared = int(self._conversations.prefix_tokens[start]) if prefix >= 0 else 0
        texts += (self._questions + start, max(prefix, 0))
        lengths += (length - shared, shared)
        return np.repeat(np.array(texts[::-1], dtype=np.int32), lengths[::-1])
