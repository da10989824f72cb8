"""`pagedkv doctor`, and the version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Run


def test_doctor_needs_no_gpu(run: Run) -> None:
    done = run("doctor")
    assert done.code == 0
    for word in (
        "pagedkv:",
        "numpy:",
        "python:",
        "native core:",
        "CUDA driver:",
        "cuda-core:",
        "NVRTC:",
        "kernel cache:",
    ):
        assert word in done.out
    assert done.out.splitlines()[-1] == "PASS: the CPU part works"


def test_doctor_tells_every_problem_with_its_mend(run: Run) -> None:
    lines = [line.strip() for line in run("doctor").out.splitlines()]
    problems = [number for number, line in enumerate(lines) if line.startswith("problem:")]
    assert all(lines[number + 1].startswith("mend:") for number in problems)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps a user's folders to that user")
def test_doctor_tells_of_a_cache_that_others_may_write(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("PAGEDKV_CACHE_DIR", str(tmp_path))
    done = run("doctor")
    assert done.code == 0
    assert f"problem: compiled kernels are not kept on disk: {folder} can be written by others" in done.out


@pytest.mark.parametrize("error", ["RuntimeError", "AttributeError"])
def test_a_broken_package_is_a_problem_and_no_traceback(tmp_path: Path, error: str) -> None:
    """Packages that are there and raise anything at import, as a half-removed toolkit does."""
    (tmp_path / "cuda").mkdir()
    for part in ("core", "bindings"):
        package = tmp_path / "cuda" / part
        package.mkdir()
        (package / "__init__.py").write_text(f"raise {error}('half removed')\n", encoding="ascii")
        metadata = tmp_path / f"cuda_{part}-99.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: cuda-{part}\nVersion: 99.0\n", encoding="ascii"
        )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pagedkv.cli", "doctor"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "cuda-core 99.0 is installed and cannot be imported" in done.stdout
    assert "cuda-bindings 99.0 is installed and cannot be imported" in done.stdout


@pytest.mark.gpu
def test_doctor_tells_of_the_gpu(run: Run) -> None:
    lines = [line.strip() for line in run("doctor").out.splitlines()]
    (gpu,) = [line for line in lines if line.startswith("GPU 0:")]
    for word in ("MB VRAM", "MB free", "compute capability"):
        assert word in gpu
    (driver,) = [line for line in lines if line.startswith("CUDA driver:")]
    assert "supports CUDA" in driver
    assert "unknown version" not in driver


@pytest.mark.gpu
def test_doctor_tells_of_hidden_gpus() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pagedkv.cli", "doctor"],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "no GPU is visible; CUDA_VISIBLE_DEVICES is ''" in done.stdout


def test_version_and_help(run: Run) -> None:
    done = run("--version")
    assert (done.code, done.out.split()[0]) == (0, "pagedkv")
    assert all(command in run("--help").out for command in ("simulate", "selftest", "doctor", "cache"))
    assert run().code == 2
