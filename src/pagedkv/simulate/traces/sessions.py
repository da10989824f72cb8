"""kv-cache-tester's sessions (Apache-2.0): one JSON document a session, or a folder of them.

{"id", "block_size": 64, "hash_id_scope": "local", "requests": [{"t": 0.0, "type": "s", "in": 15161, "out": 291,
"hash_ids": [1, 2, ...]}, ...]}: seconds from the session's start, tokens, and an id for every *full* block of the
prompt. A request of type "subagent" has `requests` of its own, on the same clock. Every session starts at time 0.
"""

from __future__ import annotations

from pagedkv.simulate.traces.opening import open_source
from pagedkv.simulate.traces.rows import Trace, TraceRows
from pagedkv.simulate.traces.session import SessionReader
from pagedkv.simulate.traces.source import TraceSource


class Sessions:
    """The reader. Rows are requests, sub-agents' included, in the order of the document, from 1 in every file."""

    name = "kv-cache-tester"
    columns = ("t", "in", "out", "hash_ids")

    def recognizes(self, first_line: str) -> bool:
        """Whether this is, or was meant to be, such a document: an object over many lines, or with `requests` in it."""
        line = first_line.strip()
        return line == "{" or (line.startswith("{") and '"requests"' in line)

    def read(self, source: TraceSource, rows: TraceRows) -> Trace:
        """Read one session. Errors: TraceError with `rows.strict` for the first bad row, or if no row is left."""
        reader = SessionReader(rows)
        reader.read(source.document())
        return rows.finish(self.name, reader)

    def read_folder(self, rows: TraceRows) -> Trace:
        """Read all sessions of the folder `rows.file`, in the order of their names. Errors: as `read`."""
        files = sorted(file for file in rows.file.iterdir() if file.name.endswith((".json", ".json.gz")))
        if not files:
            raise rows.error(None, None, "is a folder without .json files; give a trace file, or a folder of sessions")
        reader = SessionReader(rows)
        for rows.part in files:
            with open_source(rows.part, rows) as source:
                reader.read(source.document())
        rows.part = None
        return rows.finish(self.name, reader)


SESSIONS = Sessions()
