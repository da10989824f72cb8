"""What the tokens of a pool are used for, as figures that paged and contiguous systems have in common.

    pool = token states + reservation (used later) + internal (reserved, never used) + external and free

Per running request (p, o): token states = stored tokens; reservation = p + o - stored; internal = reserved - (p + o).
A request that may store p + o - 1 = L tokens has -1 of internal: its last token is generated, but never stored.
Paging reserves nothing for later; its internal share is the empty places of allocated blocks.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from pagedkv.simulate.measure import SaturatedTotals, Totals

SystemFigures: TypeAlias = dict[str, Any]  # counts by name; shares by name under "mean" and "saturated", or None


def system_figures(
    totals: Totals,
    *,
    pool_tokens: int,
    block_size: int,
    expected: int,
    saturated: int,
    seconds: dict[str, Any] | None = None,
) -> SystemFigures:
    """Return sums in token-steps and mean shares of the pool, over all steps and over those with a queue. Pure.

    expected, saturated: sums of what the running requests store now or later, over all steps and those with a queue.
    seconds: the modeled clock's figures.
    """
    sums = _sums(totals, pool_tokens, block_size, expected)
    return {
        "steps": totals.steps,
        "saturated_steps": totals.saturated.steps,
        "peak_running": totals.peak_running,
        "pool_tokens": pool_tokens,
        "peak_reserved_tokens": totals.peak_blocks * block_size,
        **{f"sum_{name}_over_steps": value for name, value in sums.items()},
        "sum_running_over_steps": totals.running,
        "mean": _means(totals, sums, pool_tokens),
        "seconds": seconds,
        "saturated": _means(totals.saturated, _sums(totals.saturated, pool_tokens, block_size, saturated), pool_tokens),
    }


def _sums(totals: Totals | SaturatedTotals, pool_tokens: int, block_size: int, expected: int) -> dict[str, int]:
    reserved = totals.allocated * block_size
    return {
        "token_states": totals.stored,
        "reservation": expected - totals.stored,
        "internal": reserved - expected,
        "external_and_free": pool_tokens * totals.steps - reserved,
    }


def _means(totals: Totals | SaturatedTotals, sums: dict[str, int], pool_tokens: int) -> dict[str, float] | None:
    if not totals.steps:
        return None
    shares = {name: value / (pool_tokens * totals.steps) for name, value in sums.items()}
    return shares | {"running": totals.running / totals.steps}
