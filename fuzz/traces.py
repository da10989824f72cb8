"""Coverage-guided fuzzer of the trace reader (README.md says how to run it).

Property: any bytes either give a trace whose rows are all accounted for, or raise TraceError;
nothing else, and no hang.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["pagedkv.simulate.traces", "pagedkv.simulate.workload"]):
    from pagedkv.errors import TraceError
    from pagedkv.simulate.traces import Trace, read_trace

LISTED = 20
INT32_MAX = 2**31 - 1
REPEATED = 1000  # times that the bytes after a leading 255 are written: files of long lines out of short inputs


def read(path: Path, *, strict: bool) -> Trace | TraceError:
    """Read the file, or return the one error that the reader may raise."""
    try:
        return read_trace(path, strict=strict)
    except TraceError as error:
        return error


def check_error(error: TraceError, path: Path) -> None:
    """The error names its place and prints on one line."""
    assert error.file == str(path)
    assert error.row is None or error.row >= 0
    assert error.column is None or error.column
    assert str(error).startswith(error.file)
    assert str(error).isprintable(), ascii(str(error))


def check_trace(trace: Trace) -> None:
    """All rows counted, all lengths in range, replay order."""
    work = trace.workload
    skipped = trace.dropped_rows + trace.bad_rows
    assert trace.rows == len(work) + skipped
    assert len(work) > 0
    assert min(trace.dropped_rows, trace.bad_rows) >= 0
    assert len(trace.skipped) == min(LISTED, skipped)
    assert [row.row for row in trace.skipped] == sorted({row.row for row in trace.skipped})
    assert all(row.column and row.reason.isprintable() for row in trace.skipped)
    for tokens in (work.prompt_tokens, work.output_tokens):
        assert len(tokens) == len(work)
        assert int(tokens.min()) >= 1
        assert int(tokens.max()) <= INT32_MAX
    if work.arrival_ticks is None:  # a list of lengths
        return
    ticks = work.arrival_ticks.tolist()
    assert len(ticks) == len(work)
    assert ticks[0] == 0
    assert ticks == sorted(ticks)


def check_bytes(path: Path) -> None:
    """Lenient and strict readings of one file agree."""
    lenient, strict = read(path, strict=False), read(path, strict=True)
    for outcome in (lenient, strict):
        if isinstance(outcome, TraceError):
            check_error(outcome, path)
    if isinstance(lenient, Trace):
        check_trace(lenient)
        clean = lenient.was_sorted and not lenient.dropped_rows and not lenient.bad_rows
        assert clean == isinstance(strict, Trace)
    if isinstance(strict, Trace):
        assert isinstance(lenient, Trace)
        for name in ("prompt_tokens", "output_tokens", "arrival_ticks"):
            one, other = getattr(strict.workload, name), getattr(lenient.workload, name)
            assert (one is None) == (other is None)
            assert one is None or (one == other).all()


def main() -> None:
    """Run libFuzzer with the arguments of the command line, on one file in memory (Linux)."""
    stream = os.memfd_create("trace")
    path = Path(f"/proc/self/fd/{stream}")

    def one_input(data: bytes) -> None:
        if data[:1] == b"\xff":
            head, _, tail = data[1:].partition(b"\n")
            data = head + b"\n" + tail * REPEATED
        os.ftruncate(stream, 0)
        os.pwrite(stream, data, 0)
        check_bytes(path)

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
