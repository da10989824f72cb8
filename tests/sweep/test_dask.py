"""A real Dask scheduler and two worker processes on loopback: results as in a serial run, whoever dies on the way."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pagedkv.cli.sweep_program import simulation_program
from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.sweep import DaskWorkers, ResultStore, read_sweep, run_sweep

from .dask_cluster import Cluster, cluster_in
from .tasks import begun, sweep_of, wait_for
from .test_runner import Inline, spec, sums

pytest.importorskip("distributed", reason="Dask's workers: pip install 'pagedkv[distributed]'")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with cluster_in(tmp_path / "cluster") as cluster:
        yield cluster


def test_one_of_two_workers_is_killed_and_no_result_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, spec(tmp_path, "held = true", "[1, 2, 3, 4, 5, 6]"))

    def kill() -> None:
        wait_for(lambda: len({process for _, process in begun(tmp_path)}) == 2)
        cluster.kill(begun(tmp_path)[0][1])
        (tmp_path / "go").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    result = run_sweep(sweep, executor=DaskWorkers(cluster.address), store=ResultStore(tmp_path / "results"))
    killer.join()
    (lost, dead), *others = begun(tmp_path)
    assert lost in [a for a, process in others if process != dead], "it was under way, and ran again elsewhere"
    serial = run_sweep(sweep, executor=Inline())
    assert sums(result) == sums(serial) == [2, 3, 4, 5, 6, 7]
    assert [one.document for one in result.outcomes] == [one.document for one in serial.outcomes]


def test_simulations_are_equal_to_those_of_a_serial_run(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text("[fixed]\ncompletions = 20\n[grid]\nblock-size = [8, 16, 32]\nseed = [1, 2]", encoding="ascii")
    sweep = read_sweep(file, simulation_program())
    stores = [ResultStore(tmp_path / name) for name in ("dask", "serial")]
    result = run_sweep(sweep, executor=DaskWorkers(cluster.address), store=stores[0])
    serial = run_sweep(sweep, executor=Inline(), store=stores[1])
    assert len(result.outcomes) == 6
    assert [one.document for one in result.outcomes] == [one.document for one in serial.outcomes]
    kept = [{entry.name: entry.read_bytes() for entry in store.folder.iterdir()} for store in stores]
    assert kept[0] == kept[1]
    assert len(kept[0]) == 6


def test_a_scheduler_that_dies_ends_the_sweep_with_reasons(cluster: Cluster, tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, spec(tmp_path, "held = true"))

    def kill() -> None:
        wait_for(lambda: len(begun(tmp_path)) >= 2)
        cluster.scheduler.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    result = run_sweep(sweep, executor=DaskWorkers(cluster.address))
    killer.join()
    assert [one.failure.error for one in result.outcomes if one.failure] == ["WorkerLost"] * 4


def test_what_kills_its_workers_is_given_up_with_the_schedulers_reason(tmp_path: Path) -> None:
    with cluster_in(tmp_path / "cluster", settings={"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}) as cluster:
        deadly = sweep_of(tmp_path, spec(tmp_path, "dies-at = 2", "[2]"))
        (outcome,) = run_sweep(deadly, executor=DaskWorkers(cluster.address)).outcomes
        assert outcome.failure is not None
        assert outcome.failure.error == "WorkerLost"
        assert len(begun(tmp_path)) == 1
        assert sums(run_sweep(sweep_of(tmp_path, spec(tmp_path)), executor=DaskWorkers(cluster.address))) == [
            2,
            3,
            4,
            5,
        ]


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pagedkv.sweep.dask_workers.TIMEOUT", 0.2)
    with pytest.raises(BackendError, match="NO_SCHEDULER"):
        DaskWorkers("tcp://127.0.0.1:1")


def test_tls_without_certificates_is_told_before_it_connects() -> None:
    with pytest.raises(InvalidArgumentError, match=r"distributed\.comm\.tls\.ca-file"):
        DaskWorkers("tls://127.0.0.1:1")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate of this test")
def test_over_tls(tmp_path: Path) -> None:
    import dask

    key, certificate = tmp_path / "node.key", tmp_path / "node.pem"
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-keyout",
    ]
    subprocess.run([*make, str(key), "-out", str(certificate)], check=True, capture_output=True)
    names = {"distributed.comm.require-encryption": True, "distributed.comm.tls.ca-file": str(certificate)}
    for role in ("scheduler", "worker", "client"):
        names[f"distributed.comm.tls.{role}.cert"] = str(certificate)
        names[f"distributed.comm.tls.{role}.key"] = str(key)
    variables = {f"DASK_{name.replace('.', '__').replace('-', '_').upper()}": str(is_) for name, is_ in names.items()}
    sweep = sweep_of(tmp_path, spec(tmp_path))
    with dask.config.set(names), cluster_in(tmp_path / "cluster", "tls", variables) as cluster:
        assert cluster.address.startswith("tls://")
        assert sums(run_sweep(sweep, executor=DaskWorkers(cluster.address))) == [2, 3, 4, 5]
