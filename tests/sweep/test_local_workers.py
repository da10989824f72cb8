"""Worker processes of this machine that die, by a signal or by what they run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest

from pagedkv.errors import BackendError
from pagedkv.sweep import LocalWorkers, ResultStore, local_workers, run_sweep

from .tasks import add, begun, sweep_of, wait_for
from .test_runner import Inline, spec, sums

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL: POSIX only")


def test_a_killed_worker_loses_no_result(tmp_path: Path) -> None:
    text = spec(tmp_path, "held = true", "[1, 2, 3, 4, 5]")

    def kill() -> None:
        wait_for(lambda: len(begun(tmp_path)) == 2)
        os.kill(begun(tmp_path)[0][1], signal.SIGKILL)
        (tmp_path / "go").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    result = run_sweep(sweep_of(tmp_path, text), executor=LocalWorkers(2), store=ResultStore(tmp_path / "results"))
    killer.join()
    assert sums(result) == sums(run_sweep(sweep_of(tmp_path, text), executor=Inline())) == [2, 3, 4, 5, 6]
    lost = begun(tmp_path)[0][0]
    assert [a for a, _ in begun(tmp_path)].count(lost) >= 2 + 1  # at first, again, and in the serial run


def test_what_kills_its_workers_is_given_up_and_the_others_are_kept(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, spec(tmp_path, "dies-at = 2", "[1, 2, 3, 4]"))
    result = run_sweep(sweep, executor=LocalWorkers(2))
    assert sums(result) == [2, None, 4, 5]
    failure = result.outcomes[1].failure
    assert failure is not None
    assert failure.error == "WorkerLost"
    assert "terminated abruptly" in failure.message
    assert [a for a, _ in begun(tmp_path)].count(2) == 3


def test_workers_that_never_start_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []

    def submit(self: LocalWorkers, *arguments: object) -> None:
        starts.append(self)
        raise BrokenExecutor

    monkeypatch.setattr(local_workers.LocalWorkers, "submit", submit)
    with pytest.raises(BackendError, match="WORKERS_DO_NOT_START"):
        LocalWorkers(2)
    assert len(starts) == 3


PARENT = """
import sys
from pagedkv.sweep import LocalWorkers
from sweep.tasks import add
if __name__ == "__main__":
    workers = LocalWorkers(1)
    workers.submit(add, {"a": 1, "notes": sys.argv[1], "held": True})
    import signal
    signal.pause()
"""


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    assert add.__module__ == "sweep.tasks"
    path = os.pathsep.join(entry for entry in sys.path if entry)
    program = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(program, env=os.environ | {"PYTHONPATH": path}) as parent:
        try:
            wait_for(lambda: len(begun(tmp_path)) == 1)
        finally:
            parent.kill()
    worker = begun(tmp_path)[0][1]
    wait_for(lambda: not _runs(worker))


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # ended, but nobody has asked
