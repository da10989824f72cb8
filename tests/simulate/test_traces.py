"""Reading traces: what a real file may look like (R1, R3), and what is refused with its place."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pagedkv.errors import TraceError
from pagedkv.simulate import Load, Trace, read_trace

from .runs import simulate

HEADER = b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
R1_ROWS = (
    b"2023-11-16 18:00:00.0000000,5,3\r\n"
    b"2023-11-16 18:00:01.0000000,0,4\r\n"
    b"2023-11-16 18:00:02.0000000,4,0\r\n"
    b"2023-11-16 18:00:03.0000000,-2,1\r\n"
    b"2023-11-16 18:00:04.0000000,6,\r\n"
    b"\r\n"
)


def write(folder: Path, content: bytes) -> Path:
    file = folder / "trace.csv"
    file.write_bytes(content)
    return file


def requests(trace: Trace) -> list[tuple[int, int, int]]:
    load = trace.workload
    assert load.arrival_ticks is not None
    return list(zip(load.arrival_ticks.tolist(), load.prompt_tokens.tolist(), load.output_tokens.tolist(), strict=True))


def test_r1_lenient_drops_counts_and_lists(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, HEADER + R1_ROWS))
    assert requests(trace) == [(0, 5, 3)]
    assert (trace.rows, trace.dropped_rows, trace.bad_rows) == (5, 3, 1)
    assert [(row.row, row.column) for row in trace.skipped] == [
        (2, "ContextTokens"),
        (3, "GeneratedTokens"),
        (4, "ContextTokens"),
        (5, "GeneratedTokens"),
    ]
    result, _ = simulate(8, 4, Load(trace.workload))
    assert result.figures["peak_blocks"] == 2


def test_r1_strict_stops_at_the_first(tmp_path: Path) -> None:
    file = write(tmp_path, HEADER + R1_ROWS)
    with pytest.raises(TraceError) as caught:
        read_trace(file, strict=True)
    assert (caught.value.file, caught.value.row, caught.value.column) == (str(file), 2, "ContextTokens")


@pytest.mark.parametrize("column", ["TIMESTAMP", "ContextTokens", "GeneratedTokens"])
def test_r1_a_missing_column_is_an_error_not_zero_requests(tmp_path: Path, column: str) -> None:
    header = HEADER.replace(column.encode(), b"Other")
    with pytest.raises(TraceError, match="missing") as caught:
        read_trace(write(tmp_path, header + R1_ROWS))
    assert (caught.value.row, caught.value.column) == (0, column)


def test_r3_unsorted_is_sorted_stably_from_zero(tmp_path: Path) -> None:
    rows = b"2023-11-16 00:00:01,1,1\n2023-11-16 00:00:00.5,2,1\n2023-11-16 00:00:01.5,3,1\n2023-11-16 00:00:01,4,1\n"
    trace = read_trace(write(tmp_path, HEADER + rows))
    assert requests(trace) == [(0, 2, 1), (5_000_000, 1, 1), (5_000_000, 4, 1), (10_000_000, 3, 1)]
    assert not trace.was_sorted


def test_r3_unsorted_is_an_error_in_strict_mode(tmp_path: Path) -> None:
    rows = b"2023-11-16 00:00:01,1,1\n2023-11-16 00:00:00.5,2,1\n"
    with pytest.raises(TraceError, match="earlier") as caught:
        read_trace(write(tmp_path, HEADER + rows), strict=True)
    assert (caught.value.row, caught.value.column) == (2, "TIMESTAMP")


def test_r3_equal_times_keep_file_order(tmp_path: Path) -> None:
    rows = b"".join(b"2023-11-16 00:00:00,%d,1\n" % prompt for prompt in (7, 3, 9))
    trace = read_trace(write(tmp_path, HEADER + rows), strict=True)
    assert requests(trace) == [(0, 7, 1), (0, 3, 1), (0, 9, 1)]


@pytest.mark.parametrize(
    ("first", "second", "ticks"),
    [
        (b"2023-11-16 18:17:03.9799600", b"2023-11-16 18:17:04.0319600", 520_000),
        (b"2023-12-31 23:59:59.9999999", b"2024-01-01 00:00:00", 1),
        (b"2024-02-28 12:00:00", b"2024-03-01 12:00:00", 2 * 86_400 * 10**7),
        (b"2023-11-16 18:17:05.1", b"2023-11-16 18:17:05.1000001", 1),
        (b"1970-01-01 00:00:00.0000001", b"9999-12-31 23:59:59.9999999", 2_534_023_007_999_999_998),
    ],
)
def test_seven_digit_times_are_exact(tmp_path: Path, first: bytes, second: bytes, ticks: int) -> None:
    trace = read_trace(write(tmp_path, HEADER + first + b",1,1\n" + second + b",1,1\n"), strict=True)
    assert requests(trace)[1][0] == ticks


def test_bom_quotes_other_columns_and_no_final_newline(tmp_path: Path) -> None:
    content = b'\xef\xbb\xbf"GeneratedTokens",Model,"TIMESTAMP", ContextTokens\n"3",x,"2023-11-16 00:00:00", 7'
    assert requests(read_trace(write(tmp_path, content), strict=True)) == [(0, 7, 3)]


@pytest.mark.parametrize(
    "time",
    [
        b"2023-02-29 00:00:00",
        b"2023-11-16 24:00:00",
        b"2023-11-16 00:60:00",
        b"2023-11-16 00:00:60",
        b"2023-11-16 00:00:00.12345678",
        b"2023-11-16T00:00:00",
        b"2023-11-16 00:00:00+00:00",
        b"2023-11-16",
        b"1700000000",
        b"nan",
        b"",
        "٢٠٢٣-11-16 00:00:00".encode(),
        b"\xff\xfe\x00",
    ],
)
def test_bad_times_are_bad_rows(tmp_path: Path, time: bytes) -> None:
    trace = read_trace(write(tmp_path, HEADER + b"2023-11-16 00:00:00,1,1\n" + time + b",1,1\n"))
    assert (trace.bad_rows, trace.dropped_rows) == (1, 0)
    assert (trace.skipped[0].row, trace.skipped[0].column) == (2, "TIMESTAMP")


@pytest.mark.parametrize(
    "count", [b"1.0", b"1e3", b"nan", b"1_0", b"0x10", b"2147483648", b"9" * 60, "٣".encode(), b"+1"]
)
def test_bad_counts_are_bad_rows(tmp_path: Path, count: bytes) -> None:
    trace = read_trace(write(tmp_path, HEADER + b"2023-11-16 00:00:00,1,1\n2023-11-16 00:00:00,1," + count + b"\n"))
    assert (trace.bad_rows, trace.skipped[0].column) == (1, "GeneratedTokens")
    assert trace.skipped[0].reason.isprintable()


def test_the_first_twenty_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    rows = b"2023-11-16 00:00:00,1,1\n" + b"junk\n" * 30 + b"2023-11-16 00:00:00,0,1\n" * 5
    trace = read_trace(write(tmp_path, HEADER + rows))
    assert (trace.bad_rows, trace.dropped_rows, len(trace.skipped)) == (30, 5, 20)


def test_a_packed_file_is_read_as_what_is_in_it(tmp_path: Path) -> None:
    plain = read_trace(write(tmp_path, HEADER + R1_ROWS))
    packed = read_trace(
        write(tmp_path, gzip.compress(HEADER, mtime=0) + gzip.compress(R1_ROWS))
    )  # two members make one file
    assert requests(packed) == requests(plain)
    assert packed.skipped == plain.skipped


@pytest.mark.parametrize("strict", [False, True])
def test_a_packed_file_that_is_cut_or_damaged_is_an_error(tmp_path: Path, strict: bool) -> None:
    rows = b"".join(b"2023-11-16 00:00:00.%07d,%d,1\n" % (i, i * i % 997 + 1) for i in range(5000))
    content = gzip.compress(HEADER + rows, mtime=0)
    damaged = content[:-8] + bytes(8)  # the sum at the end
    for broken in (content[:-1], content[: len(content) // 2], content[:12], content[:2], damaged, content + b"x"):
        with pytest.raises(TraceError, match="cannot be unpacked") as caught:
            read_trace(write(tmp_path, broken), strict=strict)
        assert caught.value.file.endswith("trace.csv")
    with pytest.raises(TraceError):
        read_trace(write(tmp_path, content[:200] + b"\xff" * 50 + content[250:]), strict=strict)


def test_a_truncated_last_row_is_a_bad_row(tmp_path: Path) -> None:
    file = write(tmp_path, HEADER + b"2023-11-16 00:00:00,1,1\n2023-11-16 00:00")
    assert read_trace(file).bad_rows == 1
    with pytest.raises(TraceError, match="row 2"):
        read_trace(file, strict=True)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "empty"),
        (HEADER, "no rows"),
        (HEADER + b"junk\n" * 3, "none of the 3 rows"),
        (b"\x7fELF\x02\x01\x01\x00" * 100, "no text file"),
        (gzip.compress(bytes(range(256)), mtime=0), "no text file"),
        (gzip.compress(gzip.compress(HEADER + R1_ROWS, mtime=0), mtime=0), "no text file"),
        (gzip.compress(HEADER, mtime=0), "no rows"),
        (gzip.compress(b"", mtime=0), "empty"),
        ((HEADER + R1_ROWS).decode().encode("utf-16"), "no text file"),
        (b"\x00" * 200_000, "no text file"),
        (b"toks_in\ttoks_out\n1\t2\n", "format unknown"),
        (b'{"timestamp": 0, "tokens": 5}\n', "format unknown"),
        (b'{"timestamp": 0, "input_length": 5}\n', "output_length: none of the 1 rows"),
        (b'["input_length"]\n', "format unknown"),
        (b"TIMESTAMP,TIMESTAMP,ContextTokens,GeneratedTokens\n", "more than once"),
    ],
)
def test_files_that_are_no_trace(tmp_path: Path, content: bytes, text: str) -> None:
    file = write(tmp_path, content)
    with pytest.raises(TraceError, match=text) as caught:
        read_trace(file)
    assert caught.value.file == str(file)


@pytest.mark.parametrize("name", ["missing.csv", ".", "a\0b", "x" * 5000])
def test_paths_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError):
        read_trace(f"{tmp_path}/{name}")


def test_an_endless_line_is_one_bad_row(tmp_path: Path) -> None:
    rows = b"9" * 300_000 + b"\n2023-11-16 00:00:00,1,1\n0\n"
    trace = read_trace(write(tmp_path, HEADER + rows))
    assert [row.row for row in trace.skipped] == [1, 3]


def test_the_shared_bad_file(traces: Path) -> None:
    trace = read_trace(traces / "bad-rows" / "azure_bom_crlf_unsorted.csv")
    # 03.9799600 comes first although it is the second row; 05.1 is 1.12 s later, 09.0 is 5.02 s later.
    assert requests(trace) == [(0, 4808, 10), (520_000, 3180, 8), (11_200_400, 100, 5), (50_200_400, 50, 3)]
    assert (trace.dropped_rows, trace.bad_rows, trace.was_sorted) == (2, 1, False)
    assert [(row.row, row.column) for row in trace.skipped] == [
        (4, "ContextTokens"),
        (5, "GeneratedTokens"),
        (7, "ContextTokens"),
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300), headed=st.booleans(), strict=st.booleans())
@example(content=b"2023-11-16 00:00:00,1,1\n", headed=True, strict=True)
def test_any_bytes_give_a_trace_or_a_trace_error(tmp_path: Path, content: bytes, headed: bool, strict: bool) -> None:
    file = write(tmp_path, HEADER + content if headed else content)
    try:
        trace = read_trace(file, strict=strict)
    except TraceError:
        return
    assert len(trace.workload) == trace.rows - trace.dropped_rows - trace.bad_rows > 0


@pytest.mark.parametrize("time", [10**14 - 1, 10**14, 2**49 - 1, 2**49, 10**15 - 1, 2**52 - 1])
@pytest.mark.parametrize(
    "line",
    [
        '{"arrival_ms": TIME, "prompt_tokens": 5, "output_tokens": 1}\n',
        '{"timestamp": TIME, "input_length": 5, "output_length": 1, "hash_ids": [0]}\n',
    ],
)
def test_times_whose_ticks_pass_64_bits_are_bad_rows(tmp_path: Path, line: str, time: int) -> None:
    file = tmp_path / "trace"
    file.write_text(line.replace("TIME", str(time)) * 2)
    if time < 2**49:
        load = read_trace(file, strict=True).workload
        assert load.arrival_ticks is not None
        assert load.arrival_ticks.tolist() == [0, 0]
        return
    with pytest.raises(TraceError) as caught:
        read_trace(file)
    assert (caught.value.row, caught.value.column) == (1, line.split('"')[1])
