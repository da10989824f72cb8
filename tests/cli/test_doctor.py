"""`pagedkv doctor`, and the version."""

from __future__ import annotations

from .conftest import Run


def test_doctor_needs_no_gpu(run: Run) -> None:
    done = run("doctor")
    assert done.code == 0
    for word in ("pagedkv:", "numpy:", "python:", "native core:", "CUDA driver:", "cuda.core:"):
        assert word in done.out
    assert done.out.splitlines()[-1] == "PASS: the CPU part works"


def test_version_and_help(run: Run) -> None:
    done = run("--version")
    assert (done.code, done.out.split()[0]) == (0, "pagedkv")
    assert all(command in run("--help").out for command in ("simulate", "selftest", "doctor"))
    assert run().code == 2
