"""Rules of the state machine for sequences that share blocks with each other: fork, reorder, groups written and freed.

Sequences with the same first block are called relatives here; the manager has its own idea of groups, which must not
show.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from hypothesis.strategies import DataObject

from .drawing import SEQ_IDS, STRANGER, drawn_batch, drawn_form, lengths, maybe, seldom
from .harness import Harness
from .prompts import Prompt

CHILD_IDS = (*SEQ_IDS, *range(20, 30))
MOST_LIVE = 12  # more than that, and nearly all growth is refused


class ForkRules(Harness):
    """fork and reorder, and what makes them matter: members of a group that write, shrink and end in any order."""

    @initialize(
        num_blocks=st.sampled_from((1, 3, 5, 7, 10, 14, 18, 24)),
        block_size=st.sampled_from((2, 4, 3, 1, 5)),
        max_tokens=maybe(st.integers(1, 40), one_in=8),
        watermark=st.integers(0, 2),
        scratch_blocks=st.integers(0, 2),
    )
    def build(
        self, num_blocks: int, block_size: int, max_tokens: int | None, watermark: int, scratch_blocks: int
    ) -> None:
        """Larger pools than elsewhere: what is to be shared must fit first. Blocks of one token are never copied."""
        super().build(num_blocks, block_size, max_tokens, watermark, scratch_blocks)

    @precondition(lambda self: 0 < len(self.live) < MOST_LIVE)
    @rule(data=st.data())
    def fork(self, data: DataObject) -> None:
        parent = STRANGER if seldom(data) else data.draw(st.sampled_from(self.live))
        children = self._drawn_children(data)
        if children and seldom(data):
            children.append(data.draw(st.sampled_from((children[0], parent, *self.live))))
        self._fork(data, parent, children)

    def _drawn_children(self, data: DataObject, least: int = 0) -> list[int]:
        unused = [seq_id for seq_id in CHILD_IDS if seq_id not in self.model.sequences]
        return data.draw(st.lists(st.sampled_from(unused), unique=True, min_size=least, max_size=4))

    def _fork(self, data: DataObject, parent: int, children: list[int]) -> None:
        outcome = self.both(
            lambda: self.model.fork(parent, children),
            lambda: self.manager.fork(parent, drawn_form(data, children, "int64")),
        )
        if outcome.error is None:
            self.memory.fork(parent, children)

    @precondition(lambda self: 0 < len(self.live) < MOST_LIVE)
    @rule(data=st.data(), tokens=st.integers(1, 3))
    def fork_and_diverge(self, data: DataObject, tokens: int) -> None:
        """The children's next tokens go where the parent's would: k of r holders write in one batch."""
        parent = data.draw(st.sampled_from(self.live))
        self._diverge(data, parent, self._drawn_children(data), tokens)

    @precondition(lambda self: len(self.live) < MOST_LIVE)
    @rule(data=st.data(), prompt=st.integers(1, 9), tokens=st.integers(1, 3))
    def start_a_group(self, data: DataObject, prompt: int, tokens: int) -> None:
        """A prompt, mostly with a block that is full only in part, and children that go their own ways."""
        parent = self._drawn_children(data, least=1)[0]
        if self.admit_prompt(parent, Prompt(tuple(range(prompt))), 0).error is None:
            self.append_rest(parent)
            self._diverge(data, parent, self._drawn_children(data, least=1), tokens)

    def _diverge(self, data: DataObject, parent: int, children: list[int], tokens: int) -> None:
        self._fork(data, parent, children)
        writers = data.draw(st.permutations([parent, *children]))[: data.draw(st.integers(1, 1 + len(children)))]
        self._append(data, writers, [data.draw(st.integers(1, tokens)) for _ in writers])

    @precondition(lambda self: self.live)
    @rule(data=st.data(), partial=st.booleans())
    def write_together(self, data: DataObject, partial: bool) -> None:
        """Some of a group and perhaps of others, in any order."""
        writers = self._drawn_relatives(data)
        self._append(data, writers, [data.draw(st.integers(0, 2)) for _ in writers], partial)

    def _append(self, data: DataObject, ids: list[int], counts: list[int], partial: bool = False) -> None:
        outcome = self.both(
            lambda: self.model.append(ids, counts, partial=partial),
            lambda: self.manager.append(drawn_form(data, ids, "int64"), counts, partial=partial),
        )
        self.carry_out(ids, outcome)

    def _drawn_relatives(self, data: DataObject) -> list[int]:
        """Mostly a whole group in any order, often only a part of it, at times with sequences unrelated to it."""
        one = data.draw(st.sampled_from(self.live))
        first = self.model.sequences[one].table[:1]
        group = [seq_id for seq_id, s in self.model.sequences.items() if s.table[:1] == first]
        others = [seq_id for seq_id in self.live if seq_id not in group]
        group = data.draw(st.permutations(group))
        part = group if data.draw(st.booleans()) else group[: data.draw(st.integers(1, len(group)))]
        if others and data.draw(st.sampled_from((False, False, True))):
            part = data.draw(st.permutations([*part, *others[:2]]))
        return list(part)

    @precondition(lambda self: len(self.live) > 1)
    @rule(data=st.data())
    def reorder(self, data: DataObject) -> None:
        """One group, some of them, or sequences that have nothing to do with each other."""
        ids = self._drawn_relatives(data) if data.draw(st.booleans()) else drawn_batch(data, self.live, most=8)
        parents = data.draw(st.lists(lengths(max(0, len(ids) - 1)), min_size=len(ids), max_size=len(ids)))
        if seldom(data) and STRANGER not in ids:  # one fault a call, so that the error is certain
            parents[:1] = data.draw(st.sampled_from(([], [-1], [len(ids)], [0, 0], [2**31], [2**63], [-(2**63)])))
        self._reorder(data, ids, parents)

    def _reorder(self, data: DataObject, ids: list[int], parents: list[int]) -> None:
        in_64_bits = all(-(2**63) <= parent < 2**63 for parent in parents)
        outcome = self.both(
            lambda: self.model.reorder(ids, parents),
            lambda: self.manager.reorder(
                drawn_form(data, ids, "int64"), drawn_form(data, parents, "int64") if in_64_bits else parents
            ),
        )
        if self.same_plan(outcome) is not None:
            self.memory.reorder(ids, parents)

    @precondition(lambda self: len(self.live) > 1)
    @rule(data=st.data(), width=st.integers(2, 4), steps=st.integers(1, 3))
    def beam_search(self, data: DataObject, width: int, steps: int) -> None:
        """Two beam groups in one call, each reordered within itself, then all write: copies after every reorder."""
        ids = data.draw(st.permutations(self.live))[: 2 * width]
        groups = [range(len(ids))[:width], range(len(ids))[width:]]
        for _ in range(steps):
            self._reorder(data, ids, [data.draw(st.sampled_from(group)) for group in groups for _ in group])
            self._append(data, ids, [1] * len(ids), partial=True)

    @precondition(lambda self: len(self.live) > 2 and self.model.last_step > self.model.pool.retired_step)
    @rule(data=st.data())
    def end_one_behind_a_step_and_reorder(self, data: DataObject) -> None:
        """What the reorder drops last may still be read by the step that the ended one named."""
        ended, *others = self._drawn_relatives(data)
        after = self.model.last_step
        self.both(lambda: self.model.free([ended], after=after), lambda: self.manager.free([ended], after=after))
        self.memory.free(ended)
        others = [*others, *(seq_id for seq_id in self.live if seq_id not in others)][:4]
        winner = data.draw(lengths(len(others) - 1))
        self._reorder(data, others, [winner] * len(others))

    @precondition(lambda self: self.live)
    @rule(data=st.data(), back=maybe(st.sampled_from((0, 1, 2, 5)), one_in=2))
    def free_relatives(self, data: DataObject, back: int | None) -> None:
        """Whole groups and parts of them; with holders that name different steps the blocks wait for the latest."""
        ids = self._drawn_relatives(data)
        after = None if back is None else max(0, self.model.last_step - back)
        self.both(
            lambda: self.model.free(ids, after=after),
            lambda: self.manager.free(drawn_form(data, ids, "int64"), after=after),
        )
        for seq_id in ids:
            self.memory.free(seq_id)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), keep_blocks=st.booleans(), write=st.booleans())
    def cut_into_shared_blocks(self, data: DataObject, keep_blocks: bool, write: bool) -> None:
        """A member goes back into what all have in common, and writes its own tokens there."""
        ids = self._drawn_relatives(data)[:3]
        upto = [data.draw(lengths(self.model.sequences[seq_id].length)) for seq_id in ids]
        self.both(
            lambda: self.model.truncate(ids, upto, keep_blocks=keep_blocks),
            lambda: self.manager.truncate(ids, upto, keep_blocks=keep_blocks),
        )
        for seq_id, length in zip(ids, upto, strict=True):
            self.memory.truncate(seq_id, length)
        if write:
            self._append(data, ids, [1] * len(ids))
