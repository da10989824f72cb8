"""One decode step: a batched append of one token a sequence, its arrays read; beside vLLM's figure."""

from benchmarks import vllm_results
from benchmarks.batch import DecodeBatch, blocks_needed, clean_manager
from benchmarks.clock import calibrate, interleave
from benchmarks.report import Benchmark, Row, Settings, Target, timed

PROMPT_TOKENS = 1024
TARGET_US = {256: 7.5, 4096: 120.0}
TIMES_FASTER = {256: 200.0}


def run(settings: Settings) -> list[Row]:
    rows = []
    for running in settings.pick((64, 256, 1024, 4096), (4, 32)):
        prompt_tokens = settings.pick(PROMPT_TOKENS, 32)
        batch = DecodeBatch(clean_manager(blocks_needed(running, prompt_tokens)), running, prompt_tokens)
        rounds = settings.pick(max(50, 100_000 // running), 2)
        samples = interleave({"read": batch.read, "core": batch.core}, rounds)
        read = timed(f"{running} running, arrays read", samples["read"], target_us=TARGET_US.get(running))
        rows += [read, timed(f"{running} running, arrays not read", samples["core"])]
        if settings.vllm_results is not None:
            rows += against_vllm(settings, running, read)
    return rows


def against_vllm(settings: Settings, running: int, ours: Row) -> list[Row]:
    """How many times vLLM's minimum is ours; the note gives both calibration loops."""
    assert settings.vllm_results is not None
    theirs = vllm_results.decode_step(settings.vllm_results, running)
    if theirs is None:
        return []
    faster = TIMES_FASTER.get(running)
    target = None if faster is None else Target(faster, at_least=True)
    note = (
        f"vLLM {theirs.cpu_min:.0f} us (median {theirs.cpu_median:.0f}, {theirs.samples} steps);"
        f" calibration {theirs.calibration_us:.0f} us theirs, {calibrate():.0f} us here"
    )
    case = f"{running} running, times faster than vLLM"
    return [Row(case, theirs.cpu_min / ours.value, "x", target, note=note)]


BENCHMARK = Benchmark("decode-step", "one batched append for all running sequences", run)
