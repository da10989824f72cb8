"""What a run's history costs: the same simulation with and without it, in turns in one process."""

from dataclasses import dataclass

from benchmarks.clock import Case, Sample, Stopwatch, interleave
from benchmarks.report import Benchmark, Row, Settings, Spread, Target
from benchmarks.simulate_trace import TRACE
from pagedkv import OpaqueLayout
from pagedkv.simulate import Load, Lognormal, PoolSpec, Simulation, SyntheticLoad, Workload, read_trace

TARGET = 1.15  # of a real trace; the drawn loads run for a tenth of a second, of which what is fixed is more
STEP_TICKS = 500_000  # 50 ms


@dataclass(frozen=True, slots=True)
class Run:
    """A load over a pool of 16-token blocks."""

    name: str
    workload: Workload
    blocks: int
    step_ticks: int | None = None
    prefix_caching: bool = False
    target: Target | None = None

    def case(self, *, history: bool) -> Case:
        """Time the run alone: neither reading nor construction."""

        def measure() -> Sample:
            load = Load(self.workload, step_ticks=self.step_ticks, prefix_caching=self.prefix_caching)
            simulation = Simulation(PoolSpec(OpaqueLayout(512, 16), self.blocks), load, history=history)
            watch = Stopwatch()
            simulation.run()
            return watch.stop()

        return measure


def run(settings: Settings) -> list[Row]:
    """Drawn loads everywhere; Azure's conversations too where there is a directory of traces."""
    return [compared(one, settings.pick(7, 1)) for one in runs(settings)]


def runs(settings: Settings) -> list[Run]:
    lengths = (Lognormal(512, 1.0), Lognormal(128, 1.0))
    drawn = SyntheticLoad(settings.pick(4_000, 20), "poisson", rate=4.0, lengths=lengths, seed=42).draw()
    blocks = settings.pick(2_048, 512)
    found = [
        Run("drawn, 50 ms a step", drawn, blocks, STEP_TICKS),
        Run("drawn, all at once", drawn, blocks),
        Run("drawn, prefix caching, 50 ms a step", drawn, blocks, STEP_TICKS, prefix_caching=True),
    ]
    directory = settings.trace_directory
    if not settings.tiny and directory is not None and (directory / TRACE).is_file():
        azure = read_trace(str(directory / TRACE)).workload
        found += [
            Run("Azure conversations, 50 ms a step", azure, 4_096, STEP_TICKS, target=Target(TARGET)),
            Run("Azure conversations, all at once", azure, 65_536, target=Target(TARGET)),
        ]
    return found


def compared(one: Run, rounds: int) -> Row:
    """Least CPU time with history over least CPU time without."""
    samples = interleave({"without": one.case(history=False), "with": one.case(history=True)}, rounds)
    without, recorded = Spread.of(samples["without"]), Spread.of(samples["with"])
    note = f"CPU {recorded.cpu_min / 1e6:.2f} against {without.cpu_min / 1e6:.2f} s; {rounds} rounds"
    case = f"{one.name}, {one.blocks:,} blocks: with history / without"
    return Row(case, recorded.cpu_min / without.cpu_min, "x", one.target, recorded, note)


BENCHMARK = Benchmark("simulation-history", "what a run's history costs", run)
