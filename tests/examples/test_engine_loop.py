"""The engine's step loop: nothing lost, nothing leaked, every token what an undisturbed run would have given."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .loading import FOLDER, load

engine_loop = load("engine_loop")


@pytest.mark.parametrize("device", ["null", "host"])
@pytest.mark.parametrize(("num_blocks", "block_size"), [(24, 8), (14, 8), (13, 8), (40, 4), (110, 1), (8, 16)])
def test_conservation_at_the_end(num_blocks: int, block_size: int, device: str) -> None:
    requests = engine_loop.make_requests(30)
    everyone = list(requests)
    engine = engine_loop.make_engine(requests, num_blocks=num_blocks, block_size=block_size, device=device)
    with engine.pool:
        while engine.waiting or engine.running or engine.in_flight:
            engine.turn()
            engine.manager.check()
            assert engine.summary.steps < 5000, "the loop makes no progress"
    stats = engine.manager.get_stats()
    assert (stats.free_blocks, stats.pending_blocks, stats.active_sequences) == (num_blocks, 0, 0)
    assert engine.summary.completed == len(everyone)
    assert engine.summary.wrong_tokens == 0
    for request in everyone:
        expected = [engine_loop.true_token(request.request_id, position) for position in range(request.target)]
        assert request.tokens == expected


def test_the_example_shows_all_that_it_promises() -> None:
    engine = engine_loop.make_engine(engine_loop.make_requests(40))
    with engine.pool:
        summary = engine.run()
    assert summary.preemptions > 0
    assert summary.prefill_chunks > summary.completed + summary.preemptions, "some prompts took several chunks"
    assert 0 < summary.drafts_accepted < summary.drafts
    assert engine.manager.get_stats().peak_allocated_blocks > 0.9 * 24


def test_step_by_step_the_device_knows_every_table() -> None:
    """The tables that kernels read are made of the plans' updates alone."""
    engine = engine_loop.make_engine(engine_loop.make_requests(12), device="host")
    manager = engine.manager
    with engine.pool:
        while engine.waiting or engine.running or engine.in_flight:
            engine.turn()
            named = {work.request.request_id for work in (engine.in_flight or (0, []))[1]}
            for seq_id in named & set(manager.seq_ids().tolist()):
                table = manager.get_page_table(seq_id).entries
                assert engine.pool.tables.array[manager.row(seq_id), : len(table)].tolist() == table.tolist()


@pytest.mark.parametrize("device", ["null", "host"])
def test_it_runs_as_a_program(device: str) -> None:
    command = [sys.executable, str(FOLDER / "engine_loop.py"), "--requests", "10", "--device", device]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.startswith("10 requests in ")
    assert run.stdout.endswith("0 tokens with wrong bytes\n")
    assert run.stderr == ""
