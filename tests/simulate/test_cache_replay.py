"""The cache alone: exact values, the FAST'25 paper's Figure 9, and a plain least-recently-used list."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate import CacheReplay, Workload, read_trace

from .runs import assert_figures, workload

FILES = {"conversation": "conversation_trace.jsonl.gz", "synthetic": "synthetic_trace.jsonl"}
# Of the oracle's names: what a manager cannot know (hits behind a gap), and a mean over requests.
NOT_FIGURES = ("capacity_blocks", "touch", "any_hits", "any_block", "request_hit")


@cache
def read(traces: Path, name: str) -> Workload:
    return read_trace(traces / "mooncake-fast25" / FILES[name], strict=True).workload


def plain_lru(prompts: Sequence[Sequence[int]], capacity: int, *, root_first: bool = False) -> tuple[list[int], int]:
    """Leading ids that are there, a request, and the ids left; the last id of a prompt is touched first, or last."""
    known: OrderedDict[int, None] = OrderedDict()
    found = []
    for prompt in prompts:
        found.append(next((place for place, identity in enumerate(prompt) if identity not in known), len(prompt)))
        for identity in prompt if root_first else reversed(prompt):
            known[identity] = None
            known.move_to_end(identity)
            if len(known) > capacity:
                known.popitem(last=False)
    return found, len(known)


def lists(load: Workload) -> list[list[int]]:
    assert load.identities is not None
    return [load.identities.of(request).tolist() for request in range(len(load))]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("name", FILES)
def test_exact_values(oracle: dict[str, Any], traces: Path, name: str, place: int) -> None:
    right = oracle["prefix_lru"][name]
    row = [row for row in right["rows"] if row["touch"] == "leaf_first"][place]
    result = CacheReplay(read(traces, name), row["capacity_blocks"] or right["unique_blocks"]).run()
    assert_figures(result.figures, row, ignoring=NOT_FIGURES)
    assert result.figures["unique_blocks"] == right["unique_blocks"]
    stored, capacity = row["blocks"] - row["block_hits"], row["capacity_blocks"]
    assert result.figures["evictions"] == (0 if capacity is None else stored - capacity)
    assert not result.failures


def test_every_exact_value_is_compared(oracle: dict[str, Any]) -> None:
    for name in FILES:
        assert sum(row["touch"] == "leaf_first" for row in oracle["prefix_lru"][name]["rows"]) == 3


def test_figure_9_of_fast25(oracle: dict[str, Any], traces: Path) -> None:
    """The synthetic trace's curve within 0.003 at all ten points, and nowhere below it with the manager's own order.

    The paper counts its cache in tokens and evicts heads first; an id of this trace stands for 502 tokens in the mean.
    """
    load = read(traces, "synthetic")
    ids = lists(load)
    full = [int(tokens) // 512 for tokens in load.prompt_tokens]
    tokens_an_id = int(load.prompt_tokens.sum()) / sum(map(len, ids))
    for tokens, printed in oracle["mooncake_fast25_fig9_printed"]["Synthetic"]:
        capacity = round(tokens / tokens_an_id)
        heads_first, _ = plain_lru(ids, capacity, root_first=True)
        assert sum(map(min, heads_first, full)) / sum(full) == pytest.approx(printed, abs=0.003)
        ours = CacheReplay(load, capacity).run().figures["full_block_hit"]
        assert isinstance(ours, float)
        assert printed - 0.003 < ours < printed + 0.01


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_list_that_evicts_heads_first_is_exact(oracle: dict[str, Any], traces: Path, place: int) -> None:
    right = oracle["prefix_lru"]["synthetic"]
    row = [row for row in right["rows"] if row["touch"] == "root_first"][place]
    found, _ = plain_lru(
        lists(read(traces, "synthetic")), row["capacity_blocks"] or right["unique_blocks"], root_first=True
    )
    assert sum(found) == row["block_hits"]


@pytest.mark.parametrize("capacity", [195, 19_538])
def test_the_points_that_are_off_are_those_of_plain_lru(traces: Path, capacity: int) -> None:
    load = read(traces, "synthetic")
    found, left = plain_lru(lists(load), capacity)
    figures = CacheReplay(load, capacity).run().figures
    assert (figures["block_hits"], figures["cached_blocks"]) == (sum(found), left)


PROMPTS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=30)


def chained(prompts: list[list[int]]) -> list[list[int]]:
    """Identities as Mooncake makes them: one for a block and all before it."""
    numbers: dict[tuple[int, ...], int] = {}
    return [[numbers.setdefault(tuple(p[: i + 1]), len(numbers)) for i in range(len(p))] for p in prompts]


@given(prompts=PROMPTS, capacity=st.integers(1, 40), rest=st.integers(0, 3))
def test_hits_equal_those_of_a_plain_list(prompts: list[list[int]], capacity: int, rest: int) -> None:
    known = chained(prompts)
    lengths = [4 * len(prompt) - min(rest, 3) for prompt in known]
    load = workload([(0, length, 1) for length in lengths], known, 4)
    found, left = plain_lru(known, capacity)
    figures = CacheReplay(load, capacity).run().figures
    full = [length // 4 for length in lengths]
    assert figures["block_hits"] == sum(found)
    assert figures["full_block_hits"] == sum(map(min, found, full))
    assert figures["full_blocks"] == sum(full)
    assert figures["token_hits"] == sum(min(4 * hit, length) for hit, length in zip(found, lengths, strict=True))
    assert figures["computed_tokens"] == sum(lengths) - figures["token_hits"]
    assert figures["fully_cached_requests"] == sum(hit == len(p) for hit, p in zip(found, known, strict=True))
    assert figures["larger_than_pool"] == sum(len(p) > capacity for p in known)
    assert figures["cached_blocks"] == left


def test_stop_ends_it_with_the_figures_so_far() -> None:
    load = workload([(0, 4, 1)] * 10_000, [[0]] * 10_000, 4)
    replay: CacheReplay = CacheReplay(load, 8, on_progress=lambda done: replay.stop())
    result = replay.run()
    assert result.interrupted
    assert result.figures["requests"] == 10_000
    assert 0 < int(str(result.figures["completed"])) < 10_000
    assert result.figures["block_hits"] == int(str(result.figures["completed"])) - 1


def test_a_workload_without_identities_and_a_pool_without_blocks_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="does not say what its prompts hold"):
        CacheReplay(workload([(0, 4, 1)]), 8)
    one = Workload(np.ones(1, np.int64), np.ones(1, np.int64), identities=workload([(0, 1, 1)], [[0]]).identities)
    with pytest.raises(InvalidArgumentError):
        CacheReplay(one, 0)
