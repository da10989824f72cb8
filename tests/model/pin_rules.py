"""Rules of the state machine for the allocator view: pins on sequences' blocks, and publication."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from hypothesis.strategies import DataObject

from .drawing import drawn_blocks, drawn_form, seldom
from .harness import Harness

WRITES = ("append", "reserve", "commit")


class PinRules(Harness):
    """allocate, increment_ref, free, publish and unpublish through ``manager.allocator``."""

    @rule(count=st.integers(-1, 3))
    def allocate(self, count: int) -> None:
        outcome = self.both(lambda: self.model.pool.allocate(count), lambda: self.manager.allocator.allocate(count))
        if outcome.error is None:
            want, got = outcome.value
            assert got.tolist() == want

    @precondition(lambda self: any(s.table for s in self.model.sequences.values()))
    @rule(data=st.data())
    def pin_held(self, data: DataObject) -> None:
        """Pin what a sequence holds: its next write there must copy."""
        held = [block for sequence in self.model.sequences.values() for block in sequence.table]
        self.pin(data, data.draw(st.lists(st.sampled_from(held), min_size=1, max_size=3)))

    @precondition(lambda self: any(s.length < s.capacity for s in self.model.sequences.values()))
    @rule(data=st.data(), count=st.integers(1, 2), how=st.sampled_from(WRITES))
    def write_a_shared_block(self, data: DataObject, count: int, how: str) -> None:
        """Pin the block that a sequence writes next, then write: a copy, or a refusal that leaves both alone."""
        seq_id = data.draw(st.sampled_from([n for n, s in self.model.sequences.items() if s.length < s.capacity]))
        sequence = self.model.sequences[seq_id]
        next_written = sequence.table[sequence.length // self.model.block_size]
        self.pin(data, [next_written] * count)
        self._write(seq_id, count, how)

    @precondition(lambda self: any(s.length for s in self.model.sequences.values()))
    @rule(data=st.data(), how=st.sampled_from(WRITES))
    def overwrite_a_published_block(self, data: DataObject, how: str) -> None:
        """Reject tokens of a findable block, then write over them: it is findable up to that moment."""
        seq_id = data.draw(st.sampled_from([n for n, s in self.model.sequences.items() if s.length]))
        sequence = self.model.sequences[seq_id]
        column = (sequence.length - 1) // self.model.block_size
        published, kept = [sequence.table[column]], data.draw(st.integers(0, sequence.tokens_in_column(column) - 1))
        self.both(lambda: self.model.pool.publish(published), lambda: self.manager.allocator.publish(published))
        length = column * self.model.block_size + kept
        self.both(
            lambda: self.model.truncate([seq_id], [length], keep_blocks=True),
            lambda: self.manager.truncate([seq_id], [length], keep_blocks=True),
        )
        self.memory.truncate(seq_id, length)
        self._write(seq_id, 1, how)

    def _write(self, seq_id: int, count: int, how: str) -> None:
        """The three ways in which a sequence's next positions come to be written."""
        model, manager = self.model, self.manager
        length = model.sequences[seq_id].length + count
        if how == "append":
            outcome = self.both(lambda: model.append([seq_id], [count]), lambda: manager.append([seq_id], [count]))
            self.carry_out([seq_id], outcome)
        elif how == "reserve":
            outcome = self.both(lambda: model.reserve([seq_id], [length]), lambda: manager.reserve([seq_id], [length]))
            self.same_plan(outcome)
        else:
            outcome = self.both(lambda: model.commit([seq_id], [length]), lambda: manager.commit([seq_id], [length]))
            if outcome.error is None:
                self.memory.write(seq_id, model.sequences[seq_id].slots(range(length - count, length)))

    @precondition(lambda self: self.live)
    @rule(data=st.data(), deferred=st.booleans())
    def cache_a_sequence(self, data: DataObject, deferred: bool) -> None:
        """What an index will do: publish a sequence's blocks, so that they stay findable after it."""
        seq_id = data.draw(st.sampled_from(self.live))
        blocks = list(self.model.sequences[seq_id].table)
        after = self.model.last_step if deferred else None
        self.both(lambda: self.model.pool.publish(blocks), lambda: self.manager.allocator.publish(blocks))
        self.both(lambda: self.model.free([seq_id], after=after), lambda: self.manager.free([seq_id], after=after))
        self.memory.free(seq_id)

    @precondition(lambda self: self.model.pool.cached)
    @rule(data=st.data())
    def revive(self, data: DataObject) -> None:
        """A hit: findable blocks come back with what they held."""
        self.pin(data, data.draw(st.lists(st.sampled_from(self.model.pool.cached), min_size=1, max_size=3)))

    def pin(self, data: DataObject, ids: list[int]) -> None:
        self.both(
            lambda: self.model.pool.pin(ids),
            lambda: self.manager.allocator.increment_ref(drawn_form(data, ids, "int32")),
        )

    @precondition(lambda self: any(block.pins for block in self.model.pool.blocks))
    @rule(data=st.data())
    def unpin(self, data: DataObject) -> None:
        """Every pinned block as often as it is pinned, and once too often now and then."""
        pinned = [n for n, block in enumerate(self.model.pool.blocks) for _ in range(block.pins)]
        ids = data.draw(st.permutations(pinned))[: data.draw(st.integers(1, len(pinned)))]
        if seldom(data):
            ids = [*ids, *ids]
        self.unpin_ids(data, ids)

    def unpin_ids(self, data: DataObject, ids: list[int]) -> None:
        self.both(
            lambda: self.model.pool.unpin(ids),
            lambda: self.manager.allocator.free(drawn_form(data, ids, "int32")),
        )

    @precondition(lambda self: self.model.pool.in_use)
    @rule(data=st.data())
    def publish(self, data: DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(self.model.pool.in_use), max_size=4))
        if seldom(data):
            ids += drawn_blocks(data, self.model.num_blocks)
        self.both(
            lambda: self.model.pool.publish(ids),
            lambda: self.manager.allocator.publish(drawn_form(data, ids, "int32")),
        )

    @precondition(lambda self: any(block.published for block in self.model.pool.blocks))
    @rule(data=st.data())
    def unpublish(self, data: DataObject) -> None:
        published = [n for n, block in enumerate(self.model.pool.blocks) if block.published]
        ids = data.draw(st.lists(st.sampled_from(published), max_size=4))
        if seldom(data):
            ids += drawn_blocks(data, self.model.num_blocks)
        self.both(
            lambda: self.model.pool.unpublish(ids),
            lambda: self.manager.allocator.unpublish(drawn_form(data, ids, "int32")),
        )
