"""One decode step: a batched append of one token a sequence, its arrays read; beside vLLM's figure."""

from benchmarks import vllm_results
from benchmarks.batch import DecodeBatch, blocks_needed, clean_manager
from benchmarks.clock import interleave
from benchmarks.report import Benchmark, Row, Settings, timed

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
    """Beside vLLM's whole bookkeeping of such a step."""
    assert settings.vllm_results is not None
    theirs = vllm_results.decode_step(settings.vllm_results, running)
    if theirs is None:
        return []
    case = f"{running} running, times faster than vLLM"
    return [vllm_results.times_faster(case, ours, [theirs], at_least=TIMES_FASTER.get(running))]


BENCHMARK = Benchmark("decode-step", "one batched append for all running sequences", run)
