"""`pagedkv selftest`, `pagedkv doctor`, and the version."""

from __future__ import annotations

import pytest

from pagedkv.kernels import reference

from .conftest import Run


def test_selftest_passes_on_the_host(run: Run) -> None:
    done = run("selftest", "--device", "host")
    assert done.code == 0
    assert [line[:4] for line in done.out.splitlines()[1:]] == ["PASS"] * 6


def test_selftest_fails_when_copies_go_wrong(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "copy_rows", lambda rows, pairs: None)
    done = run("selftest", "--device", "host")
    assert done.code == 1
    assert "FAIL  copy blocks: 32 of 64 blocks are wrong after the copy" in done.out
    assert done.out.splitlines()[-1].startswith("FAIL")


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
