"""Rules of the state machine for how contents go: written over, withdrawn, forgotten; and what is told about it."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from hypothesis.strategies import DataObject

from .consumer import Consumer, salt_digest, told
from .contents import Content
from .drawing import SEQ_IDS, drawn_blocks, drawn_tokens, seldom
from .prompt_rules import PromptRules
from .prompts import Prompt


class PrefixRules(PromptRules):
    """Prompts, and truncate, allocator.unpublish, reset_prefix_cache, drain_events."""

    @initialize()
    def follow(self) -> None:
        self.consumer = Consumer()

    @precondition(lambda self: any(s.length for s in self.model.sequences.values()))
    @rule(data=st.data(), keep_blocks=st.booleans(), write=st.integers(0, 3))
    def reject(self, data: DataObject, keep_blocks: bool, write: int) -> None:
        """Back into what is findable, which it stays until it is written over; often where something covers it."""
        sequences = [s for s in self.model.sequences.values() if s.length]
        findable = [s for s in sequences if s.text.published] or sequences
        covered = [s for s in findable if s.text.spans] or findable
        sequence = data.draw(st.sampled_from(covered + findable))
        seq_id, most = sequence.seq_id, sequence.length - 1
        ends = [end - 1 for _, end, _ in sequence.text.spans if end <= most]
        length = data.draw(st.sampled_from(ends)) if ends else data.draw(st.integers(0, most))
        self.both(
            lambda: self.model.truncate([seq_id], [length], keep_blocks=keep_blocks),
            lambda: self.manager.truncate([seq_id], [length], keep_blocks=keep_blocks),
        )
        self.memory.truncate(seq_id, length)
        if write:
            self._say(data, seq_id, write)

    def _say(self, data: DataObject, seq_id: int, count: int) -> None:
        """Known tokens, committed at once, if the ids so far are known too."""
        sequence = self.model.sequences[seq_id]
        tokens = drawn_tokens(data, count) if sequence.known == sequence.length else None
        outcome = self.both(
            lambda: self.model.append([seq_id], [count], tokens=tokens),
            lambda: self.manager.append([seq_id], [count], tokens=tokens),
        )
        self.carry_out([seq_id], outcome)
        self.commit_all(seq_id)

    @precondition(lambda self: self.model.pool.contents.content_of)
    @rule(data=st.data())
    def withdraw(self, data: DataObject) -> None:
        """By hand, in any state; what lies below goes too."""
        findable = sorted(self.model.pool.contents.content_of)
        ids = data.draw(st.lists(st.sampled_from(findable), min_size=1, max_size=2))
        if seldom(data):
            ids += drawn_blocks(data, self.model.num_blocks)
        self.both(lambda: self.model.pool.unpublish(ids), lambda: self.manager.allocator.unpublish(ids))

    @precondition(lambda self: any(s.text.published for s in self.model.sequences.values()))
    @rule(data=st.data(), deepest=st.booleans())
    def withdraw_and_go_on(self, data: DataObject, deepest: bool) -> None:
        """What a sequence publishes next would lie below what was withdrawn: nobody could reach it."""
        sequence = data.draw(st.sampled_from([s for s in self.model.sequences.values() if s.text.published]))
        ids = [sequence.table[sequence.text.published - 1 if deepest else 0]]
        self.both(lambda: self.model.pool.unpublish(ids), lambda: self.manager.allocator.unpublish(ids))
        self._say(data, sequence.seq_id, 2 * self.model.block_size)

    @rule(data=st.data())
    def publish_by_hand(self, data: DataObject) -> None:
        ids = drawn_blocks(data, self.model.num_blocks)
        self.both(lambda: self.model.pool.publish(ids), lambda: self.manager.allocator.publish(ids))

    @rule(finish=st.sampled_from((False, False, True)))
    def reset(self, finish: bool) -> None:
        """Refused while anybody lives. Afterwards nothing is found, and all is handed out from block 0 on."""
        if finish:
            ids = self.live
            self.both(lambda: self.model.free(ids), lambda: self.manager.free(ids))
            for seq_id in ids:
                self.memory.free(seq_id)
        assert self.manager.reset_prefix_cache() == self.model.reset_prefix_cache()

    @precondition(lambda self: self.model.num_blocks <= 8 and not self.live)
    @rule(beyond=st.integers(0, 3))
    def leave_events_unread(self, beyond: int) -> None:
        """Up to the most that are kept, and a few more: then the record is given up."""
        record = self.model.pool.contents.record
        self.drain()
        for _ in range(record.limit):  # where pins leave no block there will be no events
            if len(record.events) < record.limit:
                self._store_or_remove_one()
        for _ in range(beyond):
            self._store_or_remove_one()
        self.drain()

    def _store_or_remove_one(self) -> None:
        """One event, or two where something is evicted for it."""
        prompt = Prompt((7,) * self.model.block_size)
        content = Content.of(b"", prompt.tokens, (), self.model.block_size, 1)
        blocks = list(self.model.pool.contents.copies.get(content, ()))
        if blocks:
            self.both(lambda: self.model.pool.unpublish(blocks), lambda: self.manager.allocator.unpublish(blocks))
        else:
            self.serve_prompt(SEQ_IDS[0], prompt, deferred=False)

    @rule()
    def drain(self) -> None:
        """What is told is what happened, and who applies it in order has the cache's contents."""
        contents = self.model.pool.contents
        want = contents.record.drain((blocks[0], content) for content, blocks in contents.copies.items())
        assert self.consumer.apply(self.manager.drain_events()) == Counter(map(told, want))
        held = Counter((salt_digest(content.salt), tuple(content.tokens)) for content in contents.copies)
        assert Counter(self.consumer.present.values()) == held
