"""Reading a million rows of each format: wall time of `read_trace`, and the most memory that Python held in it."""

import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.clock import Sample
from benchmarks.report import Benchmark, Row, Settings, Spread, Target
from pagedkv.simulate import Trace, read_trace

ROWS = 1_000_000
TARGET_SECONDS = 3.0
TARGET_BYTES = 40.0  # three values of 8 bytes a request, and what reading needs beside them
Lines = Callable[[int], Iterator[str]]


def azure(rows: int) -> Iterator[str]:
    yield "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    for row in range(rows):
        minute, second = divmod(row // 40, 60)
        clock = f"{minute // 60 % 24:02}:{minute % 60:02}:{second:02}.{row % 40 * 250_000:07}"
        yield f"2023-11-16 {clock},{tokens(row)}\r\n"


def burstgpt(rows: int) -> Iterator[str]:
    yield "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    for row in range(rows):
        yield f"{row // 3},ChatGPT,{tokens(row)},{row % 5000},Conversation log\n"


def input_output(rows: int) -> Iterator[str]:
    yield "arrival_s,input_len,output_len\n"
    for row in range(rows):
        yield f"{row // 100}.{row % 100:02},{tokens(row)}\n"


def own(rows: int) -> Iterator[str]:
    yield '{"pagedkv_trace": 1}\n'
    for row in range(rows):
        prompt, output = tokens(row).split(",")
        yield f'{{"arrival_ms": {row}.{row % 10}, "prompt_tokens": {prompt}, "output_tokens": {output}}}\n'


def own_sessions(rows: int) -> Iterator[str]:
    """Five turns a session, a shared text before the first."""
    yield '{"pagedkv_trace": 1}\n'
    for row in range(rows):
        session, turn = row % (rows // 5 + 1), row // (rows // 5 + 1)
        prefix = "" if turn else f', "prefix": {row % 7}, "prefix_tokens": 100'
        said = f'"prompt_tokens": {200 + 40 * turn}, "output_tokens": {1 + row % 40}, "session": {session}{prefix}'
        yield f'{{"arrival_ms": {row}.{row % 10}, {said}}}\n'


def own_prefixes(rows: int) -> Iterator[str]:
    yield '{"pagedkv_trace": 1}\n'
    for row in range(rows):
        prompt, output = tokens(row).split(",")
        said = f'"prompt_tokens": {prompt}, "output_tokens": {output}, "prefix": "system {row % 7}", "prefix_tokens": 1'
        yield f'{{"arrival_ms": {row}.{row % 10}, {said}}}\n'


def own_ids(rows: int) -> Iterator[str]:
    yield '{"pagedkv_trace": 1, "tokens_per_id": 512}\n'
    for row in range(rows):
        prompt, output = tokens(row).split(",")
        ids = list(range(row, row - -int(prompt) // 512 + 1))[: -(-int(prompt) // 512)]
        yield f'{{"arrival_ms": {row}, "prompt_tokens": {prompt}, "output_tokens": {output}, "hash_ids": {ids}}}\n'


def mooncake(rows: int) -> Iterator[str]:
    for row in range(rows):
        prompt, output = tokens(row).split(",")
        ids = list(range(row, row - -int(prompt) // 512 + 1))[: -(-int(prompt) // 512)]
        yield f'{{"timestamp": {row}, "input_length": {prompt}, "output_length": {output}, "hash_ids": {ids}}}\n'


def tokens(row: int) -> str:
    return f"{1 + row * 7919 % 4000},{1 + row * 104_729 % 400}"


FORMATS: tuple[Lines, ...] = (azure, burstgpt, input_output, own, own_sessions, own_prefixes, own_ids, mooncake)
WITH = {own_sessions: " with sessions", own_prefixes: " with prefixes", own_ids: " with ids"}


def run(settings: Settings) -> list[Row]:
    count, repeats = settings.pick((ROWS, 3), (500, 1))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for lines in FORMATS:
            file = Path(folder) / lines.__name__
            write(file, lines(count))
            samples, trace = measure(file, repeats)
            assert trace.rows == count
            spread, size = Spread.of(samples), file.stat().st_size / 2**20
            note = f"{size:.1f} MiB; CPU {spread.cpu_min / 1e6:.2f} s; {repeats} readings"
            case = f"{count:,} rows of {trace.format}{WITH.get(lines, '')}"
            rows.append(Row(case, spread.wall_min / 1e6, "s", Target(TARGET_SECONDS), spread, note))
            if lines is azure:
                rows.append(Row(f"{case}, most held a row", most_held(file) / count, "B", Target(TARGET_BYTES), spread))
            file.unlink()
    return rows


def write(file: Path, lines: Iterator[str]) -> None:
    with file.open("w", encoding="ascii", newline="") as stream:
        stream.writelines(lines)


def most_held(file: Path) -> int:
    """Bytes, by a count of its own that makes reading slow: the process's size tells of other things, too."""
    tracemalloc.start()
    trace = read_trace(file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert trace.rows
    return peak


def measure(file: Path, repeats: int) -> tuple[list[Sample], Trace]:
    samples = []
    trace = None
    for _ in range(repeats):
        trace = None  # one at a time in memory
        cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
        trace = read_trace(file)
        samples.append(Sample(time.perf_counter_ns() - wall, time.thread_time_ns() - cpu))
    assert trace is not None
    return samples, trace


BENCHMARK = Benchmark("trace-reading", "read a million rows", run)
