"""The benchmarks, in the order in which they run. A new one is a module and a line here."""

from benchmarks import (
    beam_step,
    decode_scaling,
    decode_step,
    engine_step,
    eviction_pressure,
    free_scattered,
    import_cost,
    planner,
    pool_build,
    prefix_memory,
    prefix_reuse,
    report_opening,
    simulate_trace,
    simulation_history,
    statistics_cost,
    trace_reading,
)
from benchmarks.report import Benchmark

BENCHMARKS: tuple[Benchmark, ...] = (
    decode_step.BENCHMARK,
    decode_scaling.BENCHMARK,
    eviction_pressure.BENCHMARK,
    engine_step.BENCHMARK,
    beam_step.BENCHMARK,
    prefix_reuse.BENCHMARK,
    prefix_memory.BENCHMARK,
    statistics_cost.BENCHMARK,
    free_scattered.BENCHMARK,
    pool_build.BENCHMARK,
    import_cost.BENCHMARK,
    simulate_trace.BENCHMARK,
    planner.BENCHMARK,
    simulation_history.BENCHMARK,
    trace_reading.BENCHMARK,
    report_opening.BENCHMARK,
)
