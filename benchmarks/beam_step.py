"""Beam search: the step (reorder + append) at any prompt length, fork, end of a group; beside vLLM's resubmission."""

import numpy as np

from benchmarks import vllm_results
from benchmarks.batch import BLOCK_SIZE
from benchmarks.clock import Sample, Stopwatch, interleave
from benchmarks.report import Benchmark, Row, Settings, timed
from pagedkv import KVCacheManager

BEAMS = 8
STEPS = 64  # steps a sample: every beam takes four blocks
STEP_TARGET_US = 8.0
GROUPS, GROUP_BEAMS, GROUPS_TARGET_US = 64, 4, 60.0
FORK_TARGET_US, FREE_TARGET_US = 12.0, 15.0
TIMES_FASTER = 1000.0
AGAINST_VLLM = 32 * 1024  # prompt tokens


class BeamGroups:
    """`groups` prompts with `beams` beams each, all stepped in one call; parents are drawn uniformly beforehand."""

    def __init__(self, groups: int, beams: int, prompt_tokens: int) -> None:
        self.start = prompt_tokens + BLOCK_SIZE // 2  # off a block boundary, so that first writes copy
        blocks = -(-self.start // BLOCK_SIZE)
        self.manager = KVCacheManager(groups * (blocks + beams * (STEPS // BLOCK_SIZE + 3)), BLOCK_SIZE)
        self.ids = np.arange(groups * beams, dtype=np.int64)
        self.counts = np.ones(groups * beams, dtype=np.int32)
        self.roots = self.ids[::beams]
        self.beams = beams
        for root in self.roots.tolist():
            self.manager.admit(root, (), reserve=self.start)
            self.manager.commit([root], [self.start])
            self.manager.fork(root, np.arange(root + 1, root + beams))
        own = np.repeat(self.roots, beams)
        draws = np.random.default_rng(0).integers(0, beams, (STEPS, groups * beams))
        self.parents = [(own + drawn).astype(np.int32) for drawn in draws]
        self.steps()  # emits the prompts' table entries, which no later step emits again

    def steps(self) -> Sample:
        """STEPS beam steps, their arrays read; then all beams are cut back to where they began."""
        reorder, append, ids, counts = self.manager.reorder, self.manager.append, self.ids, self.counts
        watch = Stopwatch()
        for parents in self.parents:
            plan = reorder(ids, parents)
            plan.updates  # noqa: B018  the array is made on first access: that is what is measured
            plan = append(ids, counts)
            plan.slots, plan.updates, plan.copies  # noqa: B018
        sample = watch.stop(STEPS)
        self.cut_back()
        return sample

    def cut_back(self) -> None:
        """Truncate, and share the last block of the prompt again: the next sample copies it like this one."""
        self.manager.truncate(self.ids, np.full(self.ids.size, self.start, dtype=np.int32))
        self.manager.reorder(self.ids, np.repeat(self.roots, self.beams))


class Prompt:
    """One long prompt that is forked and ended, over and over."""

    def __init__(self, prompt_tokens: int) -> None:
        self.tokens = prompt_tokens
        self.manager = KVCacheManager(2 * (prompt_tokens // BLOCK_SIZE + BEAMS), BLOCK_SIZE)
        self.children = np.arange(1, BEAMS, dtype=np.int64)
        self.all = np.arange(BEAMS, dtype=np.int64)

    def admit(self) -> None:
        self.manager.admit(0, (), reserve=self.tokens)
        self.manager.commit([0], [self.tokens])

    def fork(self) -> Sample:
        self.admit()
        watch = Stopwatch()
        self.manager.fork(0, self.children)
        sample = watch.stop()
        self.manager.free(self.all)
        return sample

    def free(self) -> Sample:
        """All beams of a group end in one call, each with a last block of its own."""
        self.admit()
        self.manager.fork(0, self.children)
        self.manager.append(self.all, np.ones(BEAMS, dtype=np.int32))
        watch = Stopwatch()
        self.manager.free(self.all)
        return watch.stop()


def run(settings: Settings) -> list[Row]:
    prompts = settings.pick((1024, AGAINST_VLLM, 512 * 1024), (32, 64))
    rounds = settings.pick(300, 2)
    alone = {tokens: BeamGroups(1, BEAMS, tokens) for tokens in prompts}
    samples = interleave({str(tokens): group.steps for tokens, group in alone.items()}, rounds)
    rows = [
        timed(f"step of {BEAMS} beams, prompt {tokens:,}", samples[str(tokens)], target_us=STEP_TARGET_US)
        for tokens in prompts
    ]
    if settings.vllm_results is not None and AGAINST_VLLM in prompts:
        rows += against_vllm(settings, rows[prompts.index(AGAINST_VLLM)])
    return rows + many_groups(settings, rounds) + one_group(settings)


def many_groups(settings: Settings, rounds: int) -> list[Row]:
    groups, tokens = settings.pick(GROUPS, 3), settings.pick(AGAINST_VLLM, 32)
    many = BeamGroups(groups, GROUP_BEAMS, tokens)
    samples = interleave({"steps": many.steps}, rounds)["steps"]
    many.manager.check()
    case = f"step of {groups} groups of {GROUP_BEAMS} beams, prompts {tokens:,}"
    return [timed(case, samples, target_us=GROUPS_TARGET_US)]


def one_group(settings: Settings) -> list[Row]:
    tokens = settings.pick(AGAINST_VLLM, 32)
    prompt = Prompt(tokens)
    samples = interleave({"fork": prompt.fork, "free": prompt.free}, settings.pick(2000, 3))
    return [
        timed(f"fork of {BEAMS - 1} children, prompt {tokens:,}", samples["fork"], target_us=FORK_TARGET_US),
        timed(f"free of the group of {BEAMS}, prompt {tokens:,}", samples["free"], target_us=FREE_TARGET_US),
    ]


def against_vllm(settings: Settings, ours: Row) -> list[Row]:
    """Beside vLLM, where every beam of every step is a new request."""
    assert settings.vllm_results is not None
    theirs = vllm_results.beam_step(settings.vllm_results, AGAINST_VLLM, BEAMS)
    if theirs is None:
        return []
    case = f"step of {BEAMS} beams, prompt {AGAINST_VLLM:,}, times faster than vLLM"
    return [vllm_results.times_faster(case, ours, [theirs], at_least=TIMES_FASTER)]


BENCHMARK = Benchmark("beam-step", "reorder + append of beam groups, fork, free of a group", run)
