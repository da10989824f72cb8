"""pagedkv's own traces: what a row may say, sessions and prefixes, and that writing and reading are inverses."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagedkv.errors import InvalidArgumentError, TraceError
from pagedkv.simulate import Conversations, Lognormal, SyntheticLoad, Trace, Turns, Uniform, Workload, read_trace
from pagedkv.simulate.identities import join_identities
from pagedkv.simulate.traces.writing import write_trace


def read(folder: Path, *rows: str, strict: bool = False) -> Trace:
    file = folder / "trace.jsonl"
    file.write_text("\n".join(rows), encoding="utf-8")
    return read_trace(file, strict=strict)


def row(time: Any = 0, prompt: Any = 8, output: Any = 2, more: str = "") -> str:
    return f'{{"arrival_ms": {time}, "prompt_tokens": {prompt}, "output_tokens": {output}{more}}}'


def conversations(trace: Trace) -> Conversations:
    known = trace.workload.conversations
    assert known is not None
    return known


def test_times_are_exact_to_100_ns(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="two clocks"):
        read(tmp_path, row(0), row("1790000000000"))
    trace = read(tmp_path, row("0.0001"), row("0.00029"), row("1e3"), strict=True)
    assert trace.workload.arrival_ticks is not None
    assert trace.workload.arrival_ticks.tolist() == [0, 1, 9_999_999]


def test_without_times(tmp_path: Path) -> None:
    rows = ['{"prompt_tokens": 5, "output_tokens": 3}', '{"output_tokens": 4, "prompt_tokens": 6, "model": "x"}']
    trace = read(tmp_path, *rows, row(7))
    assert trace.workload.arrival_ticks is None
    assert trace.workload.prompt_tokens.tolist() == [5, 6]
    assert [(one.row, one.column) for one in trace.skipped] == [(3, "arrival_ms")]
    trace = read(tmp_path, row(7), *rows)
    assert [(one.row, one.column) for one in trace.skipped] == [(2, "arrival_ms"), (3, "arrival_ms")]


def test_a_session_goes_on_from_its_last_row(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        row(0, 8, 2, ', "session": "a", "prefix": "sys", "prefix_tokens": 4'),
        row(1, 9, 2, ', "session": 7'),
        row(2, 10, 3, ', "session": "a"'),
        row(3, 5, 2),
        row(4, 20, 1, ', "session": "a", "prefix": "other"'),  # only a first turn has a prefix
        row(5, 6, 1, ', "prefix": "sys", "prefix_tokens": 6'),
        row(6, 20, 1, ', "session": "7"'),  # a text is no number
        strict=True,
    )
    known = conversations(trace)
    assert known.parent.tolist() == [-1, -1, 0, -1, 2, -1, -1]
    assert known.prefix.tolist() == [0, -1, -1, -1, -1, 0, -1]
    assert known.prefix_tokens.tolist() == [4, 0, 0, 0, 0, 6, 0]


def test_sessions_of_an_unsorted_file(tmp_path: Path) -> None:
    trace = read(
        tmp_path, row(9, 8, 2, ', "session": 1'), row(3, 7, 2, ', "session": 2'), row(9, 10, 1, ', "session": 1')
    )
    assert trace.workload.prompt_tokens.tolist() == [7, 8, 10]
    assert conversations(trace).parent.tolist() == [-1, -1, 1]


@pytest.mark.parametrize(
    ("bad", "column"),
    [
        (row(1, 9, 1, ', "session": 1'), "prompt_tokens"),  # its session holds 8 + 2
        (row(0, 10, 1, ', "session": 1'), "session"),  # earlier than the turn before
        (row(2, 8, 1, ', "session": [1]'), "session"),
        (row(2, 8, 1, ', "session": true'), "session"),
        (row(2, 8, 1, ', "session": 1.5'), "session"),
        (row(2, 8, 1, ', "prefix": {}, "prefix_tokens": 1'), "prefix"),
        (row(2, 8, 1, ', "prefix": "p"'), "prefix_tokens"),
        (row(2, 8, 1, ', "prefix": "p", "prefix_tokens": 0'), "prefix_tokens"),
        (row(2, 8, 1, ', "prefix": "p", "prefix_tokens": 9'), "prefix_tokens"),
        (row(2, 8, 1, ', "prefix": "p", "prefix_tokens": true'), "prefix_tokens"),
        (row(2, 8, 1, ', "hash_ids": [1]'), "hash_ids"),
        (row("-0.5"), "arrival_ms"),
        (row('"5"'), "arrival_ms"),
        (row("null"), "arrival_ms"),
        (row("1e99"), "arrival_ms"),
        (row(2**50), "arrival_ms"),  # its ticks are beyond 64 bits
        (row(2, "8.0"), "prompt_tokens"),
        (row(2, 8, "null"), "output_tokens"),
        (row(2, 2**31), "prompt_tokens"),
        ("[]", "prompt_tokens"),
        ("{", "prompt_tokens"),
    ],
)
def test_rows_that_are_bad(tmp_path: Path, bad: str, column: str) -> None:
    first = row(1, 8, 2, ', "session": 1')
    trace = read(tmp_path, first, bad, row(2))
    assert [(one.row, one.column) for one in trace.skipped] == [(2, column)]
    assert len(trace.workload) == 2
    with pytest.raises(TraceError) as caught:
        read(tmp_path, first, bad, strict=True)
    assert (caught.value.row, caught.value.column) == (2, column)


def test_ids_need_a_header(tmp_path: Path) -> None:
    rows = [
        row(0, 5, 1, ', "hash_ids": [9, 7]'),
        row(0, 4, 1, ', "hash_ids": [9]'),
        row(0, 4, 1),
        row(0, 5, 1, ', "hash_ids": [1]'),
    ]
    trace = read(tmp_path, '{"pagedkv_trace": 1, "tokens_per_id": 4}', *rows)
    known = trace.workload.identities
    assert known is not None
    assert (known.tokens_per_id, known.ids.tolist(), known.starts.tolist()) == (4, [0, 1, 0], [0, 2, 3])
    assert [(one.row, one.column) for one in trace.skipped] == [(4, "hash_ids"), (5, "hash_ids")]


@pytest.mark.parametrize(
    "header", ['{"pagedkv_trace": 2}', '{"pagedkv_trace": true}', '{"pagedkv_trace": 1, "tokens_per_id": 0}']
)
def test_other_headers_are_refused(tmp_path: Path, header: str) -> None:
    with pytest.raises(TraceError) as caught:
        read(tmp_path, header, row())
    assert caught.value.row == 1


LOADS = st.builds(
    SyntheticLoad,
    requests=st.integers(1, 30),
    arrivals=st.sampled_from(["offline", "poisson", "gamma", "closed"]),
    rate=st.sampled_from([0.001, 1.0, 1000.0]),
    lengths=st.just((Uniform(1, 50), Lognormal(10, 1))),
    turns=st.builds(
        Turns,
        turns=st.integers(1, 4),
        gap_s=st.sampled_from([0.0, 0.5]),
        system_tokens=st.sampled_from([0, 17]),
        system_prompts=st.integers(1, 3),
    ),
    seed=st.integers(0, 2**63 - 1),
)


def by_appearance(numbers: list[int]) -> list[int]:
    names: dict[int, int] = {-1: -1}
    return [names.setdefault(number, len(names)) for number in numbers]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(load=LOADS, packed=st.booleans())
def test_what_is_saved_is_read_back(tmp_path: Path, load: SyntheticLoad, packed: bool) -> None:
    drawn = load.draw()
    file = tmp_path / ("trace.jsonl.gz" if packed else "trace.jsonl")
    write_trace(drawn, file)
    trace = read_trace(file, strict=True)
    found = trace.workload
    assert trace.format == "pagedkv-jsonl"
    assert file.read_bytes().startswith(b"\x1f\x8b") == packed
    np.testing.assert_array_equal(found.prompt_tokens, drawn.prompt_tokens)
    np.testing.assert_array_equal(found.output_tokens, drawn.output_tokens)
    assert (found.arrival_ticks is None) == (drawn.arrival_ticks is None)
    if drawn.arrival_ticks is not None:
        np.testing.assert_array_equal(found.arrival_ticks, drawn.arrival_ticks)
    one, other = found.conversations, drawn.conversations
    if other is None or not (np.any(other.parent >= 0) or np.any(other.prefix >= 0)):
        assert one is None
        return
    assert one is not None
    assert one.parent.tolist() == other.parent.tolist()
    assert by_appearance(one.prefix.tolist()) == by_appearance(other.prefix.tolist())
    assert one.prefix_tokens.tolist() == other.prefix_tokens.tolist()


def test_identities_are_saved(tmp_path: Path) -> None:
    lengths = np.array([5, 4, 9], dtype=np.int64)
    load = Workload(lengths, lengths, identities=join_identities([[3, 4], [3], [3, 5, 6]], 4))
    write_trace(load, tmp_path / "trace")
    known = read_trace(tmp_path / "trace", strict=True).workload.identities
    assert known is not None
    assert (known.ids.tolist(), known.tokens_per_id) == ([0, 1, 0, 0, 2, 3], 4)


def test_the_same_load_is_the_same_file(tmp_path: Path) -> None:
    load = SyntheticLoad(50, "gamma", turns=Turns(3))
    for name in ("a.gz", "b.gz", "c"):
        write_trace(load.draw(), tmp_path / name)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == (tmp_path / "c").read_bytes()


@pytest.mark.parametrize("name", ["", ".", "missing/trace", "a\0b", "x" * 5000])
def test_files_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be written"):
        write_trace(SyntheticLoad(1).draw(), f"{tmp_path}/{name}")
    assert list(tmp_path.iterdir()) == []


def test_only_a_regular_file_is_replaced(tmp_path: Path) -> None:
    device = Path("/dev/null")
    if device.exists():
        with pytest.raises(InvalidArgumentError, match="no regular file"):
            write_trace(SyntheticLoad(1).draw(), device)
        assert not device.is_file()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for load in (SyntheticLoad(5), SyntheticLoad(3)):
        write_trace(load.draw(), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert len(read_trace(tmp_path / "file").workload) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_no_requests_are_not_saved(tmp_path: Path) -> None:
    nothing = np.empty(0, dtype=np.int64)
    with pytest.raises(InvalidArgumentError, match="no requests"):
        write_trace(Workload(nothing, nothing), tmp_path / "trace")


@pytest.mark.parametrize(
    ("parent", "prefix", "tokens", "text"),
    [
        ([-1, 1], [-1, -1], [0, 0], "later request"),
        ([-1, -2], [-1, -1], [0, 0], "later request"),
        ([-1, 0, 0], [-1, -1, -1], [0, 0, 0], "two requests go on"),
        ([-1, 0], [-1, 0], [0, 1], "prefix is a number"),
        ([-1, -1], [0, -2], [1, 0], "prefix is a number"),
        ([-1, 0], [0, -1], [9, 0], "prompt 0 has 8 tokens, and what it starts with 9"),
        ([-1, 0], [0, -1], [-1, 0], "prompt 0"),
        ([-1], [-1], [0], "conversations of 1 prompts for 2"),
    ],
)
def test_conversations_that_make_no_sense(parent: list[int], prefix: list[int], tokens: list[int], text: str) -> None:
    count = max(2, len(parent))
    known = Conversations(*(np.array(values, dtype=np.int64) for values in (parent, prefix, tokens)))
    lengths = np.array([8, 10, 10][:count], dtype=np.int64)
    with pytest.raises(InvalidArgumentError, match=text):
        Workload(lengths, np.full(count, 2, dtype=np.int64), conversations=known)
