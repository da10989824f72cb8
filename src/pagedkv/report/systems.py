"""The table of contiguous systems beside the paged one."""

from __future__ import annotations

from typing import Any

from pagedkv.report.model import Table
from pagedkv.report.quantities import count, percent

SHARES = ("token_states", "reservation", "internal", "external_and_free")
_HEADER = ("system", "rejected", "steps", "running", "token states", "reservation", "internal", "external, free")


def systems_tables(systems: list[dict[str, Any]] | None) -> tuple[Table, ...]:
    """Return one table of the systems' shares of the pool, none without systems. Pure.

    The shares are means over the steps with a queue, where every system that ran has such steps; else over all steps.
    """
    if not systems:
        return ()
    figures = [system["figures"] for system in systems]
    which = "saturated" if all(one["saturated"] for one in figures if one["steps"]) else "mean"
    steps = "steps with a queue" if which == "saturated" else "all steps"
    return (
        Table(
            f"Paged beside contiguous systems, shares of the pool, mean over {steps}",
            _HEADER,
            tuple(_row(system, which) for system in systems),
        ),
    )


def _row(system: dict[str, Any], which: str) -> tuple[str, ...]:
    figures, means = system["figures"], system["figures"][which]
    running = "n/a" if means is None else f"{means['running']:.2f}"
    shares = ("n/a" for _ in SHARES) if means is None else (percent(means[share]) for share in SHARES)
    return (system_name(system), count(figures["rejected"]), count(figures["steps"]), running, *shares)


def system_name(system: dict[str, Any]) -> str:
    """paged; or reservation and placement, as in "max, first fit". Pure."""
    name = "paged"
    if system["reservation"] is not None:
        name = f"{system['reservation']}, {system['placement'].replace('_', ' ')}"
    return f"{name} (stopped)" if system.get("interrupted") else name
