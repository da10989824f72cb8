"""Workloads: how many prompt and output tokens each request has and when it arrives.

A request (p, o) is measured in o steps and stores p .. p+o-1 tokens, so its greatest footprint is p+o-1.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate.conversations import Conversations
from pagedkv.simulate.identities import PromptIdentities

MOST_COMPLETIONS = 10_000_000  # the lengths are drawn up front; more would fill memory before the first step
BASE_CASE_MAX_SEQ_LEN = 256
BASE_CASE_PROMPT = (4, 32)
BASE_CASE_TOTAL = (32, 256)


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests in replay order; request i has the sequence id i.

    prompt_tokens, output_tokens: int64 [n], each from 1 to 2**31-1.
    arrival_ticks: int64 [n], not decreasing, 100 ns ticks since the first request; None: all are there at once.
    identities or conversations: what the prompts hold; neither: no two prompts have anything in common.
    Errors: InvalidArgumentError for other lengths or values. Keeps the arrays it is given; no stream.
    """

    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    arrival_ticks: NDArray[np.int64] | None = None
    identities: PromptIdentities | None = None
    conversations: Conversations | None = None

    def __post_init__(self) -> None:
        if len(self.prompt_tokens) != len(self.output_tokens):
            raise InvalidArgumentError(
                f"{len(self.prompt_tokens)} prompt lengths for {len(self.output_tokens)} output lengths; give one each"
            )
        for name, tokens in (("prompt_tokens", self.prompt_tokens), ("output_tokens", self.output_tokens)):
            if len(tokens) and not (int(tokens.min()) >= 1 and int(tokens.max()) <= INT32_MAX):
                raise InvalidArgumentError(f"{name} has a value outside 1 .. {INT32_MAX}; drop such rows first")
        if self.arrival_ticks is not None:
            self._check_arrivals(self.arrival_ticks)
        if self.identities is not None:
            self.identities.check(self.prompt_tokens)
        if self.conversations is not None:
            if self.identities is not None:
                raise InvalidArgumentError("identities and conversations both say what prompts hold; give one of them")
            self.conversations.check(self.prompt_tokens, self.output_tokens)

    def _check_arrivals(self, ticks: NDArray[np.int64]) -> None:
        if len(ticks) != len(self):
            raise InvalidArgumentError(f"{len(ticks)} arrival times for {len(self)} requests; give one each")
        if len(ticks) and (int(ticks[0]) < 0 or bool(np.any(ticks[1:] < ticks[:-1]))):
            raise InvalidArgumentError("arrival_ticks must start at 0 or later and never decrease; sort the requests")

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    def first(self, count: int) -> Workload:
        """Return the first `count` requests (all, if there are fewer) as views of these arrays."""
        count = whole_number(count, "limit", minimum=1)
        ticks = None if self.arrival_ticks is None else self.arrival_ticks[:count]
        identities = None if self.identities is None else self.identities.first(count)
        conversations = None if self.conversations is None else self.conversations.first(count)
        return Workload(self.prompt_tokens[:count], self.output_tokens[:count], ticks, identities, conversations)

    @property
    def tells_contents(self) -> bool:
        """Whether it is known what the prompts hold."""
        return self.identities is not None or self.conversations is not None


def base_case_requests(seed: int) -> Iterator[tuple[int, int]]:
    """Return endless (prompt, output): prompt = randint(4, 32), then total length = randint(32, 256), one generator.

    A sequence ends in the step in which it stores `total` tokens, so it is measured total - prompt + 1 times.
    Errors: InvalidArgumentError for a seed that is negative or no whole number.
    """
    return _draw(random.Random(whole_number(seed, "seed")))


def _draw(generator: random.Random) -> Iterator[tuple[int, int]]:
    while True:
        prompt = generator.randint(*BASE_CASE_PROMPT)
        total = generator.randint(*BASE_CASE_TOTAL)
        yield prompt, total - prompt + 1


def base_case(completions: int, seed: int) -> Workload:
    """Draw `completions` base-case requests up front; all are there at step 0.

    Errors: InvalidArgumentError for a count outside 1 .. 10,000,000 or a bad seed. Pure; no stream.
    """
    count = whole_number(completions, "completions", minimum=1, maximum=MOST_COMPLETIONS)
    drawn = np.fromiter(islice(base_case_requests(seed), count), dtype=np.dtype((np.int64, 2)), count=count)
    return Workload(np.ascontiguousarray(drawn[:, 0]), np.ascontiguousarray(drawn[:, 1]))
