"""Carries out `pagedkv simulate --compare`: the contiguous systems after the paged run, over the same requests."""

from __future__ import annotations

from pagedkv.cli.simulation_setup import Setup
from pagedkv.cli.simulation_signal import interruptible
from pagedkv.report.progress import RunProgress
from pagedkv.simulate import SimulationResult
from pagedkv.simulate.reservation import ALL_SYSTEMS, SideBySide, SystemResult, paged_system


def compare_systems(setup: Setup, paged: SimulationResult, *, show_progress: bool) -> list[SystemResult]:
    """Return the paged system and the others. Ctrl-C ends the one that runs after its step, and starts no more."""
    results = [paged_system(setup.spec, paged)]
    if paged.interrupted:
        return results
    requests = len(ALL_SYSTEMS) * results[0].figures["requests"]
    with RunProgress("requests of contiguous systems", requests, enabled=show_progress) as progress:
        systems = SideBySide(setup.spec, setup.load, paged.comparison.max_seq_len, on_progress=progress.update)
        with interruptible(systems):
            return results + systems.run()
