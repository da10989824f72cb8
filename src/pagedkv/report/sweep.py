"""The table of `pagedkv sweep`, from its JSON document alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pagedkv.report.document import Document
from pagedkv.report.model import Line, Report, Section, Table
from pagedkv.report.quantities import count, percent

SHOWN_ERRORS = 20
# Title, names (the first that a run has), how it is said. Seconds are a model's, and so are the columns.
_FIGURES: tuple[tuple[str, tuple[str, ...], Callable[[Any], str]], ...] = (
    ("completed", ("completed", "requests"), count),  # of the cache alone: all requests
    ("preemptions", ("preemptions",), count),
    ("running", ("mean_running",), lambda mean: f"{mean:.2f}"),
    ("utilization", ("mean_block_utilization",), percent),
    ("waste", ("mean_internal_fragmentation",), percent),
    ("modeled tokens/s", ("time.output_tokens_per_second",), lambda rate: f"{rate:,.1f}"),
    ("modeled TTFT p95", ("time.time_to_first_token_seconds.p95",), lambda seconds: f"{seconds:.3f} s"),
    ("hit rate", ("token_hit_rate", "full_block_hit_rate", "block_hit_rate"), percent),
)


def sweep_dashboard(document: Document) -> Report:
    """Return the report of a sweep's document. Pure."""
    config, versions, work = document["config"], document["versions"], document["work"]
    rows = document["configurations"]
    return Report(
        title=f"pagedkv sweep {versions['pagedkv']}",
        banner=(
            f"versions Python {versions['python']}, NumPy {versions['numpy']}",
            f"system   {versions['platform']}",
        ),
        sections=(
            Section(
                "Sweep",
                (
                    Line("spec", config["spec"]),
                    Line("configurations", count(config["configurations"])),
                    Line("ran now", count(work["ran"])),
                    Line("from the store", count(work["from_store"]), config["store"]),
                ),
            ),
        ),
        tables=(_table(config["varied"], rows),),
        notes=(*document["notes"], *_notes(rows)),
        outcome=document["outcome"],
        closing=_closing(document),
    )


def _table(varied: list[str], rows: list[dict[str, Any]]) -> Table:
    columns = [one for one in _FIGURES if any(_figure(row, one[1]) is not None for row in rows)]
    return Table(
        "Results, means over all steps",
        ("#", *varied, *(title for title, _, _ in columns), "outcome"),
        tuple(_row(varied, row, columns) for row in rows),
    )


def _row(varied: list[str], row: dict[str, Any], columns: list[Any]) -> tuple[str, ...]:
    options = (row["options"].get(name.replace("-", "_"), "-") for name in varied)
    figures = [(_figure(row, names), say) for _, names, say in columns]
    return (
        str(row["number"]),
        *(_shown(value) for value in options),
        *("n/a" if value is None else say(value) for value, say in figures),
        row["outcome"],
    )


def _figure(row: dict[str, Any], names: tuple[str, ...]) -> Any:
    figures = (row["figures"] or {}) | {"time": (row["time"] or {}).get("figures")}
    found = (_at(figures, name.split(".")) for name in names)
    return next((value for value in found if value is not None), None)


def _at(figures: Any, path: list[str]) -> Any:
    for name in path:
        figures = None if figures is None else figures.get(name)
    return figures


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _notes(rows: list[dict[str, Any]]) -> list[str]:
    """Why configurations failed, and what they all say."""
    errors = []
    for row in rows:
        reasons = [f"{row['error']['error']}: {row['error']['message']}"] if row["error"] else row["failures"] or []
        errors += [f"configuration {row['number']} ({row['name'] or 'as fixed'}): {reason}" for reason in reasons]
    more = [f"and {count(len(errors) - SHOWN_ERRORS)} more failures"] if len(errors) > SHOWN_ERRORS else []
    each = [row["notes"] for row in rows if row["notes"] is not None]
    common = [note for note in (each[0] if each else []) if all(note in notes for notes in each)]
    return [*common, *errors[:SHOWN_ERRORS], *more]


def _closing(document: Document) -> str:
    work, total = document["work"], document["config"]["configurations"]
    ended = work["ran"] + work["from_store"]
    done = f"{count(ended)} of {count(total)} configurations, {count(work['from_store'])} of them from the store"
    if document["outcome"] == "INTERRUPTED":
        done += "; the same command goes on from here"
    return "; ".join([*document["failures"], done])
