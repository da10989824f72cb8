"""Paged against contiguous at the same moment, and utilization against fragmentation (Q2)."""

from __future__ import annotations

import pytest

from pagedkv.simulate import Load, base_case
from pagedkv.simulate.contiguous import external_fragmentation

from .runs import simulate, workload


def test_q2_blocks_tokens_and_fragmentation_are_three_numbers() -> None:
    # Ten sequences of 17 tokens, two blocks of 16 each, in a pool of 30; one step.
    result, _ = simulate(30, 16, Load(workload([(0, 17, 1)] * 10)))
    figures = result.figures
    assert figures["peak_blocks"] == 20
    assert figures["mean_block_utilization"] == pytest.approx(2 / 3, rel=1e-12)
    assert figures["mean_token_utilization"] == pytest.approx(170 / 480, rel=1e-12)
    assert figures["mean_internal_fragmentation"] == pytest.approx(150 / 320, rel=1e-12)
    assert figures["pooled_internal_fragmentation"] == pytest.approx(150 / 320, rel=1e-12)
    assert figures["external_fragmentation"] == 0.0


def test_q2_external_fragmentation_of_contiguous_space() -> None:
    assert external_fragmentation([3, 5, 2]) == 0.5  # a request of 6 fails although 10 are free
    assert external_fragmentation([7]) == 0.0
    assert external_fragmentation([]) == 0.0


def test_uncapped_comparison_takes_the_sequences_of_the_fullest_moment() -> None:
    # Step 0 runs three sequences in 3 blocks; step 1 runs one, grown to 9 tokens in 3 blocks: the first moment counts.
    result, log = simulate(64, 4, Load(workload([(0, 1, 1), (0, 1, 1), (0, 4, 6)])))
    assert [step["used_blocks"] for step in log] == [3, 2, 2, 2, 2, 3]
    assert result.comparison.sequences == 3
    assert result.comparison.max_seq_len == 10
    assert result.comparison.contiguous_bytes == 3 * 10 * 24
    assert result.comparison.saved == pytest.approx(1 - 3 * 96 / 720, rel=1e-12)


def test_capped_comparison_takes_the_cap_but_no_more_than_there_are_requests() -> None:
    capped, _ = simulate(4096, 16, Load(base_case(100, 42), concurrency=8, max_seq_len=256), verify=False)
    assert capped.comparison.sequences == 8
    assert capped.figures["peak_saving_vs_contiguous"] == pytest.approx(1 - 81 * 16 / (8 * 256), rel=1e-12)
    wide, _ = simulate(4096, 16, Load(base_case(100, 42), concurrency=10_000, max_seq_len=256), verify=False)
    assert wide.comparison.sequences == 100


def test_the_default_length_leaves_rejected_requests_out() -> None:
    # 400 tokens never fit 16 x 4: their length must not make paging look better.
    result, _ = simulate(16, 4, Load(workload([(0, 200, 200), (0, 4, 4)])))
    assert result.comparison.max_seq_len == 8
    assert result.too_long == 0


def test_requests_beyond_the_given_length_are_counted() -> None:
    result, _ = simulate(16, 4, Load(workload([(0, 4, 5), (0, 4, 6), (0, 20, 4)]), max_seq_len=8))
    assert result.too_long == 2  # 8, 9 and 23 tokens at the end
