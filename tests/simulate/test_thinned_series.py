"""Buckets of a series whatever the chunks are in which its steps come."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pagedkv.simulate.history.series import ThinnedSeries


@given(values=st.lists(st.integers(-9, 9), max_size=120), chunk=st.integers(1, 50), limit=st.integers(1, 9))
def test_buckets_do_not_depend_on_the_chunks(values: list[int], chunk: int, limit: int) -> None:
    series = ThinnedSeries(1, 1, limit=limit)
    for start in range(0, len(values), chunk):
        part = np.array(values[start : start + chunk], dtype=np.int64)
        steps = np.arange(start, start + len(part))
        series.extend(10 * steps, part[np.newaxis], 2 * part[np.newaxis], steps / 2)
    stride = 1
    while -(-len(values) // stride) > limit:
        stride *= 2
    cuts = [values[start : start + stride] for start in range(0, len(values), stride)]
    ends = [min(start + stride, len(values)) - 1 for start in range(0, len(values), stride)]
    assert (series.stride, series.steps, len(series)) == (stride, len(values), len(cuts))
    assert series.sizes.tolist() == [len(cut) for cut in cuts]
    assert series.first.tolist() == [10 * (end + 1 - len(cut)) for end, cut in zip(ends, cuts, strict=True)]
    assert series.last.tolist() == [10 * end for end in ends]
    assert series.ends.tolist() == [end / 2 for end in ends]
    assert series.least[0].tolist() == [min(cut) for cut in cuts]
    assert series.sums[0].tolist() == [sum(cut) for cut in cuts]
    assert series.most[0].tolist() == [max(cut) for cut in cuts]
    assert series.counts[0].tolist() == [2 * sum(cut) for cut in cuts]


def test_an_empty_chunk_changes_nothing() -> None:
    series = ThinnedSeries(2, 3)
    nothing = np.zeros(0, dtype=np.int64)
    series.extend(nothing, np.zeros((2, 0), dtype=np.int64), np.zeros((3, 0), dtype=np.int64), np.zeros(0))
    assert (len(series), series.steps, series.stride) == (0, 0, 1)
