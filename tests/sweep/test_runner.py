"""What becomes of a sweep: every configuration once, in order, kept, and none of them twice."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pagedkv.errors import InvalidArgumentError
from pagedkv.sweep import GivenWorkers, ResultStore, SweepResult, SweepRun, run_sweep

from .tasks import begun, sweep_of


class Inline(Executor):
    """Runs a job while it is submitted, and breaks after so many."""

    def __init__(self, lasts: int = 1000, then: Callable[[], None] = lambda: None) -> None:
        self.left = lasts
        self.then = then

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        if self.left == 0:
            raise BrokenExecutor("worn out")
        self.left -= 1
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **options))
        except Exception as error:
            future.set_exception(error)
        if self.left == 0:
            self.then()
        return future


def sums(result: SweepResult) -> list[int | None]:
    return [None if one.document is None else one.document["figures"]["sum"] for one in result.outcomes]


def spec(folder: Path, more: str = "", values: str = "[1, 2, 3, 4]") -> str:
    return f"[fixed]\nnotes = '{folder.as_posix()}'\n{more}\n[grid]\na = {values}"


def test_any_executor_gives_the_results_in_the_specs_order(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, spec(tmp_path))
    seen: list[int] = []
    with ThreadPoolExecutor(3) as threads:
        result = run_sweep(sweep, executor=threads, on_progress=seen.append)
        assert threads.submit(int).result() == 0  # still open
    assert sums(result) == sums(run_sweep(sweep, executor=Inline())) == [2, 3, 4, 5]
    assert not result.interrupted
    assert seen[-1] == 4


def test_a_repeated_sweep_runs_nothing_and_a_larger_one_what_is_new(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "results")
    first = run_sweep(sweep_of(tmp_path, spec(tmp_path)), executor=Inline(), store=store)
    assert len(begun(tmp_path)) == 4
    again = run_sweep(sweep_of(tmp_path, spec(tmp_path)), executor=Inline(0), store=store)
    assert len(begun(tmp_path)) == 4
    assert sums(again) == sums(first)
    assert all(one.from_store for one in again.outcomes)
    larger = run_sweep(sweep_of(tmp_path, spec(tmp_path, values="[4, 5, 1]")), executor=Inline(), store=store)
    assert sums(larger) == [5, 6, 2]
    assert [a for a, _ in begun(tmp_path)] == [1, 2, 3, 4, 5]


def test_a_damaged_result_is_run_again(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "results")
    sweep = sweep_of(tmp_path, spec(tmp_path))
    result = run_sweep(sweep, executor=Inline(), store=store)
    (store.folder / f"{result.outcomes[2].key}.json").write_text("{", encoding="ascii")
    assert sums(run_sweep(sweep, executor=Inline(), store=store)) == [2, 3, 4, 5]
    assert [a for a, _ in begun(tmp_path)] == [1, 2, 3, 4, 3]


def test_a_stopped_sweep_keeps_what_ended_and_goes_on_from_there(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "results")
    sweep = sweep_of(tmp_path, spec(tmp_path))
    run = SweepRun(sweep, store=store)
    run.check()
    run.run(GivenWorkers(Inline(2, run.stop), room=1))
    result = run.result()
    assert result.interrupted
    assert sums(result) == [2, 3, None, None]
    again = run_sweep(sweep, executor=Inline(), store=store)
    assert [one.from_store for one in again.outcomes] == [True, True, False, False]
    assert [a for a, _ in begun(tmp_path)] == [1, 2, 3, 4]


def test_a_typed_error_is_a_row_and_is_not_stored(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "results")
    sweep = sweep_of(tmp_path, spec(tmp_path, "fails-at = 2"))
    result = run_sweep(sweep, executor=Inline(), store=store)
    assert sums(result) == [2, None, 4, 5]
    failure = result.outcomes[1].failure
    assert failure is not None
    assert (failure.error, failure.message) == ("TraceError", "some.csv, row 3: is no good")
    assert not result.interrupted
    run_sweep(sweep, executor=Inline(), store=store)
    assert [a for a, _ in begun(tmp_path)] == [1, 2, 3, 4, 2]


def test_a_fault_of_ours_is_raised_and_what_ended_is_kept(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "results")
    sweep = sweep_of(tmp_path, spec(tmp_path, "raises-at = 3"))
    with pytest.raises(ZeroDivisionError):
        run_sweep(sweep, executor=GivenWorkers(Inline(), room=1), store=store)
    assert [store.load(one.key) is not None for one in SweepRun(sweep).result().outcomes] == [True, True, False, False]


def test_all_are_checked_before_the_first_runs(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, spec(tmp_path, values="[1, 13]"))
    with pytest.raises(InvalidArgumentError, match=r"sums\.toml', configuration 2 \(a 13\): --a is 13"):
        run_sweep(sweep, executor=Inline(), store=ResultStore(tmp_path / "results"))
    assert begun(tmp_path) == []
    assert not (tmp_path / "results").exists()


def test_a_file_that_is_missing_is_told_before_the_first_runs(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, f"[fixed]\nnotes = '{tmp_path.as_posix()}'\n[grid]\nread-from = ['sums.toml', 'gone']")
    with pytest.raises(InvalidArgumentError, match=r"configuration 2 \(read-from gone\): .*gone' cannot be read"):
        run_sweep(sweep, executor=Inline())
    assert begun(tmp_path) == []


def test_a_worker_that_sees_another_file_or_version_refuses(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("1", encoding="ascii")
    sweep = sweep_of(tmp_path, f"[fixed]\nread-from = 'data'\n{spec(tmp_path).partition('[fixed]')[2]}")
    run = SweepRun(sweep, store=ResultStore(tmp_path / "results"))
    run.check()
    (tmp_path / "data").write_text("longer", encoding="ascii")
    run.run(Inline())
    failures = [one.failure for one in run.result().outcomes]
    assert all(failure is not None and "another content" in failure.message for failure in failures)
    assert begun(tmp_path) == []
    assert list((tmp_path / "results").iterdir()) == []


def test_an_executor_that_breaks_leaves_the_rest_as_rows(tmp_path: Path) -> None:
    result = run_sweep(sweep_of(tmp_path, spec(tmp_path)), executor=Inline(2))
    assert sums(result) == [2, 3, None, None]
    assert not result.interrupted
    for one in result.outcomes[2:]:
        assert one.failure is not None
        assert one.failure.error == "WorkerLost"
        assert "worn out" in one.failure.message


def test_workers_that_start_and_take_nothing_are_not_started_for_ever(tmp_path: Path) -> None:
    class Useless(GivenWorkers):
        starts = 0

        def restart(self) -> bool:
            self.starts += 1
            return True

    workers = Useless(Inline(1), room=1)
    result = run_sweep(sweep_of(tmp_path, spec(tmp_path)), executor=workers)
    assert sums(result) == [2, None, None, None]
    assert all(one.failure is not None and one.failure.error == "WorkerLost" for one in result.outcomes[1:])
    assert workers.starts == 2


def test_a_store_that_is_full_ends_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: ResultStore, key: str, document: object) -> None:
        raise InvalidArgumentError("results cannot be stored")

    monkeypatch.setattr(ResultStore, "save", full)
    with pytest.raises(InvalidArgumentError, match="cannot be stored"):
        run_sweep(sweep_of(tmp_path, spec(tmp_path)), executor=Inline(), store=ResultStore(tmp_path / "results"))
