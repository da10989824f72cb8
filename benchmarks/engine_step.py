"""A whole host step of an engine: retire, free two, admit two, append all, export for the kernels, commit."""

from collections.abc import Callable

import numpy as np

from benchmarks.batch import BLOCK_SIZE
from benchmarks.clock import Sample, Stopwatch, interleave
from benchmarks.report import Benchmark, Row, Settings, timed
from pagedkv import KVCacheManager, StepPlan

TARGET_US = 40.0
TURNOVER = 2  # sequences that finish, and that are admitted, in each step
STEPS = 16  # steps a sample


class Engine:
    """A steady state: each step the two oldest sequences finish and two prompts come in, each one chunk."""

    def __init__(self, running: int, prompt_tokens: int) -> None:
        self.running = running
        self.width = -(-(prompt_tokens + running // TURNOVER + 1) // BLOCK_SIZE)
        self.manager = KVCacheManager((running + TURNOVER) * (self.width + 1), BLOCK_SIZE)
        self.prompt = np.arange(prompt_tokens, dtype=np.int32)
        self.ids = np.arange(running, dtype=np.int64)
        self.counts = np.full(running, prompt_tokens, dtype=np.int32)
        self.next_id = running
        self.oldest = 0
        self.tables = np.zeros((running, self.width), dtype=np.int32)
        self.slots = np.zeros(running + TURNOVER * prompt_tokens, dtype=np.int64)
        self.lengths = np.zeros(running, dtype=np.int32)
        for seq_id in self.ids.tolist():
            self.manager.admit(seq_id, self.prompt)
        self.plan = self.manager.append(self.ids, self.counts)
        self.counts[:] = 1
        for _ in range(running // TURNOVER):  # until ages are spread evenly
            self.schedule()

    def schedule(self) -> StepPlan:
        """Everything but the exports."""
        manager, first = self.manager, self.oldest
        last = first + TURNOVER
        manager.free(self.ids[first:last], after=self.plan.step)
        manager.retire(self.plan.step)
        for index in range(first, last):
            manager.admit(self.next_id, self.prompt)
            self.ids[index] = self.next_id
            self.next_id += 1
        self.counts[first:last] = self.prompt.size
        plan = manager.append(self.ids, self.counts)
        self.counts[first:last] = 1
        manager.commit(self.ids, plan.lengths)
        self.oldest = last % self.running
        self.plan = plan
        return plan

    def full_exports(self) -> None:
        """Block tables, slots and lengths of the whole batch into the arrays that the engine uploads."""
        plan = self.schedule()
        slots = plan.slots
        self.slots[: slots.size] = slots
        self.manager.block_table(self.ids, out=self.tables)
        self.manager.seq_lens(self.ids, out=self.lengths)

    def update_exports(self) -> None:
        """Slots, lengths and the table entries that changed, for block tables that live on the device."""
        plan = self.schedule()
        plan.slots, plan.updates, plan.lengths, plan.rows  # noqa: B018  arrays are made on first access

    def timed_steps(self, step: Callable[[], None]) -> Sample:
        watch = Stopwatch()
        for _ in range(STEPS):
            step()
        return watch.stop(STEPS)


def run(settings: Settings) -> list[Row]:
    running, prompt_tokens = settings.pick(256, 16), settings.pick(1024, 40)
    engine = Engine(running, prompt_tokens)
    cases = {
        "full": lambda: engine.timed_steps(engine.full_exports),
        "updates": lambda: engine.timed_steps(engine.update_exports),
    }
    samples = interleave(cases, settings.pick(400, 5))
    engine.manager.check()
    note = f"{TURNOVER} prompts of {prompt_tokens} tokens prefilled, tables {running} x {engine.width}"
    return [
        timed(f"{running} sequences, whole tables exported", samples["full"], target_us=TARGET_US, note=note),
        timed(f"{running} sequences, only updates exported", samples["updates"], note=note),
    ]


BENCHMARK = Benchmark("engine-step", "append, commit, 2 frees, 2 admits and exports", run)
