"""Who wrote what where prompts are reused: for each sequence and position, the request that first stored that content.

It is told by the token ids alone, not by where the manager found them: a block that was handed out for a prompt that it
does not hold has the bytes of another owner.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pagedkv.simulate.request_tokens import RequestTokens

Owners = NDArray[np.int64]


class PromptHistories:
    """Owners of every position: of a full block, the first request that had it behind the same blocks.

    Answers count too: the next turn of a conversation has them in its prompt. The rest of a sequence is its own.
    prompt, output: tokens a request; they may grow. Modifies itself; no stream.
    """

    def __init__(self, tokens: RequestTokens, prompt: Sequence[int], output: Sequence[int]) -> None:
        self._tokens = tokens
        self._prompt = prompt
        self._output = output
        self._first: dict[tuple[int, bytes], tuple[int, int]] = {}  # (content before, ids) -> (content, first owner)
        self._owners: dict[int, Owners] = {}  # of the full blocks' positions, until the request ends

    def wrote(self, seq_ids: Owners, counts: NDArray[np.int32], lengths: NDArray[np.int32]) -> Owners:
        """seq_ids[i] wrote its last counts[i] tokens, of lengths[i]; return their owners, concatenated. Fresh array."""
        return self._slices(seq_ids.tolist(), (lengths - counts).tolist(), lengths.tolist())

    def owners(self, seq_ids: Sequence[int], lengths: NDArray[np.int32]) -> Owners:
        """Return the owners of these sequences' positions 0 .. lengths[i] - 1, concatenated. Fresh array."""
        return self._slices(seq_ids, [0] * len(seq_ids), lengths.tolist())

    def ended(self, seq_ids: Sequence[int]) -> None:
        """Forget these sequences, not what they stored first."""
        for seq_id in seq_ids:
            del self._owners[seq_id]

    def forked(self, parent: int, children: Sequence[int]) -> None:
        """Nothing to do: requests are single sequences."""

    def reordered(self, seq_ids: Owners, parents: Owners) -> None:
        """Nothing to do: requests are single sequences."""

    def _slices(self, seq_ids: Sequence[int], starts: Sequence[int], stops: Sequence[int]) -> Owners:
        parts = [np.empty(0, dtype=np.int64)]
        for seq_id, start, stop in zip(seq_ids, starts, stops, strict=True):
            known = self._known(seq_id)[start:stop]
            parts += (known, np.full(stop - start - len(known), seq_id, dtype=np.int64))
        return np.concatenate(parts)

    def _known(self, request: int) -> Owners:
        if request not in self._owners:
            self._owners[request] = self._find(request)
        return self._owners[request]

    def _find(self, request: int) -> Owners:
        size, prompt, output = self._tokens.block_size, self._prompt[request], self._output[request]
        full = (prompt + output) // size
        ids = self._tokens.sequence(request, prompt, output)[: full * size]
        content, owners = -1, []
        for block in ids.reshape(full, size):
            content, owner = self._first.setdefault((content, block.tobytes()), (len(self._first), request))
            owners.append(owner)
        return np.repeat(np.array(owners, dtype=np.int64), size)
