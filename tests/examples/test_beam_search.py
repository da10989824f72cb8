"""The beam search example finds what a search on plain lists finds, in the blocks that sharing must come to."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from .loading import FOLDER, load

beam_search = load("beam_search")


def on_lists(prompt: list[int], width: int, tokens: int) -> list[Any]:
    """The same search without a cache: every beam is scored anew from its whole text."""
    beams = [beam_search.Beam((), 0.0)]
    for _ in range(tokens):
        following = [beam_search.scores(np.array([*prompt, *beam.tokens])) for beam in beams]
        beams = [beam for _, beam in beam_search.choose(beams, following, width)]
    return beams


@pytest.mark.parametrize("tokens", [1, 2, 9, 16])
@pytest.mark.parametrize("width", [1, 2, 5])
def test_the_beams_are_those_of_plain_lists(width: int, tokens: int) -> None:
    search = beam_search.Search(beam_search.PROMPTS, width)
    for _ in range(tokens - 1):
        search.step()
        search.cache.check()
    assert search.beams == [on_lists(prompt, width, tokens) for prompt in beam_search.PROMPTS]
    # Each beam's text but the last token is what its line of the tables leads to.
    for group, prompt, beams in zip(search.groups, beam_search.PROMPTS, search.beams, strict=True):
        for seq_id, beam in zip(group, beams, strict=True):
            if tokens > 1:
                assert search.read(seq_id).tolist() == [*prompt, *beam.tokens[:-1]]
    search.cache.close()


def test_prompts_are_stored_once() -> None:
    search = beam_search.Search(beam_search.PROMPTS, 4)
    stats = search.cache.get_stats()
    assert (stats.allocated_blocks, stats.logical_blocks, stats.cow_copies) == (3 + 2, 4 * 3 + 4 * 2, 0)
    search.step()
    # 11 tokens: a tail of 3, copied for all beams but one. 8 tokens: no tail, a new block for each beam.
    assert search.cache.get_stats().cow_copies == 3
    assert search.most_blocks_of_copies == 4 * 3 + 4 * 3
    assert search.cache.get_stats().peak_allocated_blocks == (2 + 4) + (2 + 4)
    search.cache.close()


def test_it_runs_as_a_program() -> None:
    command = [sys.executable, str(FOLDER / "beam_search.py"), "--width", "3", "--tokens", "5"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    for first, prompt in ((0, beam_search.PROMPTS[0]), (4, beam_search.PROMPTS[1])):
        assert lines[first].endswith(f"{len(prompt)} prompt tokens")
        shown = [[int(token) for token in line.split()[1:]] for line in lines[first + 1 : first + 4]]
        assert shown == [list(beam.tokens) for beam in on_lists(prompt, 3, 5)]
    # 11 + 4 and 8 + 4 tokens stored: three beams of 4 and three of 3 blocks, of which 2 and 2 are the prompts'.
    assert " blocks at most, 21 with full copies; " in lines[8]
    assert int(lines[8].split()[0]) <= (2 + 3 * 2) + (2 + 3 * 1)
    assert lines[9:] == ["256 of 256 blocks free at the end"]
    assert run.stderr == ""
