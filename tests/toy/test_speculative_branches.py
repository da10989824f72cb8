"""Speculative branches: fork, grow, keep one, free the others; and drafts that are cut off while they are shared."""

from __future__ import annotations

import pytest

from .decoders import advance, best_branches, prefill
from .faulty_pools import CopylessPool
from .full_copies import FullCopies, Store, Usage
from .language_model import VOCABULARY, ToyModel
from .paged_store import PagedStore

MODEL = ToyModel()
SHAPE = {"branches": 4, "depth": 3, "rounds": 5}


def prompt(length: int) -> list[int]:
    return [(2 + 3 * position * position) % VOCABULARY for position in range(length)]


@pytest.mark.parametrize("length", [32, 34])
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_the_kept_branch_equals_that_of_full_copies(block_size: int, length: int) -> None:
    full, paged = FullCopies(block_size), PagedStore(block_size)
    text = best_branches(MODEL, paged, prompt(length), **SHAPE)
    assert text == best_branches(MODEL, full, prompt(length), **SHAPE)
    assert len(text.tokens) == 15
    assert paged.history == full.history
    assert paged.peak_bytes < full.peak_bytes
    alone = -(-(length + 15) // block_size)
    assert (paged.history[-1].logical, paged.history[-1].physical) == (alone, alone), "nothing of the others is left"


def test_a_round_takes_the_branches_own_blocks_only() -> None:
    """B=4, 34 tokens, 4 branches of 3 tokens: 3 copies of the tail and 4 new blocks; 5 are left of one branch."""
    paged = PagedStore(4)
    best_branches(MODEL, paged, prompt(34), branches=4, depth=3, rounds=1)
    assert paged.history[-5:] == [
        Usage(logical=36, physical=9, copies=0),  # the parent is gone, its 9 blocks have 4 holders
        Usage(logical=36, physical=12, copies=3),
        Usage(logical=36, physical=12, copies=3),
        Usage(logical=40, physical=16, copies=3),
        Usage(logical=10, physical=10, copies=3),
    ]


def rejected_drafts(store: Store, length: int) -> list[bytes]:
    """Two branches share a draft, each rejects another part of it, both go on, and the draft's own sequence too."""
    prefill(MODEL, store, 0, prompt(length))
    for token in (5, 6, 7, 8, 9, 10):
        advance(MODEL, store, [0], [token])
    store.fork(0, [1, 2])
    store.truncate(1, length + 1)
    store.truncate(2, length + 4)
    for tokens in ((1, 2, 3), (4, 5, 6), (7, 8, 9)):
        advance(MODEL, store, [0, 1, 2], tokens)
    return [store.read(seq_id).tobytes() for seq_id in range(3)]


@pytest.mark.parametrize("length", [32, 34, 35])
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_rejected_drafts_stay_with_those_who_keep_them(block_size: int, length: int) -> None:
    paged = PagedStore(block_size)
    assert rejected_drafts(paged, length) == rejected_drafts(FullCopies(block_size), length)


def test_copies_that_are_not_carried_out_are_found() -> None:
    expected = best_branches(MODEL, FullCopies(4), prompt(34), **SHAPE)
    assert best_branches(MODEL, PagedStore(4, pool_type=CopylessPool), prompt(34), **SHAPE) != expected
    assert rejected_drafts(PagedStore(4, pool_type=CopylessPool), 34) != rejected_drafts(FullCopies(4), 34)
