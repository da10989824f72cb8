"""The events of the reference model: what became findable and what ceased to be, until somebody asks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .contents import Content

STORED, REMOVED, CLEARED = 0, 1, 2
Event = tuple[int, int, "Content | None"]  # kind, a block that holds or held the content, the content


@dataclass
class EventRecord:
    """Nothing is recorded before the first drain; a record that grows beyond ``limit`` is given up until the next."""

    limit: int
    following: bool = False
    events: list[Event] = field(default_factory=list)

    def stored(self, block: int, content: Content) -> None:
        self._add((STORED, block, content))

    def removed(self, block: int, content: Content) -> None:
        self._add((REMOVED, block, content))

    def cleared(self) -> None:
        """What was recorded before is of no use any more."""
        if len(self.events) < self.limit:
            self.events = []
        self._add((CLEARED, -1, None))

    def _add(self, event: Event) -> None:
        self.following = self.following and len(self.events) < self.limit
        self.events = [*self.events, event] if self.following else []

    def drain(self, everything: Iterable[tuple[int, Content]]) -> list[Event]:
        """What was recorded; without a record a "cleared" and all that is findable now."""
        if not self.following:
            self.following = True
            self.events = [(CLEARED, -1, None), *((STORED, block, content) for block, content in everything)]
        taken, self.events = self.events, []
        return taken
