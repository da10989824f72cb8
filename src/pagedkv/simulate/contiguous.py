"""Contiguous reservation, the way before paging: every running sequence holds room for the longest one.

Compared at the same moment: the step in which the paged pool is fullest (the first, if several are).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pagedkv.layout import Layout
from pagedkv.simulate.measure import Totals
from pagedkv.simulate.sharing import SharingTotals


@dataclass(frozen=True, slots=True)
class ContiguousComparison:
    """Bytes that a max-length reservation holds where the paged pool holds `paged_bytes`.

    sequences: K, the concurrency where it is capped, else the requests that run at that moment; times the sequences of
    a group, each of which reserves for itself.
    saved = 1 - paged_bytes / contiguous_bytes; mean_saved is the same over all steps' sums; mean_waste is the share of
    reserved token places that hold no token. None where nothing ran.
    """

    max_seq_len: int
    sequences: int
    paged_bytes: int
    contiguous_bytes: int
    saved: float | None
    factor: float | None
    mean_saved: float | None
    mean_waste: float | None


def compare_with_max_length(
    totals: Totals,
    sharing: SharingTotals,
    layout: Layout,
    max_seq_len: int,
    *,
    capped_at: int | None = None,
    group_size: int = 1,
) -> ContiguousComparison:
    """Compare a run with the reservation of `max_seq_len` tokens a sequence. Pure; no stream.

    capped_at: the cap on requests that run, None without one; each is `group_size` sequences.
    """
    sequences = group_size * (totals.peak_running_then if capped_at is None else capped_at)
    sequence_steps = group_size * (totals.running if capped_at is None else capped_at * totals.steps)
    sequence_bytes = max_seq_len * layout.token_bytes
    paged, contiguous = totals.peak_blocks * layout.block_bytes, sequences * sequence_bytes
    return ContiguousComparison(
        max_seq_len=max_seq_len,
        sequences=sequences,
        paged_bytes=paged,
        contiguous_bytes=contiguous,
        saved=_saved(paged, contiguous),
        factor=contiguous / paged if paged else None,
        mean_saved=_saved(totals.allocated * layout.block_bytes, sequence_steps * sequence_bytes),
        mean_waste=_saved(sharing.logical_tokens, sequence_steps * max_seq_len),
    )


def external_fragmentation(free_gaps: Iterable[int]) -> float:
    """Return the share of free space outside the largest gap: 1 - largest / sum, 0 where nothing is free.

    A request longer than the largest gap fails however much is free. A paged pool has 0: any free block will do.
    """
    gaps = list(free_gaps)
    free = sum(gaps)
    return (free - max(gaps)) / free if free else 0.0


def _saved(less: int, more: int) -> float | None:
    return (more - less) / more if more else None
