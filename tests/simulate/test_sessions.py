"""kv-cache-tester's sessions: local ids, floor of full blocks, sub-agents, folders."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pagedkv.errors import TraceError
from pagedkv.simulate import Trace, read_trace


def request(time: Any, prompt: Any, ids: Any, output: Any = 1) -> dict[str, Any]:
    return {"t": time, "type": "s", "in": prompt, "out": output, "hash_ids": ids}


def agent(time: float, *requests: Any) -> dict[str, Any]:
    return {"t": time, "type": "subagent", "agent_id": "x", "requests": list(requests)}


def session(*requests: Any, scope: Any = "local", size: Any = 4) -> dict[str, Any]:
    return {"id": "s", "block_size": size, "hash_id_scope": scope, "requests": list(requests)}


def read(folder: Path, *sessions: Any, strict: bool = False, indent: int | None = None) -> Trace:
    for place, one in enumerate(sessions):
        (folder / f"trace_{place:04}.json").write_text(json.dumps(one, indent=indent))
    return read_trace(folder if len(sessions) > 1 else folder / "trace_0000.json", strict=strict)


def ids(trace: Trace) -> list[list[int]]:
    known = trace.workload.identities
    assert known is not None
    return [known.of(place).tolist() for place in range(len(known))]


@pytest.mark.parametrize("indent", [None, 2])
def test_full_blocks_have_ids_and_a_rest_is_like_nothing_else(tmp_path: Path, indent: int | None) -> None:
    trace = read(tmp_path, session(request(0.5, 5, [1]), request(0.75, 5, [1]), request(2, 8, [1, 0])), indent=indent)
    assert trace.format == "kv-cache-tester"
    assert ids(trace) == [[0, 1], [0, 2], [0, 3]]
    assert trace.workload.arrival_ticks is not None
    assert trace.workload.arrival_ticks.tolist() == [0, 2_500_000, 15_000_000]


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ("local", [[0, 1], [2], [0, 3], [2, 4]]),
        ("global", [[0, 1], [0], [0, 2], [0, 3]]),
        ("per_context", [[0, 1], [2], [3, 4], [2, 5]]),
        (None, [[0, 1], [2], [3, 4], [2, 5]]),
    ],
)
def test_ids_mean_something_in_their_scope(tmp_path: Path, scope: Any, found: list[list[int]]) -> None:
    first = session(request(0, 8, [1, 2]), agent(2, request(2, 8, [1, 7])), scope=scope)
    second = session(request(0, 4, [1]), request(3, 8, [1, 9]), scope=scope)
    assert ids(read(tmp_path, first, second)) == found


def test_sub_agents_are_requests_on_the_same_clock(tmp_path: Path) -> None:
    nested = agent(1, request(1, 2, []), agent(2, request(2, 3, [])), request(4, 4, [8]))
    trace = read(tmp_path, session(request(0, 1, []), nested, request(3, 5, [1])), strict=True)
    assert trace.workload.prompt_tokens.tolist() == [1, 2, 3, 5, 4]
    assert trace.was_sorted  # each agent by itself is


def test_every_session_starts_at_time_zero_in_the_order_of_names(tmp_path: Path) -> None:
    trace = read(
        tmp_path, session(request(0, 1, []), request(9, 2, [])), session(request(0, 3, []), request(5, 4, [8]))
    )
    assert trace.workload.prompt_tokens.tolist() == [1, 3, 4, 2]
    assert (trace.was_sorted, trace.rows) == (True, 4)


@pytest.mark.parametrize(
    ("bad", "column"),
    [
        (5, "requests"),
        ({"requests": 1}, "requests"),
        ({}, "t"),
        (request(None, 4, [1]), "t"),
        (request(-1, 4, [1]), "t"),
        (request(1, 4.0, [1]), "in"),
        (request(1, 4, [1], None), "out"),
        (request(1, 4, [1, 2]), "hash_ids"),
        (request(1, 7, []), "hash_ids"),
        (request(1, 4, ["1"]), "hash_ids"),
    ],
)
def test_bad_requests_are_listed_with_their_file(tmp_path: Path, bad: Any, column: str) -> None:
    sessions = (session(request(0, 4, [1])), session(request(0, 4, [1]), bad))
    trace = read(tmp_path, *sessions)
    assert [(one.row, one.column) for one in trace.skipped] == [(2, column)]
    assert "trace_0001.json" in trace.skipped[0].reason
    with pytest.raises(TraceError) as caught:
        read(tmp_path, *sessions, strict=True)
    assert caught.value.file.endswith("trace_0001.json")
    assert (caught.value.row, caught.value.column) == (2, column)


@pytest.mark.parametrize(
    "document", [[], {"requests": 5}, {"block_size": 4, "requests": {}}, session(size=0), session(size="4")]
)
def test_a_file_that_is_no_session(tmp_path: Path, document: Any) -> None:
    trace = read(tmp_path, session(request(0, 4, [1])), document)
    assert (len(trace.workload), trace.bad_rows) == (1, 1)
    (tmp_path / "only").mkdir()
    with pytest.raises(TraceError):
        read(tmp_path / "only", document)


def test_blocks_of_two_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is 8, and 4 in a session before"):
        read(tmp_path, session(request(0, 4, [1])), session(request(0, 8, [1]), size=8))


def test_agents_too_deep_are_a_bad_row(tmp_path: Path) -> None:
    nested: dict[str, Any] = request(1, 4, [1])
    for _ in range(40):
        nested = agent(1, nested)
    trace = read(tmp_path, session(request(0, 4, [1]), nested))
    assert (len(trace.workload), trace.bad_rows) == (1, 1)


def test_a_folder_may_hold_packed_sessions_and_other_files(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(json.dumps(session(request(0, 4, [1]))).encode()))
    (tmp_path / "README.md").write_text("no session")
    assert len(read_trace(tmp_path).workload) == 1
    (tmp_path / "b.json").write_bytes(b"")
    with pytest.raises(TraceError, match="is empty") as caught:
        read_trace(tmp_path)
    assert caught.value.file.endswith("b.json")
