"""Drawn loads: their statistics, what turns and system prompts share, closed loops, and reuse that is verified."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv.errors import InvalidArgumentError
from pagedkv.layout import OpaqueLayout
from pagedkv.simulate import (
    Conversations,
    Load,
    Lognormal,
    PoolSpec,
    Simulation,
    SyntheticLoad,
    Turns,
    Uniform,
    Workload,
)
from pagedkv.simulate.conversation_tokens import ConversationTokens

from .runs import simulate

SECOND = 10_000_000


def gaps(load: SyntheticLoad) -> np.ndarray[Any, np.dtype[np.float64]]:
    ticks = load.draw().arrival_ticks
    assert ticks is not None
    assert ticks[0] == 0
    return np.diff(ticks) / SECOND


@pytest.mark.parametrize(
    ("arrivals", "variation", "right"), [("poisson", 5.0, 1.0), ("gamma", 0.5, 0.5), ("gamma", 3.0, 3.0)]
)
def test_gaps_have_the_mean_and_variation_that_is_asked(arrivals: str, variation: float, right: float) -> None:
    found = gaps(SyntheticLoad(200_000, arrivals, rate=8.0, variation=variation))
    assert found.mean() == pytest.approx(1 / 8, rel=0.03)
    assert found.std() / found.mean() == pytest.approx(right, rel=0.03)


@pytest.mark.parametrize("variation", [0.0, 0.5, 1.5])
def test_lognormal_lengths(variation: float) -> None:
    drawn = Lognormal(512, variation).draw(np.random.default_rng(1), 200_000)
    assert drawn.mean() == pytest.approx(512, rel=0.02)
    assert drawn.std() == pytest.approx(512 * variation, rel=0.05, abs=0.5)
    assert drawn.min() >= 1
    assert Lognormal(2.0**30, 100).draw(np.random.default_rng(1), 1000).max() <= 2**31 - 1


def test_uniform_lengths_have_both_ends() -> None:
    assert set(Uniform(3, 5).draw(np.random.default_rng(1), 1000).tolist()) == {3, 4, 5}
    assert Uniform(7, 7).draw(np.random.default_rng(1), 3).tolist() == [7, 7, 7]


def test_pairs_of_lengths_are_resampled_together() -> None:
    source = Workload(np.array([10, 20, 30]), np.array([1, 2, 3]))
    drawn = SyntheticLoad(300, resampled=source).draw()
    assert set(drawn.prompt_tokens.tolist()) == {10, 20, 30}
    np.testing.assert_array_equal(drawn.prompt_tokens, 10 * drawn.output_tokens)


def test_a_seed_is_a_load_and_quantities_are_independent() -> None:
    first = SyntheticLoad(100, "poisson", lengths=(Uniform(1, 99), Uniform(1, 99)), seed=7).draw()
    again = SyntheticLoad(100, "poisson", lengths=(Uniform(1, 99), Uniform(1, 99)), seed=7).draw()
    other = SyntheticLoad(100, "gamma", lengths=(Uniform(1, 9), Uniform(1, 99)), seed=7).draw()
    np.testing.assert_array_equal(first.prompt_tokens, again.prompt_tokens)
    np.testing.assert_array_equal(first.arrival_ticks, again.arrival_ticks)
    np.testing.assert_array_equal(first.output_tokens, other.output_tokens)  # not moved by the other two
    assert not np.array_equal(
        first.prompt_tokens, SyntheticLoad(100, lengths=(Uniform(1, 99),) * 2, seed=8).draw().prompt_tokens
    )


@given(
    requests=st.integers(1, 40),
    turns=st.integers(1, 5),
    system=st.sampled_from([0, 9]),
    arrivals=st.sampled_from(["offline", "poisson", "gamma", "closed"]),
    gap=st.sampled_from([0.0, 3.0]),
)
def test_a_turn_holds_all_before_it(requests: int, turns: int, system: int, arrivals: str, gap: float) -> None:
    shared = Turns(turns, gap, system, 2)
    load = SyntheticLoad(requests, arrivals, lengths=(Uniform(1, 30), Uniform(1, 9)), turns=shared).draw()
    assert len(load) == requests
    known = load.conversations
    if known is None:
        assert turns == 1
        assert not system
        return
    sessions = -(-requests // turns)
    assert int((known.parent < 0).sum()) == sessions
    assert int((known.prefix >= 0).sum()) == (sessions if system else 0)
    for request, parent in enumerate(known.parent.tolist()):
        if parent >= 0:  # that a prompt is no shorter than its head, a workload checks itself
            assert load.prompt_tokens[request] > load.prompt_tokens[parent] + load.output_tokens[parent]
            assert load.arrival_ticks is None or load.arrival_ticks[request] >= load.arrival_ticks[parent]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"requests": 0}, "requests"),
        ({"requests": 10_000_001}, "requests"),
        ({"requests": True}, "requests"),
        ({"arrivals": "uniform"}, "arrivals"),
        ({"rate": 0.0}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"variation": 0.0}, "variation"),
        ({"variation": float("inf")}, "variation"),
        ({"seed": -1}, "seed"),
    ],
)
def test_values_that_make_no_load(options: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        SyntheticLoad(**{"requests": 5} | options)


def test_other_values_that_make_no_load() -> None:
    for make, word in (
        (lambda: Turns(turns=0), "turns"),
        (lambda: Turns(gap_s=-1.0), "gap"),
        (lambda: Turns(gap_s=float("nan")), "gap"),
        (lambda: Turns(system_tokens=-1), "system_tokens"),
        (lambda: Uniform(5, 4), "longest length"),
        (lambda: Lognormal(0.5, 1), "mean length"),
        (lambda: Lognormal(5, float("nan")), "variation"),
        (lambda: SyntheticLoad(4000, lengths=(Uniform(2**20, 2**20),) * 2, turns=Turns(4000)).draw(), "fewer turns"),
        (lambda: SyntheticLoad(10_000, "poisson", rate=1e-6, turns=Turns(10_000, 1e9)).draw(), "64 bits"),
    ):
        with pytest.raises(InvalidArgumentError, match=word):
            make()


def conversations(parent: list[int], prefix: list[int], tokens: list[int]) -> Conversations:
    return Conversations(*(np.array(values, dtype=np.int64) for values in (parent, prefix, tokens)))


def test_token_ids_of_a_conversation() -> None:
    known = conversations([-1, 0, -1], [0, -1, 0], [2, 0, 3])
    prompts, outputs = np.array([3, 7, 4]), np.array([2, 1, 1])
    tokens = ConversationTokens(4, known, prompts, outputs)
    # One prefix is 0; answers are 1 .. 3 and what requests add 4 .. 6.
    assert tokens.sequence(0, 3, 2).tolist() == [0, 0, 4, 1, 1]
    assert tokens.sequence(1, 7, 0).tolist() == [0, 0, 4, 1, 1, 5, 5]
    assert tokens.sequence(2, 4, 1).tolist() == [0, 0, 0, 6, 3]
    assert tokens.generated(np.array([2, 0])).tolist() == [3, 1]


def test_the_next_turn_finds_the_last_answer() -> None:
    """Blocks of 4: turn 1 stores 6 + 7 - 1 tokens, three full blocks; turn 2 asks with 13 + 3 and finds those three."""
    load = Workload(
        np.array([6, 16]), np.array([7, 2]), np.array([0, 100]), None, conversations([-1, 0], [-1, -1], [0, 0])
    )
    result, _ = simulate(8, 4, Load(load, step_ticks=1, prefix_caching=True))
    assert (result.figures["hit_tokens"], result.figures["queried_tokens"]) == (12, 22)
    assert result.verification is not None
    assert result.verification.wrong_tokens == 0
    assert not result.failures


@given(
    seed=st.integers(0, 1000),
    turns=st.integers(1, 4),
    system=st.sampled_from([0, 5, 16]),
    blocks=st.sampled_from([24, 60]),
    arrivals=st.sampled_from(["offline", "poisson", "closed"]),
    block_size=st.sampled_from([1, 3, 4]),
)
def test_every_byte_of_reused_answers_is_right(
    seed: int, turns: int, system: int, blocks: int, arrivals: str, block_size: int
) -> None:
    drawn = SyntheticLoad(
        12, arrivals, lengths=(Uniform(1, 9), Uniform(1, 6)), turns=Turns(turns, 0.2, system, 2), seed=seed
    ).draw()
    load = Load(
        drawn,
        step_ticks=None if drawn.arrival_ticks is None else SECOND // 10,
        closed=arrivals == "closed",
        concurrency=3,
        prefix_caching=True,
    )
    result, log = simulate(blocks, block_size, load)
    assert result.figures["completed"] == 12 - int(str(result.figures["rejected"]))
    assert [failure for failure in result.failures if failure != "no request completed"] == []
    assert all(len(step["running"]) <= 3 for step in log)


def test_a_closed_loop_keeps_its_level_and_a_user_waits_for_the_answer() -> None:
    load = Workload(
        np.array([4, 9, 4, 12, 4]),
        np.array([3, 1, 6, 1, 1]),
        None,
        None,
        conversations([-1, 0, -1, 2, -1], [-1] * 5, [0] * 5),
    )
    result, log = simulate(64, 4, Load(load, closed=True, concurrency=2, prefix_caching=True))
    assert [step["running"] for step in log] == [[0, 2], [0, 2], [0, 2], [2, 1], [2, 4], [2], [3]]
    assert (result.figures["completed"], result.figures["saturated_steps"]) == (5, 0)


def test_a_rejected_request_of_a_closed_loop_ends_at_once() -> None:
    load = Workload(np.array([4, 400, 4]), np.array([1, 1, 1]))
    result, _ = simulate(4, 4, Load(load, closed=True, concurrency=1))
    assert (result.figures["completed"], result.figures["rejected"]) == (2, 1)


def test_a_large_load_is_drawn_and_run() -> None:
    drawn = SyntheticLoad(
        2000, "gamma", rate=50, lengths=(Lognormal(200, 1), Lognormal(40, 1)), turns=Turns(4, 1.0, 64)
    ).draw()
    spec = PoolSpec(OpaqueLayout(512, 16), 2048)
    figures = Simulation(spec, Load(drawn, step_ticks=SECOND // 20, prefix_caching=True)).run().figures
    assert figures["completed"] == 2000
    rate = figures["token_hit_rate"]
    assert isinstance(rate, float)
    assert 0.2 < rate < 1
