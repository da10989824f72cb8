"""What a process leaves: an exit without close is quiet, a failed kernel loses the pool and nothing hangs."""

from __future__ import annotations

import pytest

from .children import run_child

pytestmark = pytest.mark.gpu

OPEN_POOL = """
    from pagedkv import DevicePool, OpaqueLayout
    from memory.plans import plan

    pool = DevicePool(OpaqueLayout(512, 16), 1024, device="cuda:0")
    pool.fill_blocks([5], 7)
    pool.apply(plan(1, copies=[(5, 6)], updates=[(100, 3, 9)]))
    pool.step_done(1)
    event = pool.backend.event()
    stream = pool.backend.stream()
    stream.record(event)
"""
TRAP = """
    from gpu.launching import enter_context, launch, load

    enter_context()
    trap = load('extern "C" __global__ void trap() { asm volatile("trap;"); }', "trap")
    launch(trap, pool.stream.handle)
"""


@pytest.mark.parametrize("last_words", ["", "assert pool.verify_blocks([6], 7) == 0", "del pool", "pool.close()"])
def test_an_exit_without_close_is_clean(last_words: str) -> None:
    ended = run_child(f"{OPEN_POOL}\n    {last_words}\n")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_an_exit_with_adopted_memory_is_clean() -> None:
    pytest.importorskip("torch")
    ended = run_child("""
        import torch
        from pagedkv import DevicePool, OpaqueLayout

        tensor = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
        pool = DevicePool(OpaqueLayout(512, 16), 128, device="cuda:0", memory=tensor)
        pool.fill_blocks(range(128), 7)
        stream = torch.cuda.Stream()
        pool.fence(stream.cuda_stream)
    """)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_an_exception_ends_a_process_with_its_own_traceback_only() -> None:
    ended = run_child(f"{OPEN_POOL}\n    raise SystemExit(3)\n")
    assert (ended.returncode, ended.stderr) == (3, "")


def test_a_failed_kernel_loses_the_pool() -> None:
    ended = run_child(f"""
    {OPEN_POOL}
    assert pool.verify_blocks([6], 7) == 0
    {TRAP}
    from pagedkv.errors import BackendError

    def refused(call):
        try:
            call()
        except BackendError as error:
            return error
        raise AssertionError("no error")

    first = refused(lambda: pool.verify_blocks([6], 7))
    assert first.name.startswith("CUDA_ERROR"), first
    assert pool.failure is first
    for call in (
        lambda: pool.apply(plan(2)),
        lambda: pool.finished_step(),
        lambda: pool.wait_step(1),
        lambda: pool.step_done(1),
        lambda: pool.fill_blocks([0], 1),
        lambda: pool.verify_blocks([0], 1),
        lambda: pool.copy_blocks([(0, 1)]),
    ):
        error = refused(call)
        assert error.name == "POOL_LOST" and first.name in error.text, error
    refused(lambda: DevicePool(OpaqueLayout(512, 16), 16, device="cuda:0"))
    pool.close()
    pool.close()
    assert refused(lambda: pool.apply(plan(2))).name == "POOL_CLOSED"
    print("lost and closed")
    """)
    assert (ended.returncode, ended.stdout) == (0, "lost and closed\n"), ended.stderr
    assert ended.stderr == ""


def test_a_failure_in_flight_finishes_no_step() -> None:
    """finished_step must not report a step whose kernels died: its blocks are never handed out again."""
    ended = run_child(f"""
    {OPEN_POOL}
    pool.wait_step(1)
    {TRAP}
    from pagedkv.errors import BackendError

    try:
        pool.apply(plan(2, updates=[(0, 0, 1)]))
        pool.step_done(2)
        finished = pool.wait_step(2)
    except BackendError:
        finished = None
    print(finished)
    pool.close()
    """)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "None\n", "")
