"""R3: unsorted times are sorted stably or refused, and one column does not mix two clocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagedkv.errors import InvalidArgumentError, TraceError
from pagedkv.layout import OpaqueLayout
from pagedkv.simulate import Load, PoolSpec, Simulation, Trace, Workload, read_trace

from .rows_of_formats import COLUMNS, TIMED, content, requests

MS = 10_000  # ticks
EPOCH_US = (1_790_000_000_000_000, 1_790_000_000_250_000)


def read(folder: Path, data: bytes, *, strict: bool = False) -> Trace:
    file = folder / "trace"
    file.write_bytes(data)
    return read_trace(file, strict=strict)


@pytest.mark.parametrize("form", TIMED)
def test_r3_rows_are_replayed_by_time_from_zero(tmp_path: Path, form: str) -> None:
    trace = read(tmp_path, content(form, [(1000, 1, 1), (500, 2, 1), (1500, 3, 1)]))
    assert requests(trace) == [(0, 2, 1), (500 * MS, 1, 1), (1000 * MS, 3, 1)]
    assert not trace.was_sorted


@pytest.mark.parametrize("form", TIMED)
def test_r3_strict_refuses_the_row_that_goes_back(tmp_path: Path, form: str) -> None:
    with pytest.raises(TraceError, match="earlier") as caught:
        read(tmp_path, content(form, [(1000, 1, 1), (500, 2, 1), (1500, 3, 1)]), strict=True)
    assert (caught.value.row, caught.value.column) == (2, COLUMNS[form][0])


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("form", TIMED)
def test_r3_equal_times_keep_file_order(tmp_path: Path, form: str, strict: bool) -> None:
    trace = read(tmp_path, content(form, [(0, 7, 1), (0, 3, 1), (0, 9, 1)]), strict=strict)
    assert requests(trace) == [(0, 7, 1), (0, 3, 1), (0, 9, 1)]
    assert trace.was_sorted


@pytest.mark.parametrize("form", COLUMNS)
def test_r3_a_list_without_times_has_none(tmp_path: Path, form: str) -> None:
    trace = read(tmp_path, content(form, [(0, 7, 1), (0, 3, 1)]))
    assert (trace.workload.arrival_ticks is None) == (form not in TIMED)


def _times(form: str, microseconds: tuple[int, ...]) -> bytes:
    if form == "pagedkv-jsonl":
        rows = [f'{{"arrival_ms": {us // 1000}, "prompt_tokens": 4, "output_tokens": 2}}' for us in microseconds]
    elif form == "mooncake-jsonl":
        rows = [
            f'{{"timestamp": {us // 1000}, "input_length": 4, "output_length": 2, "hash_ids": [0]}}'
            for us in microseconds
        ]
    elif form == "burstgpt-csv":
        rows = ["Timestamp,Request tokens,Response tokens", *(f"{us / 1e6:.6f},4,2" for us in microseconds)]
    else:
        rows = ["arrival_s,input_len,output_len", *(f"{us / 1e6:.6f},4,2" for us in microseconds)]
    return "\n".join(rows).encode()


NUMBERED = ["pagedkv-jsonl", "mooncake-jsonl", "burstgpt-csv", "input-output-csv"]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("form", NUMBERED)
def test_r3_times_since_1970_start_at_zero_and_complete(tmp_path: Path, form: str, strict: bool) -> None:
    trace = read(tmp_path, _times(form, EPOCH_US), strict=strict)
    assert requests(trace) == [(0, 4, 2), (250 * MS, 4, 2)]
    load = Load(trace.workload, step_ticks=50 * MS)
    result = Simulation(PoolSpec(OpaqueLayout(24, 4), 8), load).run()
    assert (result.figures["completed"], result.figures["requests"], result.failures) == (2, 2, ())


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("times", [(0, 250_000, EPOCH_US[0]), (EPOCH_US[0], EPOCH_US[1], 340_000_000)])
@pytest.mark.parametrize("form", NUMBERED)
def test_r3_two_clocks_in_one_file_are_an_error(
    tmp_path: Path, form: str, times: tuple[int, ...], strict: bool
) -> None:
    if strict and times[-1] < times[0]:
        with pytest.raises(TraceError, match="earlier"):
            read(tmp_path, _times(form, times), strict=strict)
        return
    with pytest.raises(TraceError, match="two clocks") as caught:
        read(tmp_path, _times(form, times), strict=strict)
    assert (caught.value.row, caught.value.column) == (3, COLUMNS[form][0])


@pytest.mark.parametrize("form", ["pagedkv-jsonl", "burstgpt-csv", "input-output-csv", "kv-cache-tester"])
def test_r3_times_before_zero_are_bad_rows(tmp_path: Path, form: str) -> None:
    trace = read(tmp_path, content(form, [(0, 1, 1), (-5, 2, 1)]))
    assert (len(trace.workload), trace.bad_rows) == (1, 1)
    assert (trace.skipped[0].row, trace.skipped[0].column) == (2, COLUMNS[form][0])


def test_r3_nothing_completed_is_a_failure(tmp_path: Path) -> None:
    trace = read(tmp_path, content("azure-csv", [(0, 400, 3)]))
    result = Simulation(PoolSpec(OpaqueLayout(24, 4), 8), Load(trace.workload)).run()
    assert result.figures["completed"] == 0
    assert result.failures == ("no request completed",)


def test_r3_a_workload_out_of_order_is_refused(tmp_path: Path) -> None:
    load = read(tmp_path, content("azure-csv", [(0, 1, 1), (5, 2, 1)])).workload
    assert load.arrival_ticks is not None
    with pytest.raises(InvalidArgumentError, match="sort the requests"):
        Workload(load.prompt_tokens, load.output_tokens, load.arrival_ticks[::-1])
