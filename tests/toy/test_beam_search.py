"""Beam search: tokens and scores of full copies, bit for bit, in less memory, by exactly what sharing must save."""

from __future__ import annotations

import pytest

from pagedkv import DevicePool

from .decoders import beam_search
from .faulty_pools import CopylessPool, StaleTablesPool
from .full_copies import TOKEN_BYTES, FullCopies, Usage
from .language_model import VOCABULARY, ToyModel
from .paged_store import PagedStore

MODEL = ToyModel()
STEPS = 12


def prompt(length: int, start: int = 3) -> list[int]:
    return [(start + 5 * position * position) % VOCABULARY for position in range(length)]


@pytest.mark.parametrize("length", [16, 48, 53])
@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("width", [2, 4, 7])
def test_beams_equal_those_of_full_copies(width: int, block_size: int, length: int) -> None:
    full, paged = FullCopies(block_size), PagedStore(block_size)
    expected = beam_search(MODEL, full, [prompt(length)], width, STEPS)
    assert beam_search(MODEL, paged, [prompt(length)], width, STEPS) == expected
    assert len({beam.tokens for beam in expected[0]}) == width
    assert paged.history == full.history, "blocks and copies after every call"
    assert paged.peak_bytes < full.peak_bytes
    assert paged.peak_bytes <= bound(width, block_size, length)
    paged.free(range(width))
    assert paged.history[-1].physical == 0


def bound(width: int, block_size: int, length: int) -> int:
    """The full blocks of the prompt once, everything behind them for each beam."""
    shared = length // block_size
    stored = length + STEPS - 1  # the last token of a text is chosen, never stored
    return (shared + width * (-(-stored // block_size) - shared)) * block_size * TOKEN_BYTES


def test_a_prompt_of_48_tokens_is_stored_once_for_7_beams() -> None:
    """B=4: 12 blocks for the prompt. Full copies end with 7 x 15 blocks; beams have 3 each of their own at most."""
    paged = PagedStore(4)
    beam_search(MODEL, paged, [prompt(48)], 7, STEPS)
    begun, forked = paged.history[48], paged.history[49]
    assert (begun.physical, forked) == (12, Usage(logical=84, physical=12, copies=0))
    assert paged.history[-1].logical == 7 * 15
    assert 15 < paged.history[-1].physical <= 12 + 7 * 3
    assert paged.cache.get_stats().peak_allocated_blocks <= 33
    assert paged.peak_bytes * 3 < 7 * 59 * TOKEN_BYTES


def test_a_step_costs_nothing_of_the_prompt() -> None:
    """Beams with long prompts copy as many blocks as beams with short ones: at most one a beam and step."""
    for length in (16, 320):
        paged = PagedStore(16)
        beam_search(MODEL, paged, [prompt(length)], 4, STEPS)
        assert 0 < paged.history[-1].copies <= 3 * (STEPS - 1)


@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_two_requests_in_one_batch_are_what_each_is_alone(block_size: int) -> None:
    prompts = [prompt(19), prompt(32, start=8)]
    paged = PagedStore(block_size)
    together = beam_search(MODEL, paged, prompts, 4, STEPS)
    assert together == [beam_search(MODEL, FullCopies(block_size), [one], 4, STEPS)[0] for one in prompts]
    assert together[0] != together[1]
    full = FullCopies(block_size)
    beam_search(MODEL, full, prompts, 4, STEPS)
    assert paged.history == full.history


@pytest.mark.parametrize("pool_type", [CopylessPool, StaleTablesPool])
@pytest.mark.parametrize(("block_size", "length"), [(4, 16), (4, 53), (16, 48), (16, 53)])
def test_a_pool_that_does_not_carry_out_its_plans_is_found(
    pool_type: type[DevicePool], block_size: int, length: int
) -> None:
    expected = beam_search(MODEL, FullCopies(block_size), [prompt(length)], 4, STEPS)
    assert beam_search(MODEL, PagedStore(block_size, pool_type=pool_type), [prompt(length)], 4, STEPS) != expected
