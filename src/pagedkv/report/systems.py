"""The table of contiguous systems beside the paged one."""

from __future__ import annotations

from typing import Any

from pagedkv.report.model import Table
from pagedkv.report.modeled_time import seconds
from pagedkv.report.quantities import count, percent

SHARES = ("token_states", "reservation", "internal", "external_and_free")
_MODELED = ("modeled tokens/s", "modeled first token, p90")
_HEADER = ("system", "rejected", "steps", "running", "token states", "reservation", "internal", "external, free")


def systems_tables(systems: list[dict[str, Any]] | None) -> tuple[Table, ...]:
    """Return one table of the systems' shares of the pool, none without systems. Pure.

    The shares are means over the steps with a queue, where every system that ran has such steps; else over all steps.
    """
    if not systems:
        return ()
    figures = [system["figures"] for system in systems]
    which = "saturated" if all(one["saturated"] for one in figures if one["steps"]) else "mean"
    modeled = any(one.get("seconds") is not None for one in figures)
    steps = "steps with a queue" if which == "saturated" else "all steps"
    return (
        Table(
            f"Paged beside contiguous systems, shares of the pool, mean over {steps}",
            (*_HEADER, *(_MODELED if modeled else ())),
            tuple((*_row(system, which), *(_modeled(system) if modeled else ())) for system in systems),
        ),
    )


def _row(system: dict[str, Any], which: str) -> tuple[str, ...]:
    figures, means = system["figures"], system["figures"][which]
    running = "n/a" if means is None else f"{means['running']:.2f}"
    shares = ("n/a" for _ in SHARES) if means is None else (percent(means[share]) for share in SHARES)
    return (system_name(system), count(figures["rejected"]), count(figures["steps"]), running, *shares)


def _modeled(system: dict[str, Any]) -> tuple[str, str]:
    """Rates of the whole run, not of the steps with a queue."""
    figures = system["figures"]["seconds"]
    rate, first = figures["output_tokens_per_second"], figures["time_to_first_token_seconds"]
    return "n/a" if rate is None else f"{rate:,.1f}", "n/a" if first is None else seconds(first["p90"])


def system_name(system: dict[str, Any]) -> str:
    """paged; or reservation and placement, as in "max, first fit". Pure."""
    name = "paged"
    if system["reservation"] is not None:
        name = f"{system['reservation']}, {system['placement'].replace('_', ' ')}"
    return f"{name} (stopped)" if system.get("interrupted") else name
