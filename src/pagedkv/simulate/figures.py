"""The figures of a run: plain numbers by name, as they go into JSON.

No NaN: a mean over no step is 0, a ratio to nothing is None.
"""

from __future__ import annotations

from typing import TypeAlias

from pagedkv.layout import Layout
from pagedkv.simulate.contiguous import ContiguousComparison
from pagedkv.simulate.counters import Counters
from pagedkv.simulate.measure import SaturatedTotals, Totals
from pagedkv.simulate.sharing import SharingTotals
from pagedkv.stats import CacheStats

Figure: TypeAlias = int | float | dict[str, int | float] | None
Figures: TypeAlias = dict[str, Figure]


def run_figures(counters: Counters, *, requests: int, rejected: int) -> Figures:
    """Return the event counts."""
    return {
        "requests": requests,
        "rejected": rejected,
        "completed": counters.completed,
        "completions": counters.completed,
        "completed_tokens": counters.completed_tokens,
        "preemptions": counters.preemptions,
        "recomputed_tokens": counters.recomputed_tokens,
        "total_token_allocs": counters.token_allocs,
        "total_block_allocs": counters.block_allocs - counters.revived_blocks,
        "total_block_frees": counters.block_frees,
    }


def step_figures(totals: Totals, layout: Layout, num_blocks: int) -> Figures:
    """Return sums, peaks and means over the counted steps; utilizations are fractions of the pool."""
    steps = totals.steps
    slots = layout.block_size * totals.allocated
    return {
        "steps": steps,
        "saturated_steps": totals.saturated.steps,
        "peak_blocks": totals.peak_blocks,
        "peak_bytes": totals.peak_blocks * layout.block_bytes,
        "peak_tokens": totals.peak_tokens,
        "peak_running": totals.peak_running,
        "sum_allocated_blocks_over_steps": totals.allocated,
        "sum_stored_tokens_over_steps": totals.stored,
        "sum_running_over_steps": totals.running,
        "peak_block_utilization": totals.peak_blocks / num_blocks,
        "peak_utilization_of_pool": totals.peak_blocks / num_blocks,
        "mean_block_utilization": _share(totals.allocated, num_blocks * steps),
        "mean_utilization_of_pool": _share(totals.allocated, num_blocks * steps),
        "mean_token_utilization": _share(totals.stored, num_blocks * layout.block_size * steps),
        "mean_internal_fragmentation": totals.fragmentation / steps if steps else 0.0,
        "pooled_internal_fragmentation": _share(slots - totals.stored, slots),
        "external_fragmentation": 0.0,
        "mean_blocks": _share(totals.allocated, steps),
        "mean_running": _share(totals.running, steps),
        "saturated": _saturated(totals.saturated, layout, num_blocks),
    }


def sharing_figures(sharing: SharingTotals, totals: Totals, *, cow_copies: int) -> Figures:
    """Return blocks without sharing (logical) against blocks with it (physical, `totals`), and the copies made."""
    saturated = totals.saturated.steps
    ratio = sharing.saturated_ratio / saturated if saturated else None
    return {
        "sum_logical_blocks_over_steps": sharing.logical_blocks,
        "mean_logical_blocks": _share(sharing.logical_blocks, totals.steps),
        "peak_logical_blocks": sharing.peak_logical_blocks,
        "peak_saved_blocks": sharing.peak_saved_blocks,
        "pooled_sharing_saving": _share(sharing.logical_blocks - totals.allocated, sharing.logical_blocks),
        "saturated_sharing_ratio": ratio,
        "saturated_sharing_saving": None if ratio is None else 1 - 1 / ratio,
        "cow_copies": cow_copies,
    }


def prefix_figures(counters: Counters, stats: CacheStats) -> Figures:
    """Return what prefix caching found and saved; stats: the manager's after the last step."""
    queried, hit = stats.queried_tokens, stats.hit_tokens
    return {
        "queried_tokens": queried,
        "hit_tokens": hit,
        "computed_tokens": queried - hit,
        "token_hit_rate": _ratio(hit, queried),
        "queried_blocks": counters.queried_blocks,
        "hit_blocks": counters.hit_blocks,
        "block_hit_rate": _ratio(counters.hit_blocks, counters.queried_blocks),
        "revived_blocks": counters.revived_blocks,
        "evictions": stats.evictions,
        "cached_blocks": stats.cached_blocks,
    }


def contiguous_figures(comparison: ContiguousComparison, pool_bytes: int) -> Figures:
    """Return the comparison with max-length reservation at the moment of the peak."""
    return {
        "contiguous_max_seq_len": comparison.max_seq_len,
        "contiguous_sequences": comparison.sequences,
        "contiguous_max_bytes": comparison.contiguous_bytes,
        "contiguous_max_utilization_of_pool": comparison.contiguous_bytes / pool_bytes,
        "peak_saving_vs_contiguous": comparison.saved,
        "peak_factor_vs_contiguous": comparison.factor,
        "mean_saving_vs_contiguous": comparison.mean_saved,
        "contiguous_mean_internal_waste": comparison.mean_waste,
    }


def _saturated(totals: SaturatedTotals, layout: Layout, num_blocks: int) -> dict[str, int | float] | None:
    if not totals.steps:
        return None
    return {
        "steps": totals.steps,
        "mean_token_utilization": _share(totals.stored, num_blocks * layout.block_size * totals.steps),
        "mean_internal_fragmentation": totals.fragmentation / totals.steps,
        "mean_running": _share(totals.running, totals.steps),
    }


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
