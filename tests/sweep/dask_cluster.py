"""A Dask scheduler and two worker processes on loopback, for a test to use and to kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .tasks import wait_for


@dataclass(frozen=True)
class Cluster:
    """Processes with the ids that they give themselves."""

    address: str
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    def kill(self, process: int) -> None:
        """SIGKILL the worker with that id."""
        (worker,) = (one for one in self.workers if one.pid == process)
        worker.kill()


@contextmanager
def cluster_in(folder: Path, protocol: str = "tcp", settings: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """settings: environment variables with Dask's configuration. Logs are in the folder."""
    from distributed import Client

    folder.mkdir()
    told = folder / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", "0", "--protocol", protocol, "--scheduler-file", str(told))
    started = [_dask("scheduler", *options, folder=folder, settings=settings or {})]
    try:
        wait_for(lambda: told.exists() and told.read_text().endswith("}"))
        address = json.loads(told.read_text())["address"]
        # Without nannies, which would start a killed one again.
        options = (address, "--nthreads", "1", "--no-nanny")
        started += [_dask("worker", *options, folder=folder, settings=settings or {}) for _ in range(2)]
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        yield Cluster(address, started[0], started[1:])
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def _dask(*arguments: str, folder: Path, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)} | settings
    with (folder / f"{arguments[0]}.log").open("ab") as log:
        command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
        return subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
