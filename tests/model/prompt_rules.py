"""Rules of the state machine for prefix reuse: prompts that begin alike, and whole lives of them.

A machine that has these rules knows contents; `PromptRules` comes before the others in its bases, so that its prompts
are the ones admitted.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from hypothesis.strategies import DataObject

from .drawing import SEQ_IDS, drawn_form, maybe, seldom
from .harness import Harness
from .prompt_drawing import MOST_TOKENS, drawn_prompt
from .prompts import Prompt


class PromptRules(Harness):
    """admit and lookup; append, commit and free of what they lead to."""

    prefix_caching = True

    @initialize(
        num_blocks=st.sampled_from((16, 28, 8, 48, 12, 40, 3)),
        block_size=st.sampled_from((1, 2, 1, 3, 4)),
        max_tokens=maybe(st.integers(8, 40), one_in=8),
        watermark=st.sampled_from((0, 0, 1, 2)),
        scratch_blocks=st.integers(0, 1),
    )
    def build(
        self, num_blocks: int, block_size: int, max_tokens: int | None, watermark: int, scratch_blocks: int
    ) -> None:
        """Blocks of one token are common: chains of more than a dozen blocks must be."""
        super().build(num_blocks, block_size, max_tokens, watermark, scratch_blocks)
        self.prompts: list[Prompt] = []

    def _drawn_prompt(self, data: DataObject) -> Prompt:
        room = (self.model.num_blocks - self.model.watermark) * self.model.block_size
        most = min(MOST_TOKENS, room, self.model.max_tokens or room) + seldom(data)
        prompt = drawn_prompt(data, self.prompts, most, self.model.block_size)
        self.prompts = [*self.prompts, prompt][-12:]
        return prompt

    def _drawn_id(self, data: DataObject) -> int:
        return data.draw(st.sampled_from([s for s in SEQ_IDS if s not in self.model.sequences]))

    @property
    def crowded(self) -> bool:
        """With more sequences than this nearly every admission would be refused."""
        return len(self.model.sequences) > 3

    @rule(data=st.data(), seq_id=st.sampled_from(SEQ_IDS), reserve=maybe(st.integers(0, 45)), tries=st.booleans())
    def admit(self, data: DataObject, seq_id: int, reserve: int | None, tries: bool) -> None:
        """Nothing is written, so nothing new is findable; bad spans too."""
        prompt = self._drawn_prompt(data)
        spans = list(prompt.spans)
        if seldom(data):
            spans += data.draw(
                st.sampled_from(([(0, 0, b"")], [(0, 1, b"a"), (0, 1, b"a")], [(3, 2, b"")], [(0, 99, b"")]))
            )
        prompt = Prompt(prompt.tokens, prompt.salt, tuple(spans), prompt.max_hit_tokens)
        call, both = (self.manager.try_admit, self.both_try) if tries else (self.manager.admit, self.both)
        outcome = both(
            lambda: self.model.admit(seq_id, prompt, reserve),
            lambda: call(
                seq_id,
                drawn_form(data, prompt.tokens, "int32"),
                salt=prompt.salt,
                reserve=reserve,
                max_hit_tokens=prompt.max_hit_tokens,
                spans=spans,
            ),
        )
        self.admitted(seq_id, outcome)

    @rule(data=st.data())
    def lookup(self, data: DataObject) -> None:
        prompt = self._drawn_prompt(data)
        found = self.manager.lookup(
            drawn_form(data, prompt.tokens, "int32"),
            salt=prompt.salt,
            max_hit_tokens=prompt.max_hit_tokens,
            spans=prompt.spans,
        )
        assert found == self.model.lookup(prompt)

    @precondition(lambda self: not self.crowded)
    @rule(data=st.data(), reserve=maybe(st.integers(0, 45), one_in=4), commits=st.booleans())
    def start(self, data: DataObject, reserve: int | None, commits: bool) -> None:
        """The cache's part of a prompt is taken over, the rest is computed and perhaps findable at once."""
        self._start(self._drawn_id(data), self._drawn_prompt(data), reserve, commits)

    @precondition(lambda self: not self.crowded)
    @rule(data=st.data(), deferred=st.booleans())
    def serve(self, data: DataObject, deferred: bool) -> None:
        """A prompt's whole life, after which its blocks are cached, or pending and findable."""
        self._make_room()
        self.serve_prompt(self._drawn_id(data), self._drawn_prompt(data), deferred)

    @precondition(lambda self: not self.crowded)
    @rule(data=st.data(), times=st.integers(2, 4))
    def serve_many(self, data: DataObject, times: int) -> None:
        """Pressure: what was findable is evicted, its longest unused part first."""
        for _ in range(times):
            self.serve_prompt(self._drawn_id(data), self._drawn_prompt(data), deferred=False)

    @precondition(lambda self: not self.crowded)
    @rule(data=st.data(), deferred=st.booleans(), whole=st.booleans(), more=st.integers(0, 5))
    def serve_and_ask_again(self, data: DataObject, deferred: bool, whole: bool, more: int) -> None:
        """The next turn of a chat, or the same prompt once more with nothing left to compute."""
        self._make_room()
        seq_id, prompt = self._drawn_id(data), self._drawn_prompt(data)
        self.serve_prompt(seq_id, prompt, deferred)
        longer = Prompt((*prompt.tokens, *[1] * more), prompt.salt, prompt.spans)
        self._start(seq_id, replace(longer, max_hit_tokens=len(longer.tokens) if whole else None), None, commits=True)

    @precondition(lambda self: not self.crowded)
    @rule(data=st.data(), times=st.integers(2, 4), ended=st.integers(0, 2))
    def same_prompt_at_once(self, data: DataObject, times: int, ended: int) -> None:
        """All are admitted before any is findable: contents with several blocks, of which the first ones go."""
        self._make_room()
        prompt = self._drawn_prompt(data)
        ids = [s for s in SEQ_IDS if s not in self.model.sequences][:times]
        started = [s for s in ids if self._start(s, prompt, None, commits=False)]
        for seq_id in started:
            self.commit_all(seq_id)
        for seq_id in started[:ended]:
            self._end(seq_id, None)

    @precondition(lambda self: not self.crowded)
    @rule(data=st.data(), left=st.integers(0, 3))
    def take_over_at_the_watermark(self, data: DataObject, left: int) -> None:
        """A cached prompt, asked for again without room for more, when besides it only ``left`` blocks are free."""
        self._make_room()
        prompt = self._drawn_prompt(data)
        self.serve_prompt(self._drawn_id(data), prompt, deferred=False)
        other, again = [s for s in SEQ_IDS if s not in self.model.sequences][:2]
        found = self.model.lookup(prompt) // self.model.block_size
        taken = (self.model.pool.available - found - left) * self.model.block_size
        self.admit_prompt(other, Prompt(()), 0)
        if taken > 0:
            self.same_plan(
                self.both(lambda: self.model.reserve([other], [taken]), lambda: self.manager.reserve([other], [taken]))
            )
        self.admit_prompt(again, prompt, 0)

    def _make_room(self) -> None:
        """As an engine does: most admissions should find enough blocks, whatever the other rules left."""
        if self.model.pool.available * 2 >= self.model.num_blocks:
            return
        step = self.model.last_step
        self.both(lambda: self.model.retire(step), lambda: self.manager.retire(step))
        while self.live and self.model.pool.available * 2 < self.model.num_blocks:
            self._end(self.live[0], None)

    def _start(self, seq_id: int, prompt: Prompt, reserve: int | None, commits: bool) -> bool:
        if self.admit_prompt(seq_id, prompt, reserve).error is not None or self.append_rest(seq_id).error is not None:
            return False
        if commits:
            self.commit_all(seq_id)
        return True

    def commit_all(self, seq_id: int) -> None:
        length = self.model.sequences[seq_id].length
        self.both(lambda: self.model.commit([seq_id], [length]), lambda: self.manager.commit([seq_id], [length]))

    def serve_prompt(self, seq_id: int, prompt: Prompt, deferred: bool) -> None:
        if self._start(seq_id, prompt, None, commits=True):
            self._end(seq_id, self.model.last_step if deferred else None)

    def _end(self, seq_id: int, after: int | None) -> None:
        self.both(lambda: self.model.free([seq_id], after=after), lambda: self.manager.free([seq_id], after=after))
        self.memory.free(seq_id)
