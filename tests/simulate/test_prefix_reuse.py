"""Runs with prefix caching: what is found, what token ids say, and bytes of blocks that others wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pagedkv.arguments import INT32_MAX
from pagedkv.errors import InvalidArgumentError
from pagedkv.layout import OpaqueLayout
from pagedkv.manager import KVCacheManager
from pagedkv.pool import DevicePool
from pagedkv.simulate import Groups, Load, PoolSpec, Simulation, base_case, read_trace
from pagedkv.simulate.identities import PromptIdentities, join_identities
from pagedkv.simulate.observer import Observer
from pagedkv.simulate.prompt_histories import PromptHistories
from pagedkv.simulate.prompt_tokens import PromptTokens
from pagedkv.simulate.verify import ByteVerifier

from .runs import simulate, workload

# Three prompts of 20 tokens, 8 an identity: the second has the first's first 16, the third its first 8 only.
PROMPTS = [[1, 2, 3], [1, 2, 4], [1, 5, 3]]


def run(block_size: int, requests: list[tuple[int, int, int]] | None = None, **options: Any) -> dict[str, Any]:
    rows = requests or [(0, 20, 1), (1, 20, 1), (2, 20, 1)]
    load = Load(workload(rows, PROMPTS, 8), step_ticks=1, prefix_caching=True, **options)
    result, _ = simulate(96 // block_size, block_size, load)
    assert not result.failures
    return dict(result.figures)


@pytest.mark.parametrize("block_size", [1, 2, 4, 8])
def test_every_block_size_that_divides_an_identity_finds_the_same_tokens(block_size: int) -> None:
    figures = run(block_size)
    assert (figures["queried_tokens"], figures["hit_tokens"], figures["computed_tokens"]) == (60, 24, 36)
    assert figures["hit_blocks"] == 24 // block_size
    assert figures["queried_blocks"] == 3 * (20 // block_size)
    assert figures["total_token_allocs"] == 36
    assert figures["revived_blocks"] == 24 // block_size  # each has ended when the next one comes
    assert figures["peak_saved_blocks"] == 0
    assert figures["evictions"] == 0


def test_requests_of_one_step_find_what_those_before_them_stored() -> None:
    figures = run(4, [(0, 20, 3)] * 3)
    assert (figures["hit_tokens"], figures["revived_blocks"]) == (24, 0)
    assert figures["peak_running"] == 3
    assert figures["peak_saved_blocks"] == 6
    assert figures["peak_blocks"] == 3 * 6 - 6


def test_a_prompt_that_is_all_there_has_its_last_token_computed() -> None:
    load = Load(workload([(0, 16, 1), (1, 16, 1)], [[1, 2], [1, 2]], 8), step_ticks=1, prefix_caching=True)
    result, _ = simulate(12, 4, load)
    assert (result.figures["hit_tokens"], result.figures["queried_tokens"]) == (12, 32)


def test_what_is_generated_is_nobody_elses() -> None:
    """Both store 8 + 8 tokens; the second block of 8 is of the first request's own, though its neighbors are equal."""
    load = Load(workload([(0, 8, 9), (20, 16, 1)], [[1], [1, 2]], 8), step_ticks=1, prefix_caching=True)
    result, _ = simulate(8, 8, load)
    assert result.figures["hit_tokens"] == 8


def test_a_preempted_request_finds_its_own_tokens() -> None:
    requests = [(0, 8, 12), (0, 8, 12)]
    plain, _ = simulate(8, 4, Load(workload(requests)))
    reused, log = simulate(8, 4, Load(workload(requests), prefix_caching=True))
    assert plain.figures["preemptions"] == reused.figures["preemptions"] == 1
    assert plain.figures["recomputed_tokens"] == 16
    hit = reused.figures["hit_tokens"]
    assert isinstance(hit, int)
    assert hit > 0
    assert reused.figures["recomputed_tokens"] == 16 - hit
    assert max(step["evictions"] for step in log) == reused.figures["evictions"]


def test_without_prefix_caching_nothing_is_looked_up() -> None:
    result, _ = simulate(24, 4, Load(workload([(0, 20, 1)] * 3, PROMPTS, 8)))
    names = ("queried_tokens", "hit_tokens", "queried_blocks", "hit_blocks", "revived_blocks", "evictions")
    assert [result.figures[name] for name in names] == [0] * 6
    assert (result.figures["token_hit_rate"], result.figures["block_hit_rate"]) == (None, None)


def test_the_base_case_is_the_same_with_prefix_caching_where_nothing_is_preempted() -> None:
    def figures(*, caching: bool) -> dict[str, Any]:
        load = Load(base_case(100, 42), concurrency=8, max_seq_len=256, prefix_caching=caching)
        result = Simulation(PoolSpec(OpaqueLayout(24, 16), 4096), load, device="host", verify=True).run()
        assert not result.failures
        return dict(result.figures)

    plain, caching = figures(caching=False), figures(caching=True)
    assert {name for name in plain if plain[name] != caching[name]} == {
        *("queried_tokens", "computed_tokens", "token_hit_rate"),
        *("queried_blocks", "block_hit_rate", "cached_blocks"),
    }


