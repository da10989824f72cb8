"""R1: rows with zero, negative or missing values are counted and listed, or stop the reader; never a silent nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pagedkv.errors import TraceError
from pagedkv.layout import OpaqueLayout
from pagedkv.simulate import Load, PoolSpec, Simulation, read_trace

from .rows_of_formats import COLUMNS, Row, content, requests

ROWS: list[Row | None] = [(0, 5, 3), (1, 0, 4), (2, 4, 0), (3, -2, 1), (4, 6, None), None]


def write(folder: Path, data: bytes) -> Path:
    file = folder / "trace"
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("form", COLUMNS)
def test_r1_lenient_accepts_one_and_lists_four(tmp_path: Path, form: str) -> None:
    trace = read_trace(write(tmp_path, content(form, ROWS)))
    _, prompt, output = COLUMNS[form]
    assert trace.format == form
    assert requests(trace) == [(0, 5, 3)]
    assert (trace.rows, trace.dropped_rows, trace.bad_rows) == (5, 3, 1)
    assert [(row.row, row.column) for row in trace.skipped] == [(2, prompt), (3, output), (4, prompt), (5, output)]
    said = ("is 0", "is 0", "is -2", "is missing")
    assert all(row.reason.startswith(words) for row, words in zip(trace.skipped, said, strict=True))


@pytest.mark.parametrize("form", COLUMNS)
def test_r1_strict_stops_at_row_2(tmp_path: Path, form: str) -> None:
    file = write(tmp_path, content(form, ROWS))
    with pytest.raises(TraceError) as caught:
        read_trace(file, strict=True)
    assert (caught.value.file, caught.value.row, caught.value.column) == (str(file), 2, COLUMNS[form][1])


@pytest.mark.parametrize("form", COLUMNS)
def test_r1_the_accepted_row_peaks_at_two_blocks(tmp_path: Path, form: str) -> None:
    trace = read_trace(write(tmp_path, content(form, ROWS)))
    result = Simulation(PoolSpec(OpaqueLayout(24, 4), 8), Load(trace.workload), device="host", verify=True).run()
    assert (result.figures["peak_blocks"], result.figures["peak_tokens"]) == (2, 7)
    assert not result.failures


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("form", "column"), [(f, c) for f, names in COLUMNS.items() for c in names[1:]])
def test_r1_a_file_without_the_column_names_it(tmp_path: Path, form: str, column: str, strict: bool) -> None:
    data = content(form, ROWS[:1]).replace(f"{column}".encode(), b"other", 1)
    with pytest.raises(TraceError, match="missing") as caught:
        read_trace(write(tmp_path, data), strict=strict, format=form)
    assert caught.value.column == column


@pytest.mark.parametrize("form", [name for name in COLUMNS if name.endswith(("csv", "tsv"))])
def test_r1_only_bad_rows_are_an_error_with_the_first_reason(tmp_path: Path, form: str) -> None:
    with pytest.raises(TraceError, match="none of the 4 rows") as caught:
        read_trace(write(tmp_path, content(form, ROWS[1:])))
    assert (caught.value.row, caught.value.column) == (1, COLUMNS[form][1])


@pytest.mark.parametrize(("prompt", "ids", "fits"), [(20, 2, False), (6758, 14, True), (512, 1, True), (513, 2, True)])
def test_r1_ids_match_the_length(tmp_path: Path, prompt: int, ids: int, fits: bool) -> None:
    rows = [
        {"timestamp": time, "input_length": length, "output_length": 1, "hash_ids": list(range(count))}
        for time, (length, count) in enumerate([(512, 1), (prompt, ids)])
    ]
    file = write(tmp_path, "\n".join(map(json.dumps, rows)).encode())
    trace = read_trace(file)
    assert (len(trace.workload), trace.bad_rows) == ((2, 0) if fits else (1, 1))
    if not fits:
        assert (trace.skipped[0].row, trace.skipped[0].column) == (2, "hash_ids")
        with pytest.raises(TraceError, match="20 tokens have 1"):
            read_trace(file, strict=True)


@pytest.mark.parametrize(("prompt", "ids", "fits"), [(63, 0, True), (64, 1, True), (127, 1, True), (127, 2, False)])
def test_r1_sessions_have_ids_for_full_blocks_only(tmp_path: Path, prompt: int, ids: int, fits: bool) -> None:
    session = {
        "block_size": 64,
        "hash_id_scope": "local",
        "requests": [
            {"t": t, "in": p, "out": 1, "hash_ids": list(range(n))} for t, p, n in ((0, 1, 0), (1, prompt, ids))
        ],
    }
    trace = read_trace(write(tmp_path, json.dumps(session).encode()))
    assert (len(trace.workload), trace.bad_rows) == ((2, 0) if fits else (1, 1))
    if fits:
        known = trace.workload.identities
        assert known is not None
        assert len(known.of(1)) == -(-prompt // 64)  # the rest is like nothing else, and has an id of its own


def test_r1_the_shared_bad_files(traces: Path) -> None:
    folder = traces / "bad-rows"
    azure = read_trace(folder / "azure_bom_crlf_unsorted.csv")
    assert (azure.rows, azure.dropped_rows, azure.bad_rows) == (7, 2, 1)
    assert [(row.row, row.column) for row in azure.skipped] == [
        (4, "ContextTokens"),
        (5, "GeneratedTokens"),
        (7, "ContextTokens"),
    ]
    burst = read_trace(folder / "burstgpt_v2_columns.csv")
    assert (burst.format, burst.rows, burst.dropped_rows, burst.bad_rows) == ("burstgpt-csv", 3, 1, 0)
    assert requests(burst) == [(0, 472, 18), (1_130_000_000, 417, 276)]
    assert [(row.row, row.column) for row in burst.skipped] == [(2, "Request tokens")]
    mooncake = read_trace(folder / "mooncake_short_hash.jsonl")
    assert (mooncake.rows, mooncake.dropped_rows, mooncake.bad_rows) == (6, 1, 4)
    assert requests(mooncake) == [(0, 1025, 3)]


@pytest.mark.parametrize(
    ("name", "row", "column"),
    [
        ("azure_bom_crlf_unsorted.csv", 2, "TIMESTAMP"),  # earlier than the row before, and bad rows come later
        ("burstgpt_v2_columns.csv", 2, "Request tokens"),
        ("mooncake_short_hash.jsonl", 2, "output_length"),
    ],
)
def test_r1_the_shared_bad_files_in_strict_mode(traces: Path, name: str, row: int, column: str) -> None:
    with pytest.raises(TraceError) as caught:
        read_trace(traces / "bad-rows" / name, strict=True)
    assert (caught.value.row, caught.value.column) == (row, column)
