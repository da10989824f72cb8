"""Mooncake's traces: one object a line with the identities of its prompt; what is dropped and what refused (R1, R3)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagedkv.errors import InvalidArgumentError, TraceError
from pagedkv.simulate import Trace, Workload, read_trace
from pagedkv.simulate.identities import join_identities

GOOD = '{"timestamp": 7, "input_length": 600, "output_length": 2, "hash_ids": [5, 6]}'


def row(time: Any = 0, prompt: Any = 512, output: Any = 1, ids: Any = (1,)) -> str:
    ids = list(ids) if isinstance(ids, tuple) else ids
    return json.dumps({"timestamp": time, "input_length": prompt, "output_length": output, "hash_ids": ids})


def read(folder: Path, *rows: str, strict: bool = False) -> Trace:
    file = folder / "trace.jsonl"
    file.write_bytes("\n".join(rows).encode("utf-8", "surrogateescape"))
    return read_trace(file, strict=strict)


def identities(trace: Trace) -> list[list[int]]:
    known = trace.workload.identities
    assert known is not None
    return [known.of(request).tolist() for request in range(len(known))]


def test_columns_units_and_order(tmp_path: Path) -> None:
    trace = read(tmp_path, row(3, 1025, 4, (9, 0, 9)), row(1.5, 513, 2, (0, 7)), row(3, 1, 1, (9,)))
    load = trace.workload
    assert (trace.format, trace.was_sorted, trace.rows) == ("mooncake-jsonl", False, 3)
    assert load.prompt_tokens.tolist() == [513, 1025, 1]
    assert load.output_tokens.tolist() == [2, 4, 1]
    assert load.arrival_ticks is not None
    assert load.arrival_ticks.tolist() == [0, 15_000, 15_000]
    assert identities(trace) == [[0, 1], [2, 0, 2], [2]]  # numbered anew, equal where the file's are equal
    assert load.identities is not None
    assert load.identities.tokens_per_id == 512
    one = load.first(1).identities
    assert one is not None
    assert (len(one), one.ids.tolist()) == (1, [0, 1])


def test_strict_refuses_times_that_go_back(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="earlier") as caught:
        read(tmp_path, row(3), row(1), strict=True)
    assert (caught.value.row, caught.value.column) == (2, "timestamp")


@pytest.mark.parametrize(
    ("prompt", "count", "fits"), [(20, 2, False), (20, 1, True), (6758, 14, True), (512, 1, True), (513, 2, True)]
)
def test_r1_as_many_ids_as_the_length_needs(tmp_path: Path, prompt: int, count: int, fits: bool) -> None:
    trace = read(tmp_path, GOOD, row(8, prompt, 1, tuple(range(count))))
    assert (trace.bad_rows, len(trace.workload)) == ((0, 2) if fits else (1, 1))
    if not fits:
        assert (trace.skipped[0].row, trace.skipped[0].column) == (2, "hash_ids")
        assert "20 tokens have 1" in trace.skipped[0].reason
        with pytest.raises(TraceError, match="row 2, column hash_ids"):
            read(tmp_path, GOOD, row(8, prompt, 1, tuple(range(count))), strict=True)


def test_the_shared_bad_file(traces: Path) -> None:
    file = traces / "bad-rows" / "mooncake_short_hash.jsonl"
    trace = read_trace(file)
    assert (trace.rows, trace.dropped_rows, trace.bad_rows, len(trace.workload)) == (6, 1, 4, 1)
    assert [(skipped.row, skipped.column) for skipped in trace.skipped] == [
        (2, "output_length"),
        (3, "hash_ids"),
        (4, "hash_ids"),
        (6, "hash_ids"),
        (7, "timestamp"),
    ]
    with pytest.raises(TraceError) as caught:
        read_trace(file, strict=True)
    assert (caught.value.row, caught.value.column) == (2, "output_length")


@pytest.mark.parametrize(
    ("name", "requests", "ids", "different"),
    [("conversation_trace.jsonl.gz", 12_031, 288_500, 182_790), ("synthetic_trace.jsonl", 3_993, 121_877, 43_924)],
)
def test_the_real_files(traces: Path, name: str, requests: int, ids: int, different: int) -> None:
    trace = read_trace(traces / "mooncake-fast25" / name, strict=True)
    known = trace.workload.identities
    assert known is not None
    assert (len(trace.workload), len(known.ids), len(np.unique(known.ids))) == (requests, ids, different)
    assert trace.was_sorted


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("", None),
        ("   ", None),
        ("junk", "timestamp"),
        (GOOD[:-1], "timestamp"),
        (GOOD + "}", "timestamp"),
        ("[1, 2]", "timestamp"),
        ("null", "timestamp"),
        ('"input_length"', "timestamp"),
        ("[" * 60_000, "timestamp"),
        ('{"a": ' * 9_000, "timestamp"),
        ("\udcff", "timestamp"),
        ("1" * 50_000, "timestamp"),
        (GOOD.replace("timestamp", "time"), "timestamp"),
        (GOOD.replace("input_length", "input"), "input_length"),
        (GOOD.replace("output_length", "output"), "output_length"),
        (GOOD.replace("hash_ids", "hashes"), "hash_ids"),
        *((row(time=time), "timestamp") for time in ("0", None, True, [0], {}, 2**60, -(2**60), float("nan"), 10**400)),
        *(
            (GOOD.replace(": 7", f": {time}"), "timestamp")
            for time in ("1e99", "1e999999999", "-1e40", "1e" + "9" * 30)
        ),
        *((row(prompt=count), "input_length") for count in ("512", 512.0, None, True, [512], 2**31, 10**400)),
        *((row(output=count), "output_length") for count in ("1", 1.5, None, False, {}, 2**31)),
        *((row(prompt=count), "input_length") for count in (0, -1, -(10**30))),
        *((row(ids=ids), "hash_ids") for ids in (None, 1, "1", {}, {"1": 1}, [], [1, 2], [[1]], ["1"], [1.0], [True])),
        *((row(ids=ids), "hash_ids") for ids in ([None], [-1], [-(10**30)], [float("inf")])),
    ],
)
def test_lines_that_are_no_request(tmp_path: Path, line: str, column: str | None) -> None:
    trace = read(tmp_path, GOOD, line, GOOD)
    assert len(trace.workload) == 2
    assert [(skipped.row, skipped.column) for skipped in trace.skipped] == ([] if column is None else [(2, column)])
    assert all(skipped.reason.isprintable() and len(skipped.reason) < 150 for skipped in trace.skipped)


def test_ids_of_any_size_are_told_apart(tmp_path: Path) -> None:
    ids = (2**31, 2**31 - 1, 2**63, 2**64 - 1, 2**31, 10**400, 0)
    trace = read(tmp_path, row(prompt=512 * len(ids), ids=ids), strict=True)
    assert identities(trace) == [[0, 1, 2, 3, 0, 4, 5]]


def test_a_line_of_any_length_is_one_row(tmp_path: Path) -> None:
    trace = read(tmp_path, GOOD, GOOD[:-1] + " " * 1_200_000 + "}", GOOD)
    assert (len(trace.workload), trace.bad_rows, trace.skipped[0].row) == (2, 1, 2)


@pytest.mark.parametrize("cut", [1, 9, 100])
def test_a_packed_file_that_ends_early(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "trace.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(row(i, 1, 1, (i * i,)) for i in range(3000)).encode())[:-cut])
    with pytest.raises(TraceError, match=r"cannot be unpacked after row \d+ \(cut or damaged"):
        read_trace(file)


def test_a_workload_has_the_identities_that_its_lengths_need() -> None:
    prompts, outputs = np.array([3, 4], dtype=np.int64), np.array([1, 1], dtype=np.int64)
    Workload(prompts, outputs, identities=join_identities([[0], [0]], 4))
    with pytest.raises(InvalidArgumentError, match="prompt 1 has 2 identities; 4 tokens need 1"):
        Workload(prompts, outputs, identities=join_identities([[0], [0, 1]], 4))
    with pytest.raises(InvalidArgumentError, match="1 prompts for 2 requests"):
        Workload(prompts, outputs, identities=join_identities([[0]], 4))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200), packed=st.booleans(), strict=st.booleans())
def test_any_bytes_give_a_trace_or_a_trace_error(tmp_path: Path, content: bytes, packed: bool, strict: bool) -> None:
    file = tmp_path / "trace.jsonl"
    content = GOOD.encode() + b"\n" + content
    file.write_bytes(gzip.compress(content) if packed else content)
    try:
        trace = read_trace(file, strict=strict)
    except TraceError:
        assert strict
        return
    assert len(trace.workload) == trace.rows - trace.dropped_rows - trace.bad_rows > 0