def test_the_start_of_a_real_trace_with_every_byte(traces: Path) -> None:
    trace = read_trace(traces / "mooncake-fast25" / "conversation_trace.jsonl.gz").workload.first(60)
    load = Load(trace, step_ticks=500_000, prefix_caching=True)
    result = Simulation(PoolSpec(OpaqueLayout(16, 128), 250), load, device="host", verify=True).run()
    assert not result.failures
    assert result.verification is not None
    assert result.verification.wrong_tokens == 0
    figures = result.figures
    assert int(str(figures["hit_tokens"])) > 0
    assert int(str(figures["evictions"])) > 0


@pytest.mark.parametrize("block_size", [3, 5, 16, 24])
def test_blocks_that_do_not_divide_an_identity_are_refused(block_size: int) -> None:
    load = Load(workload([(0, 20, 1)] * 3, PROMPTS, 8), prefix_caching=True)
    with pytest.raises(InvalidArgumentError, match=f"block_size is {block_size}.* divides 8"):
        Simulation(PoolSpec(OpaqueLayout(24, block_size), 96), load)


@pytest.mark.parametrize("groups", [Groups(samples=2), Groups(beam_width=2)])
def test_groups_are_refused(groups: Groups) -> None:
    with pytest.raises(InvalidArgumentError, match="prefix_caching with groups of 2"):
        Load(workload([(0, 20, 1)]), groups=groups, prefix_caching=True)


def test_more_contents_than_token_ids_are_refused() -> None:
    last = INT32_MAX // 512
    most = PromptIdentities(np.array([last - 1], dtype=np.int32), np.array([0, 1], dtype=np.int64), 512)
    assert PromptTokens(1, most).sequence(0, 512, 1).tolist() == [*range((last - 1) * 512, last * 512), last * 512]
    more = PromptIdentities(np.array([last], dtype=np.int32), np.array([0, 1], dtype=np.int64), 512)
    with pytest.raises(InvalidArgumentError, match="larger blocks"):
        PromptTokens(1, more)
    assert len(PromptTokens(2, more).sequence(0, 100, 0)) == 100


def test_token_ids() -> None:
    tokens = PromptTokens(2, join_identities([[7, 9], [9]], 4))
    assert tokens.sequence(0, 7, 2).tolist() == [0, 0, 1, 1, 2, 2, 3, 4, 4]
    assert tokens.sequence(1, 3, 1).tolist() == [2, 2, 3, 5]
    assert tokens.generated(np.array([1, 0])).tolist() == [5, 4]
    assert PromptTokens(2).sequence(3, 2, 1).tolist() == [3, 3, 3]


class DamageTheFirstToken(Observer):
    """At step 1, overwrites the first token that the oldest running sequence holds."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation

    def measured(self, scheduler: Any) -> None:
        if scheduler.step == 1:
            slot = self.simulation.manager.slot_mapping(scheduler.running.ids[:1])[:1]
            self.simulation.pool.fill_tokens(10**6, [0], slot)


def test_a_damaged_block_is_wrong_in_every_request_that_finds_it() -> None:
    requests = [(0, 20, 3), (0, 20, 3), (9, 20, 1)]  # the last one takes it from the cache
    load = Load(workload(requests, PROMPTS, 8), step_ticks=1, prefix_caching=True)
    simulation = Simulation(PoolSpec(OpaqueLayout(24, 4), 24), load, device="host", verify=True)
    simulation.scheduler.observers.append(DamageTheFirstToken(simulation))
    result = simulation.run()
    assert result.verification is not None
    assert result.verification.wrong_tokens == 3
    assert result.verification.wrong_sequences == (0, 1, 2)


def test_a_block_that_holds_another_prompt_is_wrong() -> None:
    """The manager is told that the second prompt is the first, and hands out its blocks; the bytes tell."""
    tokens = PromptTokens(4, join_identities([[1, 2], [1, 3]], 8))
    manager = KVCacheManager(16, 4, prefix_caching=True)
    with DevicePool(OpaqueLayout(24, 4), 16, device="host") as pool:
        verifier = ByteVerifier(manager, pool, PromptHistories(tokens, [16, 16], [0, 0]))
        for request in (0, 1):
            cached = manager.admit(request, tokens.sequence(0, 16, 0)).cached_tokens
            ids, counts = np.array([request]), np.array([16 - cached], dtype=np.int32)
            plan = manager.append(ids, counts)
            verifier.appended(plan, ids, counts)
            manager.commit(ids, plan.lengths)
        verifier.ending([0, 1])
    assert cached == 12
    assert verifier.result().wrong_tokens == 4  # tokens 8 to 11; the last four it wrote itself
    assert verifier.result().wrong_sequences == (1,)
