"""Beam search for two requests in one batch, on blocks that the beams share.

Run it: `python examples/beam_search.py`. No GPU and no framework: the "keys and values" of a token are its id, stored
in a host pool, and the "model" scores the next token by all that it reads back through the block tables. So a block
that is shared wrongly, or a copy that is not made, changes the text.

    admit, store the prompt -> fork the beams -> per step: append, write, score, choose, reorder -> free

Nothing is copied when beams fork or change places. A beam that writes into a block that others hold gets a copy of
that one block, made by the pool when the append's plan is applied.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pagedkv import KVCache, open_cache

VOCABULARY = 50
BLOCK_SIZE = 4
PROMPTS = ([5, 17, 3, 8, 30, 2, 41, 9, 12, 25, 6], [40, 1, 22, 13, 7, 19, 28, 33])


@dataclass(frozen=True)
class Beam:
    """One candidate: the tokens behind the prompt, and the sum of their log probabilities."""

    tokens: tuple[int, ...]
    score: float


class Search:
    """Requests that decode together. The beams of request r are sequences r x width to r x width + width - 1."""

    def __init__(self, prompts: Sequence[Sequence[int]], width: int, num_blocks: int = 256) -> None:
        self.memory = np.zeros(num_blocks * BLOCK_SIZE, np.int64)  # one number a token; a slot is its index
        self.cache: KVCache = open_cache(
            self.memory.nbytes, BLOCK_SIZE, self.memory.itemsize, device="host", memory=self.memory.view(np.uint8)
        )
        self.groups = [range(r * width, (r + 1) * width) for r in range(len(prompts))]
        self.everyone = [beam for group in self.groups for beam in group]
        self.most_blocks_of_copies = 0  # what beams without sharing would have held at most
        self.beams = [self._start(group, prompt) for group, prompt in zip(self.groups, prompts, strict=True)]
        self._count_copies()

    def _start(self, group: range, prompt: Sequence[int]) -> list[Beam]:
        """The prompt is stored once. The forks share its blocks and take none."""
        first = group[0]
        self.cache.register_sequence(first, prompt)
        self._write(self.cache.append([first], [len(prompt)]).slots, prompt)
        self.cache.fork(first, group[1:])
        return [beam for _, beam in choose([Beam((), 0.0)], [scores(self.read(first))], len(group))]

    def step(self) -> None:
        """Store each beam's last token, score what may follow, let the best ones take over. All requests at once."""
        tokens = [beam.tokens[-1] for beams in self.beams for beam in beams]
        plan = self.cache.append(self.everyone, [1] * len(tokens))  # copies blocks that are shared and written
        self._write(plan.slots, tokens)
        parents: list[int] = []
        for number, group in enumerate(self.groups):
            following = [scores(self.read(beam)) for beam in group]
            chosen = choose(self.beams[number], following, len(group))
            parents += [group.start + parent for parent, _ in chosen]  # places in this call's list of sequences
            self.beams[number] = [beam for _, beam in chosen]
        self._count_copies()
        self.cache.reorder(self.everyone, parents)

    def _count_copies(self) -> None:
        self.most_blocks_of_copies = max(self.most_blocks_of_copies, self.cache.get_stats().logical_blocks)

    def read(self, beam: int) -> npt.NDArray[np.int64]:
        """All that the model sees of a beam, through its line of the block tables, as an attention kernel reads it."""
        length = self.cache.seq_length(beam)
        blocks = self.cache.pool.tables.array[self.cache.row(beam), : -(-length // BLOCK_SIZE)]
        text: npt.NDArray[np.int64] = self.memory.reshape(-1, BLOCK_SIZE)[blocks].reshape(-1)[:length]
        return text

    def _write(self, slots: npt.NDArray[np.int64], tokens: Sequence[int]) -> None:
        """Where the model's kernels would store keys and values."""
        self.memory[slots] = tokens


def scores(text: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The model: log probabilities of the next token, a fixed function of all tokens before it."""
    raw = np.random.default_rng(text.tolist()).normal(scale=2.0, size=VOCABULARY)
    logarithms: npt.NDArray[np.float64] = raw - np.log(np.exp(raw).sum())
    return logarithms


def choose(beams: Sequence[Beam], following: Sequence[npt.NDArray[np.float64]], width: int) -> list[tuple[int, Beam]]:
    """The `width` best continuations, each with the place of the beam that it continues."""
    totals = np.concatenate([beam.score + row for beam, row in zip(beams, following, strict=True)])
    best = np.argsort(-totals, kind="stable")[:width].tolist()
    return [
        (place // VOCABULARY, Beam((*beams[place // VOCABULARY].tokens, place % VOCABULARY), float(totals[place])))
        for place in best
    ]


def main() -> None:
    """Search and print what was found, and what it took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--width", type=int, default=4, help=f"beams a request, 1 to {VOCABULARY}")
    parser.add_argument("--tokens", type=int, default=12, help="tokens to find for each beam, 1 or more")
    options = parser.parse_args()
    if not 1 <= options.width <= VOCABULARY or options.tokens < 1:
        parser.error(f"give a width of 1 to {VOCABULARY} and at least 1 token")
    search = Search(PROMPTS, options.width)
    for _ in range(options.tokens - 1):
        search.step()
    for number, beams in enumerate(search.beams):
        print(f"request {number}, {len(PROMPTS[number])} prompt tokens")
        for beam in beams:
            print(f"  {beam.score:8.3f}  {' '.join(map(str, beam.tokens))}")
    stats = search.cache.get_stats()
    print(
        f"{stats.peak_allocated_blocks} blocks at most, {search.most_blocks_of_copies} with full copies; "
        f"{stats.cow_copies} blocks copied on write"
    )
    search.cache.free(search.everyone)
    search.cache.check()
    print(f"{search.cache.get_stats().free_blocks} of {stats.total_blocks} blocks free at the end")
    search.cache.close()


if __name__ == "__main__":
    main()
