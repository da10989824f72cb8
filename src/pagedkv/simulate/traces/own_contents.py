"""What prompts hold in pagedkv's own traces: ids as in Mooncake's, or sessions and shared prefixes."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pagedkv.simulate.conversations import Conversations
from pagedkv.simulate.identities import IdentityRows, PromptIdentities
from pagedkv.simulate.traces.json_rows import is_count, is_name, name_of, said, wrong_ids
from pagedkv.simulate.traces.rows import TraceRows


class Entry(NamedTuple):
    """What one row says: its ids, or its parent row (-1: none), session, prefix (-1: none) and tokens of it."""

    ids: Sequence[int] = ()
    session: Hashable = None
    parent: int = -1
    prefix: Hashable = None
    prefix_tokens: int = 0


# Of a session's last accepted row: its number from 0, its ticks, the tokens of its prompt and answer. A plain tuple: a
# million of them cost the garbage collector nothing.
_Session: TypeAlias = tuple[int, int, int]


class OwnContents:
    """Collects what the accepted rows hold. tokens_per_id: rows have hash_ids; None: sessions and prefixes, perhaps.

    Reports bad fields to `rows`. Modifies itself.
    """

    def __init__(self, rows: TraceRows, tokens_per_id: int | None) -> None:
        self._rows = rows
        self._identities = None if tokens_per_id is None else IdentityRows(tokens_per_id)
        self._count = 0
        self._parents: array[int] | None = None  # until a row says something there is nothing to keep
        self._prefixes = array("q")
        self._prefix_tokens = array("q")
        self._names: dict[Hashable, int] = {}
        self._sessions: dict[Hashable, _Session] = {}

    @property
    def tells(self) -> bool:
        """Whether anything is known of any prompt."""
        return self._identities is not None or self._parents is not None

    def skip(self, count: int) -> None:
        """Count accepted rows that say nothing, before any that does."""
        self._count += count

    def entry(self, row: int, fields: dict[str, Any], ticks: int, prompt: int) -> Entry | None:
        """Return what a row says; None: it is bad, and `rows` knows."""
        if self._identities is not None:
            return self._ids(row, fields, prompt, self._identities.tokens_per_id)
        if "hash_ids" in fields:
            self._rows.reject(row, "hash_ids", "has ids, and no header says for how many tokens: give tokens_per_id")
            return None
        for name in ("session", "prefix"):
            if fields.get(name) is not None and not is_name(fields[name]):
                self._rows.reject(row, name, f"is {said(fields[name])}, not a name: a text or a whole number")
                return None
        session = None if fields.get("session") is None else name_of(fields["session"])
        before = self._sessions.get(session) if session is not None else None
        if before is not None:
            return self._next_turn(row, session, before, ticks, prompt)
        if fields.get("prefix") is None:
            return Entry(session=session)
        shared: Any = fields.get("prefix_tokens")
        if not is_count(shared) or not 0 < shared <= prompt:
            self._rows.reject(row, "prefix_tokens", f"is {said(shared)}, not a number from 1 to prompt_tokens")
            return None
        return Entry(session=session, prefix=name_of(fields["prefix"]), prefix_tokens=shared)

    def add(self, entry: Entry, ticks: int, tokens: int) -> None:
        """Keep what an accepted row says; tokens: of its prompt and its answer."""
        if self._identities is not None:
            self._identities.add(entry.ids)
            return
        if self._parents is None and (entry.session is not None or entry.prefix is not None):
            nothing = array("q", [-1]) * self._count
            self._parents, self._prefixes = array("q", nothing), array("q", nothing)
            self._prefix_tokens = array("q", [0]) * self._count
        if self._parents is not None:
            names = self._names
            self._parents.append(entry.parent)
            self._prefixes.append(-1 if entry.prefix is None else names.setdefault(entry.prefix, len(names)))
            self._prefix_tokens.append(entry.prefix_tokens)
        if entry.session is not None:
            self._sessions[entry.session] = (self._count, ticks, tokens)
        self._count += 1

    def ordered(self, order: NDArray[np.int64] | None) -> PromptIdentities | Conversations:
        """Return it in replay order."""
        if self._identities is not None:
            return self._identities.ordered(order)
        parents, prefixes, lengths = (
            np.array(values, dtype=np.int64) for values in (self._parents, self._prefixes, self._prefix_tokens)
        )
        if order is not None:
            place = np.empty(len(order), dtype=np.int64)
            place[order] = np.arange(len(order))
            parents = np.where(parents < 0, -1, place[parents])[order]
            prefixes, lengths = prefixes[order], lengths[order]
        return Conversations(parents, prefixes, lengths)

    def _ids(self, row: int, fields: dict[str, Any], prompt: int, size: int) -> Entry | None:
        ids = fields.get("hash_ids")
        reason = wrong_ids(ids, prompt, -(-prompt // size), size) if "hash_ids" in fields else "is missing"
        if reason or ids is None:
            self._rows.reject(row, "hash_ids", reason)
            return None
        return Entry(ids)

    def _next_turn(self, row: int, session: Hashable, before: _Session, ticks: int, prompt: int) -> Entry | None:
        last, last_ticks, last_tokens = before
        if ticks < last_ticks:
            self._rows.reject(row, "session", "has a turn that is earlier than the one before it")
            return None
        if prompt < last_tokens:
            reason = f"is {prompt}, and its session holds {last_tokens} up to here"
            self._rows.reject(row, "prompt_tokens", reason)
            return None
        return Entry(session=session, parent=last)
