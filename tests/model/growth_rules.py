"""Rules of the state machine for admission and growth."""

from __future__ import annotations

import pickle

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from hypothesis.strategies import DataObject

from pagedkv import StepPlan

from .drawing import SEQ_IDS, drawn_batch, drawn_form, drawn_tokens, lengths, maybe, seldom
from .harness import Harness
from .prompts import Prompt


class GrowthRules(Harness):
    """admit, append, reserve, and their ``try_`` forms."""

    @rule(
        data=st.data(),
        seq_id=st.sampled_from(SEQ_IDS),
        prompt=lengths(24),
        reserve=maybe(lengths(30)),
        salt=st.sampled_from((b"", b"tenant")),
        tries=st.booleans(),
    )
    def admit(self, data: DataObject, seq_id: int, prompt: int, reserve: int | None, salt: bytes, tries: bool) -> None:
        tokens = range(100, 100 + prompt)
        call, both = (self.manager.try_admit, self.both_try) if tries else (self.manager.admit, self.both)
        outcome = both(
            lambda: self.model.admit(seq_id, Prompt(tuple(tokens), salt), reserve),
            lambda: call(seq_id, drawn_form(data, tokens, "int32"), salt=salt, reserve=reserve),
        )
        self.admitted(seq_id, outcome)

    @precondition(lambda self: len(self.model.sequences) < len(SEQ_IDS))
    @rule(data=st.data(), tokens=st.integers(0, 3), reserve=maybe(st.integers(0, 4), one_in=4))
    def start(self, data: DataObject, tokens: int, reserve: int | None) -> None:
        """Admit a new sequence and append its prompt: lives that overlap are what everything else acts on."""
        seq_id = data.draw(st.sampled_from([s for s in SEQ_IDS if s not in self.model.sequences]))
        prompt = tokens * self.model.block_size + data.draw(lengths(self.model.block_size - 1))
        room = None if reserve is None else reserve * self.model.block_size
        if self.admit_prompt(seq_id, Prompt(tuple(range(prompt))), room).error is None:
            self.append_rest(seq_id)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), partial=st.booleans(), tries=st.booleans(), give_tokens=st.booleans())
    def append(self, data: DataObject, partial: bool, tries: bool, give_tokens: bool) -> None:
        ids = drawn_batch(data, self.live)
        most = 2 * self.model.block_size + 1
        counts = [data.draw(lengths(most)) for _ in ids]
        tokens = drawn_tokens(data, sum(counts) + seldom(data)) if give_tokens else None
        call, both = (self.manager.try_append, self.both_try) if tries else (self.manager.append, self.both)
        outcome = both(
            lambda: self.model.append(ids, counts, tokens=tokens, partial=partial),
            lambda: call(
                drawn_form(data, ids, "int64"),
                drawn_form(data, counts, "int32"),
                tokens=tokens,
                partial=partial,
            ),
        )
        self.carry_out(ids, outcome)

    @rule(partial=st.booleans())
    def append_one_each(self, partial: bool) -> None:
        """A decode step of everything that runs, oldest first: fills pools, so that refusals are common."""
        counts = [1] * len(self.live)
        outcome = self.both(
            lambda: self.model.append(self.live, counts, partial=partial),
            lambda: self.manager.append(self.live, counts, partial=partial),
        )
        if outcome.error is None:
            assert isinstance(outcome.value, tuple)
            self._plan_survives_travel(outcome.value[1])
        self.carry_out(self.live, outcome)

    def _plan_survives_travel(self, plan: StepPlan) -> None:
        for copy in (StepPlan.from_bytes(plan.to_bytes()), pickle.loads(pickle.dumps(plan))):
            assert copy.to_bytes() == plan.to_bytes()
            assert copy.step == plan.step

    @precondition(lambda self: self.live)
    @rule(data=st.data(), tries=st.booleans())
    def reserve(self, data: DataObject, tries: bool) -> None:
        ids = drawn_batch(data, self.live)
        upto = [self._drawn_target(data, seq_id) for seq_id in ids]
        call, both = (self.manager.try_reserve, self.both_try) if tries else (self.manager.reserve, self.both)
        outcome = both(
            lambda: self.model.reserve(ids, upto),
            lambda: call(drawn_form(data, ids, "int64"), drawn_form(data, upto, "int32")),
        )
        self.same_plan(outcome)

    def _drawn_target(self, data: DataObject, seq_id: int) -> int:
        """Mostly a few tokens ahead, seldom far beyond the pool; behind the length is a no-op."""
        sequence = self.model.sequences.get(seq_id)
        ahead = 100 if seldom(data) else 2 * self.model.block_size
        return data.draw(lengths((sequence.length if sequence else 0) + ahead))
