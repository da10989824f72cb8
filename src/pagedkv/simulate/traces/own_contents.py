"""What prompts hold in pagedkv's own traces: ids as in Mooncake's, or sessions and shared prefixes."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pagedkv.simulate.conversations import Conversations
from pagedkv.simulate.identities import IdentityRows, PromptIdentities
from pagedkv.simulate.traces.json_rows import is_count, is_name, said, wrong_ids
from pagedkv.simulate.traces.own_columns import Columns, whole_numbers
from pagedkv.simulate.traces.own_turns import Turn, Turns
from pagedkv.simulate.traces.rows import TraceRows


class Entry(NamedTuple):
    """What one row says: its ids, or its parent row (-1: none), session, prefix (-1: none) and tokens of it."""

    ids: Sequence[int] = ()
    session: Hashable = None
    parent: int = -1
    prefix: Hashable = None
    prefix_tokens: int = 0


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
        self._turns = Turns()

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
        session = fields.get("session")
        before = None if session is None else self._turns.last(session)
        if before is not None:
            return self._next_turn(row, session, before, ticks, prompt)
        if fields.get("prefix") is None:
            return Entry(session=session)
        shared: Any = fields.get("prefix_tokens")
        if not is_count(shared) or not 0 < shared <= prompt:
            self._rows.reject(row, "prefix_tokens", f"is {said(shared)}, not a number from 1 to prompt_tokens")
            return None
        return Entry(session=session, prefix=fields["prefix"], prefix_tokens=shared)

    def add(self, entry: Entry, ticks: int, tokens: int) -> None:
        """Keep what an accepted row says; tokens: of its prompt and its answer."""
        if self._identities is not None:
            self._identities.add(entry.ids)
            return
        if self._parents is None and (entry.session is not None or entry.prefix is not None):
            self._parents = self._told()
        if self._parents is not None:
            names = self._names
            self._parents.append(entry.parent)
            self._prefixes.append(-1 if entry.prefix is None else names.setdefault(entry.prefix, len(names)))
            self._prefix_tokens.append(entry.prefix_tokens)
        if entry.session is not None:
            self._turns.add(entry.session, Turn(self._count, ticks, tokens))
        self._count += 1

    def extend(self, columns: Columns, accept: Callable[[], bool]) -> bool:
        """Keep what many rows say, if all of it is usable and `accept()` takes the rows; False: nothing was kept."""
        if self._identities is not None:
            known = columns.ids("hash_ids")
            wanted = -(-columns.prompts // self._identities.tokens_per_id)
            if known is None or bool(np.any(known[1] != wanted)) or not accept():
                return False
            self._identities.extend(*known)
            self._count += len(wanted)
            return True
        if any("hash_ids" in row for row in columns.rows):
            return False
        return self._extend_turns(columns, accept)

    def _extend_turns(self, columns: Columns, accept: Callable[[], bool]) -> bool:
        sessions, prefixes = columns.names("session"), columns.names("prefix")
        if sessions is None or prefixes is None:
            return False
        numbers = self._turns.numbers(sessions)
        rows = self._count + np.arange(len(numbers))
        turns = rows, columns.ticks, columns.prompts + columns.outputs
        parents, ticks, tokens = self._turns.chain(numbers, turns)
        if bool(np.any((columns.ticks < ticks) | (columns.prompts < tokens))):
            return False
        heads = [place for place in np.flatnonzero(parents < 0).tolist() if prefixes[place] is not None]
        shared = whole_numbers([columns.rows[place].get("prefix_tokens") for place in heads])
        if shared is None or bool(np.any((shared <= 0) | (shared > columns.prompts[heads]))) or not accept():
            return False
        if self._parents is None and (heads or bool(np.any(numbers >= 0))):
            self._parents = self._told()
        if self._parents is not None:
            names = self._names
            named, lengths = np.full(len(rows), -1, dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
            named[heads] = [names.setdefault(prefixes[place], len(names)) for place in heads]
            lengths[heads] = shared
            for kept, values in ((self._parents, parents), (self._prefixes, named), (self._prefix_tokens, lengths)):
                kept.frombytes(values.tobytes())
        self._turns.extend(numbers, turns)
        self._count += len(rows)
        return True

    def _told(self) -> array[int]:
        """From now on something is kept of every row; return the parents of those before."""
        nothing = array("q", [-1]) * self._count
        self._prefixes = array("q", nothing)
        self._prefix_tokens = array("q", [0]) * self._count
        return nothing

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

    def _next_turn(self, row: int, session: Hashable, before: Turn, ticks: int, prompt: int) -> Entry | None:
        last, last_ticks, last_tokens = before
        if ticks < last_ticks:
            self._rows.reject(row, "session", "has a turn that is earlier than the one before it")
            return None
        if prompt < last_tokens:
            reason = f"is {prompt}, and its session holds {last_tokens} up to here"
            self._rows.reject(row, "prompt_tokens", reason)
            return None
        return Entry(session=session, parent=last)
