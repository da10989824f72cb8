"""Ways to decode that share: beam search, parallel sampling, speculative branches. They know no block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .full_copies import Store
from .language_model import VOCABULARY, ToyModel, Vector


@dataclass(frozen=True, slots=True)
class Text:
    """The tokens behind a prompt, and their scores' sum, bit for bit."""

    tokens: tuple[int, ...]
    score: float


def prefill(model: ToyModel, store: Store, seq_id: int, prompt: Sequence[int]) -> Vector:
    """Store a prompt; the scores behind its last token."""
    store.begin(seq_id)
    for token in prompt:
        step = model.step(store.read(seq_id), token)
        store.append([seq_id], step.stored[None])
    return step.scores


def advance(model: ToyModel, store: Store, seq_ids: Sequence[int], tokens: Sequence[int]) -> list[Vector]:
    """One step of a batch: each sequence stores its token; the scores behind it."""
    steps = [model.step(store.read(seq_id), token) for seq_id, token in zip(seq_ids, tokens, strict=True)]
    store.append(seq_ids, np.stack([step.stored for step in steps]))
    return [step.scores for step in steps]


def beam_search(
    model: ToyModel, store: Store, prompts: Sequence[Sequence[int]], width: int, steps: int
) -> list[list[Text]]:
    """The `width` best texts of each prompt, all prompts in one batch: one append and one reorder a step."""
    groups = [range(number * width, (number + 1) * width) for number in range(len(prompts))]
    beams = []
    for group, prompt in zip(groups, prompts, strict=True):
        scores = prefill(model, store, group[0], prompt)
        store.fork(group[0], group[1:])
        beams.append([beam for _, beam in _best([Text((), 0.0)], [scores], width)])
    everyone = [seq_id for group in groups for seq_id in group]
    for _ in range(steps - 1):
        scores_of = advance(model, store, everyone, [beam.tokens[-1] for group in beams for beam in group])
        parents: list[int] = []
        for number, group in enumerate(groups):
            chosen = _best(beams[number], scores_of[group.start : group.stop], width)
            parents += [group.start + parent for parent, _ in chosen]
            beams[number] = [beam for _, beam in chosen]
        store.reorder(everyone, parents)
    return beams


def _best(beams: Sequence[Text], scores: Sequence[Vector], width: int) -> list[tuple[int, Text]]:
    """(parent, its text with one more token), best first; of equal ones the lower beam and token."""
    totals = np.concatenate([beam.score + row for beam, row in zip(beams, scores, strict=True)])
    chosen = np.argsort(-totals, kind="stable")[:width].tolist()
    return [
        (index // VOCABULARY, Text((*beams[index // VOCABULARY].tokens, index % VOCABULARY), float(totals[index])))
        for index in chosen
    ]


def parallel_samples(
    model: ToyModel, store: Store, prompt: Sequence[int], seeds: Sequence[int], steps: int
) -> list[Text]:
    """One text a seed, each drawn by a generator of its own; sequence i is sample i."""
    scores = [prefill(model, store, 0, prompt)] * len(seeds)
    store.fork(0, range(1, len(seeds)))
    generators = [np.random.default_rng(seed) for seed in seeds]
    texts = [Text((), 0.0)] * len(seeds)
    for step in range(steps):
        drawn = [int(g.choice(VOCABULARY, p=np.exp(s))) for g, s in zip(generators, scores, strict=True)]
        texts = [
            Text((*text.tokens, token), text.score + float(row[token]))
            for text, token, row in zip(texts, drawn, scores, strict=True)
        ]
        if step < steps - 1:
            scores = advance(model, store, range(len(seeds)), drawn)
    return texts


def best_branches(
    model: ToyModel, store: Store, prompt: Sequence[int], *, branches: int, depth: int, rounds: int
) -> Text:
    """A text grown by rounds: fork branches, grow each greedily from another token, keep the best, free the others."""
    scores = prefill(model, store, 0, prompt)
    kept, text = 0, Text((), 0.0)
    for round_ in range(1, rounds + 1):
        ids = [round_ * branches + number for number in range(branches)]
        store.fork(kept, ids)
        store.free([kept])  # the parent may go first
        grown, behind = [beam for _, beam in _best([text], [scores], branches)], [scores] * branches
        for step in range(depth):
            behind = advance(model, store, ids, [branch.tokens[-1] for branch in grown])
            if step < depth - 1:
                grown = [_best([branch], [row], 1)[0][1] for branch, row in zip(grown, behind, strict=True)]
        winner = max(range(branches), key=lambda number: grown[number].score)
        store.free([seq_id for number, seq_id in enumerate(ids) if number != winner])
        kept, text, scores = ids[winner], grown[winner], behind[winner]
    return text
