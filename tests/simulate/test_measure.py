"""Sums over more than one chunk of steps: peaks keep their first moment, means do not depend on the cut."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pagedkv.simulate.measure import CHUNK, Recorder


def test_sums_and_first_peak_across_chunks() -> None:
    calls: list[int] = []
    rows: list[list[int]] = []
    recorder = Recorder(16, on_chunk=lambda: calls.append(1))
    recorder.on_rows = lambda chunk: rows.extend(chunk.tolist())
    exact = Fraction(0)
    steps = 2 * CHUNK + 7
    for step in range(steps):
        allocated = 50 if step in (CHUNK - 1, CHUNK, steps - 1) else 1 + step % 40
        stored = allocated * 16 - step % 16
        exact += 1 - Fraction(stored, allocated * 16)
        recorder.add(allocated, stored, running=step, waiting=3 * (step % 2 == 0))
    totals = recorder.totals()
    assert totals.steps == steps
    assert len(calls) == 2
    assert (totals.peak_blocks, totals.peak_running_then) == (50, CHUNK - 1)
    assert totals.peak_running == steps - 1
    assert totals.running == steps * (steps - 1) // 2
    assert totals.saturated.steps == CHUNK + 4
    assert [row[2] for row in rows] == list(range(steps))
    assert [row[3] for row in rows[:4]] == [3, 0, 3, 0]
    assert totals.fragmentation == pytest.approx(float(exact), rel=1e-13)


def test_nothing_recorded_is_all_zero() -> None:
    totals = Recorder(16).totals()
    assert (totals.steps, totals.allocated, totals.fragmentation, totals.peak_blocks) == (0, 0, 0.0, 0)
