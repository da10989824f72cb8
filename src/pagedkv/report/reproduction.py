"""The figures of papers by name, and the report of `pagedkv reproduce` from its JSON document alone."""

from __future__ import annotations

from collections.abc import Iterator

from pagedkv.errors import InvalidArgumentError
from pagedkv.report.document import Document
from pagedkv.report.model import Report
from pagedkv.report.reproductions import fast25_figure9, sosp23_figure2, sosp23_figure15
from pagedkv.report.reproductions.figure import Figure
from pagedkv.report.reproductions.out_of_reach import OUT_OF_REACH

FIGURES: tuple[Figure, ...] = (sosp23_figure2.FIGURE, sosp23_figure15.FIGURE, fast25_figure9.FIGURE)


def reproduction_report(document: Document) -> Report:
    """Return the report. Pure. Errors: InvalidArgumentError for a figure that this version does not have."""
    return find_figure(document["figure"]).report(document)


def find_figure(name: str) -> Figure:
    """Return the figure of this name. Errors: InvalidArgumentError, which says why, for one that cannot be run."""
    for figure in FIGURES:
        if figure.name == name:
            return figure
    for missing in OUT_OF_REACH:
        if missing.name == name:
            raise InvalidArgumentError(
                f"figure {name} ({missing.paper}) cannot be reproduced: {missing.reason}; printed are "
                f"{missing.printed}; the nearest that can be run: {missing.instead}"
            )
    known = ", ".join(figure.name for figure in FIGURES)
    never = ", ".join(missing.name for missing in OUT_OF_REACH)
    raise InvalidArgumentError(f"figure {name[:60]!r} is not known; give one of {known} (not reproducible: {never})")


def list_figures() -> Iterator[str]:
    """Yield the lines that list all figures: what they are, and what they need or why they cannot be run."""
    for figure in FIGURES:
        yield figure.name
        yield f"  {figure.paper}: {figure.title}"
        yield f"  --trace: {figure.trace}"
    for missing in OUT_OF_REACH:
        yield f"{missing.name} (cannot be reproduced)"
        yield f"  {missing.paper}: {missing.title}"
        yield f"  printed: {missing.printed}"
        yield f"  why not: {missing.reason}"
        yield f"  instead: {missing.instead}"
