"""The base of the state machine: one manager, its model and its memory, and the operations on all three."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from pagedkv import Admission, KVCacheManager, StepPlan

from .compare import Outcome, actual, assert_same, expected, plan_lists
from .drawing import maybe
from .memory import Memory
from .plan import ModelPlan
from .prompts import Prompt
from .reference import ModelManager
from .refusal import RefusalError


class Harness(RuleBasedStateMachine):
    """Every operation runs on the model first; then the manager must do, or refuse, exactly the same."""

    prefix_caching = False
    constant_hash = False  # every look-up of a prompt meets everything that is findable

    model: ModelManager
    manager: KVCacheManager
    memory: Memory

    @initialize(
        num_blocks=st.integers(1, 16),
        block_size=st.integers(1, 5),
        max_tokens=maybe(st.integers(1, 40), one_in=4),
        watermark=st.integers(0, 2),
        scratch_blocks=st.integers(0, 2),
    )
    def build(
        self, num_blocks: int, block_size: int, max_tokens: int | None, watermark: int, scratch_blocks: int
    ) -> None:
        watermark = min(watermark, num_blocks - 1)
        self.model = ModelManager(
            num_blocks, block_size, max_tokens, watermark, scratch_blocks, prefix_caching=self.prefix_caching
        )
        self.manager = KVCacheManager(
            num_blocks,
            block_size,
            max_tokens=max_tokens,
            watermark=watermark,
            scratch_blocks=scratch_blocks,
            prefix_caching=self.prefix_caching,
            _constant_hash=self.constant_hash,
        )
        self.memory = Memory(self.model)

    @property
    def live(self) -> list[int]:
        return list(self.model.sequences)

    def both(self, on_model: Callable[[], object], on_manager: Callable[[], object]) -> Outcome:
        """Run both; returns the model's outcome if they agree. Results are compared by the caller."""
        want = expected(on_model)
        got = actual(on_manager, want.figures)
        assert (got.error, got.figures) == (want.error, want.figures)
        return Outcome(value=(want.value, got.value), error=want.error, figures=want.figures)

    def both_try(self, on_model: Callable[[], object], on_manager: Callable[[], object]) -> Outcome:
        """Like `both` for a ``try_`` method: None is its word for "not now", and for nothing else."""
        want = expected(on_model)
        if want.error is None or want.error.__name__ != "OutOfBlocksError":
            return self.both(lambda: _replay(want), on_manager)
        assert on_manager() is None
        return want

    def admitted(self, seq_id: int, outcome: Outcome) -> None:
        """Compare what an admission answered; a hit's tokens are in memory already."""
        if outcome.error is None:
            want, got = outcome.value
            assert isinstance(got, Admission)
            assert (got.seq_id, got.row, got.cached_tokens) == (seq_id, *want)
            self.memory.take_over(seq_id)

    def admit_prompt(self, seq_id: int, prompt: Prompt, reserve: int | None) -> Outcome:
        outcome = self.both(
            lambda: self.model.admit(seq_id, prompt, reserve),
            lambda: self.manager.admit(
                seq_id,
                prompt.tokens,
                salt=prompt.salt,
                reserve=reserve,
                max_hit_tokens=prompt.max_hit_tokens,
                spans=prompt.spans,
            ),
        )
        self.admitted(seq_id, outcome)
        return outcome

    def append_rest(self, seq_id: int) -> Outcome:
        """The tokens of the prompt that did not come from the cache."""
        sequence = self.model.sequences[seq_id]
        count = sequence.known - sequence.length
        outcome = self.both(
            lambda: self.model.append([seq_id], [count]), lambda: self.manager.append([seq_id], [count])
        )
        self.carry_out([seq_id], outcome)
        return outcome

    def same_plan(self, outcome: Outcome) -> ModelPlan | None:
        """Compare the plan of a growth with the model's and carry it out; None if the call was refused."""
        if outcome.error is not None:
            return None
        want, got = outcome.value
        assert isinstance(want, ModelPlan)
        assert isinstance(got, StepPlan)
        assert plan_lists(got) == want
        self.memory.apply(want)
        return want

    def write(self, ids: Sequence[int], plan: ModelPlan) -> None:
        """The model's kernels fill the plan's slots; a slot list in the wrong order would show as lost contents."""
        slots = iter(plan.slots)
        for seq_id, length in zip(ids, plan.lengths, strict=False):
            new = length - len(self.memory.written.get(seq_id, []))
            self.memory.write(seq_id, [next(slots) for _ in range(new)])

    @invariant()
    def model_and_manager_agree(self) -> None:
        assert_same(self.model, self.manager)
        self.memory.check()

    def teardown(self) -> None:
        """Hand out all that is left: the order of clean blocks and of evictions shows only here."""
        if not hasattr(self, "manager"):
            return
        left = self.model.pool.available
        assert self.manager.allocator.allocate(left).tolist() == self.model.pool.allocate(left)
        self.manager.free(self.live)
        self.model.free(self.live)
        assert_same(self.model, self.manager)
        left = self.model.pool.available
        assert self.manager.allocator.allocate(left).tolist() == self.model.pool.allocate(left)

    def carry_out(self, ids: Sequence[int], outcome: Outcome) -> None:
        """Compare a growth's plan, apply it and write the new tokens; nothing if the call was refused."""
        plan = self.same_plan(outcome)
        if plan is not None:
            self.write(ids, plan)


def _replay(outcome: Outcome) -> object:
    """The model's outcome once more, without running the operation twice."""
    if outcome.error is not None:
        raise RefusalError(outcome.error, **outcome.figures)
    return outcome.value
