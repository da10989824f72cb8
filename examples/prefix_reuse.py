"""A chat server that computes no token twice: each turn's prompt begins with the turns before, which are still there.

Run it: `python examples/prefix_reuse.py`. No GPU and no framework: the "keys and values" of a token are one number that
depends on all tokens up to it and on the tenant's adapter, stored in a host pool. The "model" continues from the number
that it reads back through the block tables, so one block that is found wrongly changes every answer behind it.

    admit with the tenant's salt -> compute what is not cached -> decode, ids a step late -> free, but findable

Nothing is copied when a prompt is found: the new sequence holds the old blocks. When the pool is full, the blocks that
were released longest ago make room, deepest first.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pagedkv import KVCache, open_cache

VOCABULARY = 1000
BLOCK_SIZE = 4
SYSTEM_PROMPT = list(range(100, 118))  # what every conversation begins with
TENANTS = (b"tenant 1", b"tenant 2")
PRIME = 2_147_483_647


@dataclass
class Conversation:
    """All tokens so far, of the user and of the model; `answers` are the model's."""

    tenant: bytes
    tokens: list[int] = field(default_factory=lambda: list(SYSTEM_PROMPT))
    answers: list[list[int]] = field(default_factory=list)


@dataclass(frozen=True)
class Turn:
    """What one answer took: tokens of the prompt, those of them that came from the cache."""

    prompt: int
    cached: int


class Server:
    """One turn at a time. Each is a sequence of its own: nothing is kept for a conversation between its turns."""

    def __init__(self, num_blocks: int, *, prefix_caching: bool = True) -> None:
        self.memory = np.zeros(num_blocks * BLOCK_SIZE, np.int64)  # one number a token; a slot is its index
        self.cache: KVCache = open_cache(
            self.memory.nbytes,
            BLOCK_SIZE,
            self.memory.itemsize,
            device="host",
            memory=self.memory.view(np.uint8),
            prefix_caching=prefix_caching,
        )
        self.next_id = 0
        self.computed = 0  # tokens that the model had to go through

    def answer(self, conversation: Conversation, question: Sequence[int], length: int) -> Turn:
        """Append a question to a conversation, then the model's answer of `length` tokens."""
        conversation.tokens += question
        prompt = list(conversation.tokens)
        seq_id, self.next_id = self.next_id, self.next_id + 1
        cached = self.cache.admit(seq_id, prompt, salt=conversation.tenant).cached_tokens
        self._compute(seq_id, conversation.tenant, prompt[cached:])  # the ids of a prompt are known: by count
        self.cache.commit([seq_id], [len(prompt)])  # its full blocks are findable from here on
        answer = [self._sample(seq_id)]
        while len(answer) < length:
            self._compute(seq_id, conversation.tenant, answer[-1:])
            # The engine tells the id with the commit, as one that samples on the device learns it: afterwards.
            self.cache.commit([seq_id], [len(prompt) + len(answer)], tokens=answer[-1:])
            answer.append(self._sample(seq_id))
        self.cache.free([seq_id])
        conversation.tokens += answer
        conversation.answers.append(answer)
        return Turn(len(prompt), cached)

    def _compute(self, seq_id: int, tenant: bytes, tokens: Sequence[int]) -> None:
        """The model's kernels: from what is stored of all tokens before, what is to be stored of these."""
        plan = self.cache.append([seq_id], [len(tokens)])
        state = self._last(seq_id, before=len(tokens))
        for slot, token in zip(plan.slots.tolist(), tokens, strict=True):
            state = self.memory[slot] = step(state, token, tenant)
        self.computed += len(tokens)

    def _sample(self, seq_id: int) -> int:
        return self._last(seq_id) % VOCABULARY

    def _last(self, seq_id: int, *, before: int = 0) -> int:
        """What is stored of the last token but `before`, read through the sequence's line of the block tables."""
        position = self.cache.seq_length(seq_id) - before - 1
        if position < 0:
            return 0
        block = self.cache.pool.tables.array[self.cache.row(seq_id), position // BLOCK_SIZE]
        return int(self.memory[int(block) * BLOCK_SIZE + position % BLOCK_SIZE])


def step(state: int, token: int, tenant: bytes) -> int:
    """The model: it depends on everything before, on the token and on the adapter of the tenant."""
    return (state * 48_271 + token * 7 + sum(tenant) + 1) % PRIME


def questions(turns: int) -> npt.NDArray[np.int64]:
    """What users ask: five tokens a turn, the same ones in each conversation of a tenant and across tenants."""
    return np.random.default_rng(3).integers(VOCABULARY, size=(turns, 5))


def chat(server: Server, turns: int, length: int) -> list[tuple[Conversation, list[Turn]]]:
    """Two conversations a tenant that ask the same, turn by turn in alternation."""
    talks: list[tuple[Conversation, list[Turn]]] = [(Conversation(tenant), []) for tenant in TENANTS for _ in range(2)]
    for question in questions(turns).tolist():
        for conversation, taken in talks:
            taken.append(server.answer(conversation, question, length))
    return talks


def main() -> None:
    """Chat, and print what was found and what had to be computed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=4, help="turns a conversation")
    parser.add_argument("--length", type=int, default=6, help="tokens of an answer")
    parser.add_argument("--blocks", type=int, default=256, help="blocks of the pool")
    options = parser.parse_args()
    server = Server(options.blocks)
    for number, (conversation, taken) in enumerate(chat(server, options.turns, options.length)):
        print(f"conversation {number}, {conversation.tenant.decode()}")
        for turn, answer in zip(taken, conversation.answers, strict=True):
            print(f"  {turn.prompt:4} prompt tokens, {turn.cached:4} cached   answer {' '.join(map(str, answer))}")
    server.cache.check()
    stats = server.cache.get_stats()
    print(f"{stats.hit_tokens} of {stats.queried_tokens} prompt tokens found, {server.computed} tokens computed")
    print(f"{stats.cached_blocks} blocks cached, {stats.evictions} evicted")
    print(f"{stats.free_blocks} of {stats.total_blocks} blocks free at the end")
    server.cache.close()


if __name__ == "__main__":
    main()
