"""Both ways through a delimited file agree; bounds of packed files; formats that are forced; two readers of one row."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagedkv.errors import InvalidArgumentError, TraceError
from pagedkv.simulate import Trace, read_trace
from pagedkv.simulate.traces import FORMATS, delimited, mooncake, own, source
from pagedkv.simulate.traces.rows import TraceRows

HEADERS = {
    "azure-csv": "TIMESTAMP,ContextTokens,GeneratedTokens",
    "burstgpt-csv": "Timestamp,Model,Request tokens,Response tokens",
    "prefill-decode-csv": "num_prefill_tokens,num_decode_tokens,pd_ratio",
    "input-output-csv": "input_len,output_len,arrival_s",
    "toks-tsv": "input_toks\toutput_toks",
}
CELLS = st.one_of(
    st.integers(-3, 5000).map(str),
    st.sampled_from(
        [
            "2023-11-16 18:00:00.0000001",
            "2023-11-16 18:00:00.5",
            "2023-11-16 18:00:00.-123456",
            "2023-11-16 18:00:00. 12345",
            "2023-11-31 18:00:00.0000000",
            "0.52",
            "1.",
            ".5",
            "1.-5",
            "1_0",
            "+1",
            " 7 ",
            "",
            '"8"',
            '"1,2"',
            "2147483648",
            "-9223372036854775808",
            "9" * 30,
            "٣",
            "é",
            "x",
        ]
    ),
)
ROWS = st.lists(st.lists(CELLS, max_size=5), max_size=8)


def outcome(file: Path, *, strict: bool) -> object:
    """What reading gives, in a form that can be compared."""
    try:
        trace = read_trace(file, strict=strict)
    except TraceError as error:
        return str(error)
    load = trace.workload
    ticks = None if load.arrival_ticks is None else load.arrival_ticks.tolist()
    counts = (trace.rows, trace.dropped_rows, trace.bad_rows, trace.skipped, trace.was_sorted)
    known = load.identities
    ids = None if known is None else (known.ids.tolist(), known.starts.tolist())
    turns = load.conversations
    if turns is not None:
        ids = (turns.parent.tolist(), turns.prefix.tolist(), turns.prefix_tokens.tolist())
    return trace.format, ticks, load.prompt_tokens.tolist(), load.output_tokens.tolist(), ids, counts


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(form=st.sampled_from(sorted(HEADERS)), rows=ROWS, strict=st.booleans(), crlf=st.booleans())
def test_chunks_and_single_lines_give_the_same(
    tmp_path: Path, form: str, rows: list[list[str]], strict: bool, crlf: bool
) -> None:
    mark = "\t" if form == "toks-tsv" else ","
    lines = [HEADERS[form], *(mark.join(row) for row in rows)]
    file = tmp_path / "trace"
    file.write_bytes(("\r\n" if crlf else "\n").join(lines).encode())
    fast = outcome(file, strict=strict)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited._Table, "_columns", lambda *_: None)
        assert outcome(file, strict=strict) == fast


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    times=st.lists(st.decimals(0, 10**9, places=4, allow_nan=False), min_size=1, max_size=8),
    counts=st.tuples(st.integers(-1, 3000), st.integers(0, 3000)),
    timed=st.booleans(),
    strict=st.booleans(),
)
def test_plain_rows_of_our_own_are_what_a_json_reader_gives(
    tmp_path: Path, times: list[object], counts: tuple[int, int], timed: bool, strict: bool
) -> None:
    rows = [
        f'{{"arrival_ms": {time}, "prompt_tokens": {place + 1}, "output_tokens": 7}}\n'
        for place, time in enumerate(times)
    ]
    rows.append(f'{{"arrival_ms": 5, "prompt_tokens": {counts[0]}, "output_tokens": {counts[1]}}}\n')
    if not timed:
        rows = ["{" + row.partition(", ")[2] for row in rows]
    file = tmp_path / "trace"
    file.write_text("".join(rows))
    fast = outcome(file, strict=strict)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own._Reader, "_read_plain", lambda *_: False)
        assert outcome(file, strict=strict) == fast


MOONCAKE_TIMES = st.sampled_from(["0", "7", "1000", "-3", "007", "1.5", "1e3"])
MOONCAKE_IDS = st.sampled_from(
    ["", "0", "1, 0", "5, 5", "7,8", "9223372036854775808", "3, 123456789012345", "-1", "02"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(MOONCAKE_TIMES, st.integers(0, 1100), st.integers(0, 3), MOONCAKE_IDS)
        | st.just(("0", 513, 1, "4, 2")),
        min_size=1,
        max_size=6,
    ),
    strict=st.booleans(),
)
def test_plain_rows_of_mooncake_are_what_a_json_reader_gives(
    tmp_path: Path, rows: list[tuple[str, int, int, str]], strict: bool
) -> None:
    file = tmp_path / "trace"
    lines = [
        f'{{"timestamp": {time}, "input_length": {prompt}, "output_length": {output}, "hash_ids": [{ids}]}}\n'
        for time, prompt, output, ids in rows
    ]
    file.write_text("".join(lines) + lines[0] * 3)
    fast = outcome(file, strict=strict)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mooncake.Mooncake, "_read_plain", lambda *_: False)
        assert outcome(file, strict=strict) == fast


@pytest.mark.parametrize("size", [1, 7, 64])
def test_any_size_of_chunk_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    file = tmp_path / "trace"
    rows = [f"{place},x,{place % 50},{3 + place % 2}" for place in range(200)]
    file.write_text("\n".join([HEADERS["burstgpt-csv"], *rows, "1,x,y,z", "", "300,x,5,5"]))
    whole = outcome(file, strict=False)
    monkeypatch.setattr(source, "CHUNK", size)
    assert outcome(file, strict=False) == whole


def test_bad_rows_far_behind_have_their_own_number(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    rows = ["5,3"] * 100_000
    rows[70_000], rows[70_001], rows[99_999] = "5,0", "5", "x,1"
    file.write_text("\n".join(["input_len,output_len", *rows]))
    trace = read_trace(file)
    assert [(row.row, row.column) for row in trace.skipped] == [
        (70_001, "output_len"),
        (70_002, "output_len"),
        (100_000, "input_len"),
    ]
    assert (trace.rows, len(trace.workload)) == (100_000, 99_997)


@pytest.mark.parametrize("count", ["-9223372036854775808", "9223372036854775808", "-2147483649"])
def test_counts_at_the_end_of_64_bits_are_the_same_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: str
) -> None:
    file = tmp_path / "trace"
    file.write_text(f"input_len,output_len\n5,3\n{count},3\n")
    fast = outcome(file, strict=False)
    monkeypatch.setattr(delimited._Table, "_columns", lambda *_: None)
    assert outcome(file, strict=False) == fast


def test_a_packed_file_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "UNPACKED_BYTES", 1 << 16)
    file = tmp_path / "trace.gz"
    header = b"input_len,output_len\n"
    for tail in (b"5,3\n" * (1 << 22), b"\0" * (1 << 24), b"1" * (1 << 24)):
        file.write_bytes(gzip.compress(header + tail))
        with pytest.raises(TraceError, match="unpacks to more than"):
            read_trace(file)
    file.write_bytes(gzip.compress(header + b"5,3\n" * 1000))
    assert len(read_trace(file).workload) == 1000


def test_a_document_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LARGEST_DOCUMENT", 1 << 17)
    file = tmp_path / "trace.json"
    file.write_text('{"requests": [' + " " * (1 << 18) + "]}")
    with pytest.raises(TraceError, match="split it into sessions"):
        read_trace(file)


def test_a_format_that_does_not_exist_is_told_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"format is 'csv'; give one of azure-csv, .*mooncake-jsonl"):
        read_trace(tmp_path / "trace", format="csv")


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_a_folder_is_read_as_sessions_only(tmp_path: Path, known: object) -> None:
    name = str(getattr(known, "name", ""))
    with pytest.raises(TraceError, match="without .json" if name == "kv-cache-tester" else "give a file"):
        read_trace(tmp_path, format=name)


def test_quoted_cells_may_hold_the_delimiter(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_text('Timestamp,"Log, Type","Request tokens",Response tokens\n5,"a, b",7,3\n"6","a ""b"", c","8","4"\n')
    trace = read_trace(file, strict=True)
    assert trace.workload.prompt_tokens.tolist() == [7, 8]
    assert trace.workload.output_tokens.tolist() == [3, 4]


def test_values_take_eight_bytes_each(tmp_path: Path) -> None:
    rows = TraceRows(tmp_path, strict=False)
    for row in range(1000):
        rows.accept(row, row, 1, 1)
    columns: Iterable[int] = (part.itemsize * len(part) for part in (rows.ticks, rows.prompts, rows.outputs))
    assert list(columns) == [8000] * 3


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    form=st.sampled_from([known.name for known in FORMATS]),
    text=st.text(max_size=200),
    head=st.sampled_from(
        ["", *HEADERS.values(), '{"pagedkv_trace": 1}', '{"requests": [', '{"block_size": 4, "requests"']
    ),
    strict=st.booleans(),
)
def test_any_text_is_requests_or_a_trace_error(tmp_path: Path, form: str, text: str, head: str, strict: bool) -> None:
    file = tmp_path / "trace"
    file.write_text(head + "\n" + text, encoding="utf-8", errors="surrogatepass", newline="")
    for forced in (form, None):
        try:
            trace: Trace = read_trace(file, strict=strict, format=forced)
        except TraceError:
            continue
        assert len(trace.workload) == trace.rows - trace.dropped_rows - trace.bad_rows > 0


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**33) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
OBJECTS = st.dictionaries(
    st.sampled_from(
        [
            *("arrival_ms", "prompt_tokens", "output_tokens", "hash_ids", "session", "prefix", "prefix_tokens"),
            *("pagedkv_trace", "tokens_per_id", "timestamp", "input_length", "output_length", "requests"),
            *("block_size", "hash_id_scope", "t", "in", "out", "type"),
        ]
    ),
    st.integers(0, 3) | ANYTHING,
    min_size=3,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(OBJECTS, min_size=1, max_size=5), strict=st.booleans())
def test_any_objects_are_requests_or_a_trace_error(tmp_path: Path, rows: list[object], strict: bool) -> None:
    import json

    file = tmp_path / "trace"
    file.write_text("\n".join(map(json.dumps, rows)))
    for forced in ("pagedkv-jsonl", "mooncake-jsonl", None):
        try:
            trace = read_trace(file, strict=strict, format=forced)
        except TraceError:
            continue
        assert len(trace.workload) == trace.rows - trace.dropped_rows - trace.bad_rows > 0
    file.write_text(json.dumps({"block_size": 2, "hash_id_scope": "local", "requests": rows}))
    try:
        trace = read_trace(file, strict=strict)
    except TraceError:
        return
    assert len(trace.workload) == trace.rows - trace.dropped_rows - trace.bad_rows > 0
