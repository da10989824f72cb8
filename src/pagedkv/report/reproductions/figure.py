"""What there is to know of a figure before it is run, or instead of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pagedkv.report.document import Document
from pagedkv.report.model import Report


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that can be run. trace: what its requests are; report: of its document, pure."""

    name: str
    paper: str
    title: str
    trace: str
    report: Callable[[Document], Report]


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """A figure that cannot be run. printed: its values; reason: why; instead: the nearest command that can be run."""

    name: str
    paper: str
    title: str
    printed: str
    reason: str
    instead: str
