"""Host time of `apply` alone and of a whole host step with it, 256 sequences, the device at work behind it."""

from statistics import median

import numpy as np

from benchmarks.batch import BLOCK_SIZE
from benchmarks.clock import Sample, Stopwatch, settled_gc
from benchmarks.engine_step import TURNOVER, Engine
from benchmarks.report import Benchmark, Row, Settings, Spread, Target
from pagedkv import DevicePool, KVCacheManager, OpaqueLayout, StepPlan

APPLY_US, STEP_US = 25.0, 60.0
RUNNING = 256
LAYOUT = OpaqueLayout(512, BLOCK_SIZE)
PAUSE_EVERY = 8  # steps; a device that lags would make the host wait for staging memory in the end


class Bound(Engine):
    """The engine with a pool: plans are applied, steps are retired when the device has finished them."""

    pool: DevicePool | None = None

    def bind(self) -> None:
        self.pool = DevicePool(LAYOUT, self.manager.num_blocks, device="cuda:0", first_step=self.manager.last_step + 1)

    def schedule(self) -> StepPlan:
        if self.pool is None:
            return super().schedule()
        manager, pool, first = self.manager, self.pool, self.oldest
        last = first + TURNOVER
        manager.retire(pool.finished_step())
        manager.free(self.ids[first:last], after=self.plan.step)
        for index in range(first, last):
            manager.admit(self.next_id, self.prompt)
            self.ids[index] = self.next_id
            self.next_id += 1
        self.counts[first:last] = self.prompt.size
        plan = manager.append(self.ids, self.counts)
        self.counts[first:last] = 1
        pool.apply(plan)
        pool.step_done(plan.step)
        manager.commit(self.ids, plan.lengths)
        self.oldest = last % self.running
        self.plan = plan
        return plan


def run(settings: Settings) -> list[Row]:
    steps = settings.pick(3000, 20)
    spread = decode(steps, np.arange(RUNNING) % BLOCK_SIZE + 1)
    worst = decode(steps, np.full(RUNNING, BLOCK_SIZE), only_full=True)
    whole, updates = whole_steps(steps)
    return [
        row(f"apply, {RUNNING} sequences decode", spread, APPLY_US, f"{RUNNING // BLOCK_SIZE} table updates a step"),
        row(f"apply, {RUNNING} sequences, all in a new block", worst, None, f"{RUNNING} table updates a step"),
        row(f"whole step with apply, {RUNNING} sequences", whole, STEP_US, f"{updates:.0f} table updates a step"),
    ]


def row(case: str, samples: list[Sample], target_us: float | None, note: str) -> Row:
    """The median against the target, which is stricter than the minimum."""
    spread = Spread.of(samples)
    target = None if target_us is None else Target(target_us)
    note = f"{note}; median, min {spread.wall_min:.2f} us"
    return Row(case, spread.wall_median, "us", target, spread, note)


def decode(steps: int, first: "np.ndarray[tuple[int], np.dtype[np.int64]]", *, only_full: bool = False) -> list[Sample]:
    """apply of plans that append one token to all; `first` tokens at the start set who gets a block when."""
    ids, ones = np.arange(RUNNING), np.ones(RUNNING, np.int32)
    total = steps * (BLOCK_SIZE if only_full else 1) + 2 * BLOCK_SIZE
    manager = KVCacheManager(RUNNING * (total // BLOCK_SIZE + 2), BLOCK_SIZE)
    for seq_id in ids.tolist():
        manager.admit(seq_id, (), reserve=1)
    with DevicePool(LAYOUT, manager.num_blocks, device="cuda:0") as pool, settled_gc():
        pool.apply(manager.append(ids, first))
        grow_tables(pool, manager)
        samples = []
        for step in range(steps):
            plan = manager.append(ids, ones)
            watch = Stopwatch()
            pool.apply(plan)
            samples.append(watch.stop())
            if only_full:  # up to the next boundary, not timed
                pool.apply(manager.append(ids, ones * (BLOCK_SIZE - 1)))
            if step % PAUSE_EVERY == 0:
                pool.stream.synchronize()
    return samples[len(samples) // 10 :]


def grow_tables(pool: DevicePool, manager: KVCacheManager) -> None:
    """Tables as wide as the run will need, as a long-running engine has them: growth happens log-many times."""
    rows, width = RUNNING, manager.num_blocks // RUNNING
    if (larger := pool.tables.allocate(rows, width)) is not None:
        pool.tables.replace(larger, pool.stream)
    pool.stream.synchronize()


def whole_steps(steps: int) -> tuple[list[Sample], float]:
    engine = Bound(RUNNING, 1024)
    engine.bind()
    samples, updates = [], []
    with settled_gc():
        for step in range(steps):
            watch = Stopwatch()
            plan = engine.schedule()
            samples.append(watch.stop())
            updates.append(len(plan.updates))
            if step % PAUSE_EVERY == 0 and engine.pool is not None:
                engine.pool.stream.synchronize()
    engine.manager.check()
    if engine.pool is not None:
        engine.pool.close()
    return samples[len(samples) // 10 :], median(updates)


BENCHMARK = Benchmark("host-time", "host time of apply and of a whole step", run, in_process=False)
