"""Parallel sampling: n texts behind one stored prompt, each what its seed alone would have drawn."""

from __future__ import annotations

import pytest

from .decoders import parallel_samples
from .faulty_pools import CopylessPool
from .full_copies import FullCopies, Usage
from .language_model import VOCABULARY, ToyModel
from .paged_store import PagedStore

MODEL = ToyModel()
SEEDS = [11, 12, 13, 14, 15]
STEPS = 10


def prompt(length: int) -> list[int]:
    return [(7 * position + position // 5) % VOCABULARY for position in range(length)]


@pytest.mark.parametrize("length", [32, 37])
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_samples_equal_those_of_full_copies_and_of_their_seeds_alone(block_size: int, length: int) -> None:
    full, paged = FullCopies(block_size), PagedStore(block_size)
    texts = parallel_samples(MODEL, paged, prompt(length), SEEDS, STEPS)
    assert texts == parallel_samples(MODEL, full, prompt(length), SEEDS, STEPS)
    assert paged.history == full.history
    assert paged.peak_bytes < full.peak_bytes
    alone = [parallel_samples(MODEL, FullCopies(block_size), prompt(length), [seed], STEPS)[0] for seed in SEEDS]
    assert texts == alone
    assert len({text.tokens for text in texts}) == len(SEEDS)


@pytest.mark.parametrize(("length", "copies"), [(32, 0), (37, 4)])
def test_the_full_blocks_of_the_prompt_are_saved_for_all_but_one(length: int, copies: int) -> None:
    """B=4, five samples, 9 tokens stored behind the prompt: from the prompt's tail on, blocks have one holder."""
    paged = PagedStore(4)
    parallel_samples(MODEL, paged, prompt(length), SEEDS, STEPS)
    blocks, full = -(-(length + 9) // 4), length // 4
    assert paged.history[-1] == Usage(logical=5 * blocks, physical=5 * blocks - 4 * full, copies=copies)
    assert paged.cache.get_stats().saved_blocks == 4 * full


def test_samples_end_in_any_order() -> None:
    paged = PagedStore(4)
    parallel_samples(MODEL, paged, prompt(37), SEEDS, STEPS)
    held = [paged.read(seq_id).tolist() for seq_id in range(5)]
    for gone, ids in (([0], [1, 2, 3, 4]), ([3, 1], [2, 4]), ([4], [2])):
        paged.free(gone)
        assert [paged.read(seq_id).tolist() for seq_id in ids] == [held[seq_id] for seq_id in ids]
    assert paged.history[-1] == Usage(logical=12, physical=12, copies=4)
    paged.free([2])
    assert paged.history[-1].physical == 0


def test_copies_that_are_not_carried_out_are_found() -> None:
    expected = parallel_samples(MODEL, FullCopies(4), prompt(37), SEEDS, STEPS)
    assert parallel_samples(MODEL, PagedStore(4, pool_type=CopylessPool), prompt(37), SEEDS, STEPS) != expected
