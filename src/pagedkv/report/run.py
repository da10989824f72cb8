"""What the dashboard of every run has: the banner, and what is said of rows that take no part."""

from __future__ import annotations

from typing import Any

from pagedkv.report.document import Document
from pagedkv.report.quantities import count, size


def banner(document: Document) -> tuple[str, ...]:
    """Return device, memory, versions and system."""
    versions, device, config = document["versions"], document["device"], document["config"]
    memory = "no bytes behind it"
    if device["free_bytes"] is not None:
        memory = f"{size(device['free_bytes'])} free of {size(device['total_bytes'])}"
    return (
        f"device   {device['name']}: {device['description']} ({device['reason']})",
        f"memory   pool {size(config['pool_bytes'])}; {memory}",
        f"versions Python {versions['python']}, NumPy {versions['numpy']}",
        f"system   {versions['platform']}",
    )


def skipped_rows(trace: dict[str, Any] | None) -> list[str]:
    """Return a line for each listed row that takes no part, and one for the rest of them."""
    if trace is None:
        return []
    lines = [f"skipped row {row['row']}, column {row['column']}: {row['reason']}" for row in trace["skipped"]]
    more = trace["dropped_rows"] + trace["bad_rows"] - len(lines)
    return [*lines, f"and {count(more)} more skipped rows"] if more else lines
