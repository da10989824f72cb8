"""Byte verification finds what it is for, and positions are counted right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.layout import OpaqueLayout
from pagedkv.simulate import Groups, Load, PoolSpec, Simulation, base_case, choose_device
from pagedkv.simulate.observer import Observer
from pagedkv.simulate.verify import positions_of

from .runs import workload


class DamageOneToken(Observer):
    """At step 20, overwrites the first token of the oldest sequence, as a wrong slot of another would."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.victim = -1

    def measured(self, scheduler: Any) -> None:
        if scheduler.step == 20:
            self.victim = int(scheduler.running.ids[0])
            slot = self.simulation.manager.slot_mapping([self.victim])[:1]
            self.simulation.pool.fill_tokens(10**6, [0], slot)


def test_one_overwritten_token_fails_the_run() -> None:
    simulation = Simulation(
        PoolSpec(OpaqueLayout(24, 16), 4096), Load(base_case(20, 42), concurrency=4), device="host", verify=True
    )
    damage = DamageOneToken(simulation)
    simulation.scheduler.observers.append(damage)
    result = simulation.run()
    assert result.verification is not None
    assert result.verification.wrong_tokens == 1
    assert result.verification.wrong_sequences == (damage.victim,)
    assert result.failures == ("1 tokens did not hold the bytes written for them",)


@pytest.mark.parametrize(
    "groups", [Groups(samples=3), Groups(beam_width=3, beam_survival=0.7)], ids=["samples", "beams"]
)
def test_one_overwritten_prompt_token_is_wrong_in_every_sequence_that_shares_it(groups: Groups) -> None:
    load = Load(workload([(0, 40, 30)] * 2), groups=groups)
    simulation = Simulation(PoolSpec(OpaqueLayout(24, 16), 64), load, device="host", verify=True)
    simulation.scheduler.observers.append(DamageOneToken(simulation))
    result = simulation.run()
    assert result.verification is not None
    assert result.verification.wrong_tokens == 3
    assert result.verification.wrong_sequences == (0, 1, 2)
    assert result.verification.sequences == 6


def test_sequences_alive_at_the_end_are_compared_too() -> None:
    load = Load(None, concurrency=8, completions=10)
    result = Simulation(PoolSpec(OpaqueLayout(24, 16), 4096), load, device="host", verify=True).run()
    assert result.verification is not None
    assert result.verification.sequences == result.figures["requests"]


@pytest.mark.parametrize(
    ("lengths", "counts", "positions"),
    [
        ([5], [5], [0, 1, 2, 3, 4]),
        ([5, 9], [1, 2], [4, 7, 8]),
        ([3, 7, 2], [0, 1, 2], [6, 0, 1]),
        ([], [], []),
    ],
)
def test_positions_of(lengths: list[int], counts: list[int], positions: list[int]) -> None:
    found = positions_of(np.array(lengths, dtype=np.int32), np.array(counts, dtype=np.int32))
    assert found.tolist() == positions


def test_auto_is_host_with_verification_and_null_without() -> None:
    def choose(verify: bool | None, *, by_default: bool, pool_bytes: int = 1) -> tuple[str, bool]:
        choice = choose_device("auto", verify, verify_by_default=by_default, pool_bytes=pool_bytes)
        return choice.device, choice.verify

    assert choose(None, by_default=True) == ("host", True)
    assert choose(None, by_default=False) == ("null", False)
    assert choose(True, by_default=False) == ("host", True)
    assert choose(False, by_default=True) == ("null", False)
    assert choose(None, by_default=True, pool_bytes=2**60) == ("null", False)  # planning a pool no laptop holds


def test_a_named_device_is_taken_as_named() -> None:
    choice = choose_device("host", None, verify_by_default=False, pool_bytes=1)
    assert (choice.device, choice.verify) == ("host", False)
    choice = choose_device("null", None, verify_by_default=True, pool_bytes=1)
    assert (choice.device, choice.verify) == ("null", False)


def test_verification_on_null_and_unknown_devices_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="needs bytes"):
        choose_device("null", True, verify_by_default=True, pool_bytes=1)
    with pytest.raises(InvalidArgumentError, match="'tpu'"):
        choose_device("tpu", None, verify_by_default=True, pool_bytes=1)
    with pytest.raises(BackendError, match="cuda:99"):
        choose_device("cuda:99", None, verify_by_default=True, pool_bytes=1)
