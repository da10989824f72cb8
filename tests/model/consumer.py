"""A router's picture of one cache, from its events alone; it must always be what the cache holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pagedkv import CacheEvents

from .event_record import CLEARED, REMOVED, STORED, Event

Chain = tuple[int, tuple[int, ...]]  # digest of the salt, all tokens: what events tell of a content
Told = tuple[int, int, Chain | None]


def salt_digest(salt: bytes) -> int:
    """FNV-1a, odd, as a signed number; 0 for no salt. Equal in every process, so it is fixed here too."""
    if not salt:
        return 0
    value = 0xCBF29CE484222325
    for byte in salt:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    value |= 1
    return value - 2**64 if value >= 2**63 else value


def told(event: Event) -> Told:
    """As much of a model's event as the manager tells."""
    kind, block, content = event
    return kind, block, None if content is None else (salt_digest(content.salt), tuple(content.tokens))


@dataclass
class Consumer:
    """Applies events in order. ``named`` is for ever: no serial may come to mean another content."""

    present: dict[int, Chain] = field(default_factory=dict)  # by serial
    named: dict[int, Chain] = field(default_factory=dict)

    def apply(self, events: CacheEvents) -> Counter[Told]:
        """Returns what was told, in the model's words."""
        assert len(events.token_starts) == len(events) + 1
        answer: Counter[Told] = Counter()
        for i, kind in enumerate(events.kinds.tolist()):
            serial, block = int(events.serials[i]), int(events.blocks[i])
            tokens = events.tokens[events.token_starts[i] : events.token_starts[i + 1]].tolist()
            assert (kind == STORED) == bool(tokens)
            chain = None
            if kind == STORED:
                chain = self._store(serial, int(events.parents[i]), int(events.salt_digests[i]), tokens)
            elif kind == REMOVED:
                chain = self.present.pop(serial)
            else:
                assert kind == CLEARED
                self.present.clear()
            answer[kind, block, chain] += 1
        return answer

    def _store(self, serial: int, parent: int, digest: int, tokens: list[int]) -> Chain:
        """Behind its parent, which is there already."""
        before = self.present[parent] if parent else (digest, ())
        assert before[0] == digest
        assert serial > 0
        assert serial not in self.present
        chain = (digest, (*before[1], *tokens))
        assert self.named.setdefault(serial, chain) == chain
        self.present[serial] = chain
        return chain
