"""Rules of the state machine for the cursors and for release."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from hypothesis.strategies import DataObject

from .drawing import drawn_batch, drawn_form, drawn_tokens, lengths, maybe, seldom
from .harness import Harness


class CursorRules(Harness):
    """commit, truncate, free, retire."""

    @precondition(lambda self: self.live)
    @rule(data=st.data(), give_tokens=st.booleans())
    def commit(self, data: DataObject, give_tokens: bool) -> None:
        ids = drawn_batch(data, self.live)
        upto = [self._drawn_length(data, seq_id) for seq_id in ids]
        live = [(self.model.sequences[s], n) for s, n in zip(ids, upto, strict=True) if s in self.model.sequences]
        tokens = [token for sequence, n in live for token in self._late_ids(data, sequence.seq_id, n)]
        tokens += [0] * seldom(data)
        before = {sequence.seq_id: sequence.length for sequence, _ in live}
        outcome = self.both(
            lambda: self.model.commit(ids, upto, tokens=tokens if give_tokens else None),
            lambda: self.manager.commit(
                drawn_form(data, ids, "int64"),
                drawn_form(data, upto, "int32"),
                tokens=drawn_form(data, tokens, "int32") if give_tokens else None,
            ),
        )
        if outcome.error is None:
            for sequence, _ in live:
                new = range(before[sequence.seq_id], sequence.length)
                self.memory.write(sequence.seq_id, sequence.slots(new))

    def _late_ids(self, data: DataObject, seq_id: int, upto: int) -> list[int]:
        """What was written without its ids, and what the commit itself adds."""
        sequence = self.model.sequences[seq_id]
        written = self.memory.tokens(seq_id)[sequence.known : upto]
        return written + drawn_tokens(data, max(0, upto - sequence.known - len(written)))

    def _drawn_length(self, data: DataObject, seq_id: int) -> int:
        """Up to the capacity, seldom one beyond: both sides of that limit are hit."""
        sequence = self.model.sequences.get(seq_id)
        return data.draw(lengths(sequence.capacity if sequence else 3)) + seldom(data)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), keep_blocks=st.booleans())
    def truncate(self, data: DataObject, keep_blocks: bool) -> None:
        ids = drawn_batch(data, self.live)
        upto = [self._drawn_shorter(data, seq_id) for seq_id in ids]
        outcome = self.both(
            lambda: self.model.truncate(ids, upto, keep_blocks=keep_blocks),
            lambda: self.manager.truncate(
                drawn_form(data, ids, "int64"), drawn_form(data, upto, "int32"), keep_blocks=keep_blocks
            ),
        )
        if outcome.error is None:
            for seq_id, length in zip(ids, upto, strict=True):
                self.memory.truncate(seq_id, length)

    def _drawn_shorter(self, data: DataObject, seq_id: int) -> int:
        sequence = self.model.sequences.get(seq_id)
        return data.draw(lengths(sequence.length if sequence else 3)) + seldom(data)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), back=maybe(st.sampled_from((0, 0, 0, 1, 2, 3, -1)), one_in=2))
    def free(self, data: DataObject, back: int | None) -> None:
        """``back`` steps before the newest one; -1 is a step that has not been planned yet."""
        ids = drawn_batch(data, self.live, most=2)
        after = None if back is None else self.model.last_step - back
        outcome = self.both(
            lambda: self.model.free(ids, after=after),
            lambda: self.manager.free(drawn_form(data, ids, "int64"), after=after),
        )
        if outcome.error is None:
            for seq_id in ids:
                self.memory.free(seq_id)

    @precondition(lambda self: self.live)
    @rule()
    def preempt_newest(self) -> None:
        """Give the newest back behind the newest step, as an engine does under pressure."""
        newest = self.live[-1]
        self.model.free([newest], after=self.model.last_step)
        self.manager.free([newest], after=self.manager.last_step)
        self.memory.free(newest)

    @precondition(lambda self: self.model.last_step > self.model.pool.retired_step)
    @rule(back=st.sampled_from((0, 1, 2, 3, 8, -1)))
    def retire(self, back: int) -> None:
        step = self.model.last_step - back
        self.both(lambda: self.model.retire(step), lambda: self.manager.retire(step))
