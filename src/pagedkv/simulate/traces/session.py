"""One session of kv-cache-tester after another: its requests, and ids that mean something in that session only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagedkv.simulate.identities import IdentityRows, PromptIdentities
from pagedkv.simulate.traces.json_rows import has_columns, has_tokens, read_json, said, ticks_of, wrong_ids
from pagedkv.simulate.traces.rows import TICKS_PER_SECOND, TraceRows

DEEPEST = 16  # sub-agents inside sub-agents
LARGEST_BLOCK = 1 << 20


class SessionReader:
    """Reads documents into `rows` and keeps what their prompts hold.

    The rest of a prompt behind its last full block has no id in the file and is like nothing else, so it gets one of
    its own. Ids of scope "local" are the session's, sub-agents included; "global" ones are everybody's; with any other
    scope a sub-agent's are its own.
    """

    def __init__(self, rows: TraceRows) -> None:
        self._rows = rows
        self._identities = IdentityRows(0)
        self._shared: dict[int, int] = {}
        self._local: dict[int, dict[int, int]] = {}  # of one session, by agent; kept no longer than that
        self._row = 0
        self._agents = 0
        self._scope: Any = None
        rows.columns = ("t", "in", "out")
        rows.one_clock = True

    def ordered(self, order: NDArray[np.int64] | None) -> PromptIdentities:
        """Return the identities in replay order."""
        return self._identities.ordered(order)

    def read(self, document: bytes) -> None:
        """Read one session. Errors: TraceError with strict for the first bad row, and for another size of blocks."""
        self._local.clear()
        self._row = 0
        self._agents = 0
        session, _ = read_json(document.decode("utf-8", "surrogateescape"))
        if not isinstance(session, dict) or type(session.get("requests")) is not list:
            self._rows.reject(0, "requests", "is missing: the file is no session, one JSON object with a list of them")
            return
        size = session.get("block_size")
        if type(size) is not int or not 1 <= size <= LARGEST_BLOCK:
            self._rows.reject(0, "block_size", f"is {said(size)}, not a number of tokens up to {LARGEST_BLOCK}")
            return
        if self._identities.tokens_per_id not in (0, size):
            known = self._identities.tokens_per_id
            raise self._rows.error(0, "block_size", f"is {size}, and {known} in a session before; read them apart")
        self._identities.tokens_per_id = size
        self._scope = session.get("hash_id_scope")
        self._read_agent(session["requests"], agent=0, depth=0)

    def _read_agent(self, requests: list[Any], agent: int, depth: int) -> None:
        """Read the requests of one agent; their times are in order by themselves."""
        last, self._rows.last = self._rows.last, None
        for request in requests:
            nested = request.get("requests") if isinstance(request, dict) else None
            if type(nested) is list and depth < DEEPEST:
                self._agents += 1
                self._read_agent(nested, self._agents, depth + 1)
            else:
                self._row += 1
                self._read_request(request, agent)
        self._rows.last = last

    def _read_request(self, request: Any, agent: int) -> None:
        rows, row = self._rows, self._row
        if not isinstance(request, dict) or "requests" in request:
            rows.reject(row, "requests", f"has {said(request)}, not a request, or sub-agents {DEEPEST} deep")
            return
        if not has_columns(rows, row, request, ("t", "in", "out", "hash_ids")):
            return
        time, prompt, output, ids = (request[name] for name in ("t", "in", "out", "hash_ids"))
        ticks = ticks_of(time, TICKS_PER_SECOND)
        if ticks is None or ticks < 0:
            rows.reject(row, "t", f"is {said(time)}, not a time in seconds from 0")
            return
        if not has_tokens(rows, row, request, ("in", "out")):
            return
        size = self._identities.tokens_per_id
        reason = wrong_ids(ids, prompt, prompt // size, size)
        if reason:
            rows.reject(row, "hash_ids", reason)
            return
        rows.accept(row, ticks, prompt, output)
        self._identities.add_scoped(ids, self._numbers(agent), has_rest=prompt % size > 0)

    def _numbers(self, agent: int) -> dict[int, int]:
        """Return the numbers of the ids that this agent's requests can share."""
        if self._scope == "global":
            return self._shared
        return self._local.setdefault(0 if self._scope == "local" else agent, {})
