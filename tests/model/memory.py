"""What a pool would do with the plans, one tag a slot: shows silent corruption where ids and counts still look right.

Every written token gets a tag that is never used again. A plan is carried out like on a device: all copies read before
any of them writes, then the table entries, then the step's own writes. Behind each tag is what was written there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from .contents import Content
from .meaning import Meanings, Written
from .plan import ModelPlan
from .reference import ModelManager


class Memory:
    """The bytes and the device-resident block tables behind one model."""

    def __init__(self, model: ModelManager) -> None:
        self.model = model
        self.slots = [0] * (model.num_blocks * model.block_size)
        self.tables: dict[tuple[int, int], int] = {}  # (row, column) -> block
        self.written: dict[int, list[int]] = {}  # sequence id -> the tag of each of its tokens
        self._protected: dict[int, list[int]] = {}  # block -> tags that must stay while others rely on them
        self._tags = count(1)
        self._meanings = Meanings()
        self._behind: dict[int, Written] = {}  # by tag

    def apply(self, plan: ModelPlan) -> None:
        sources = [source for source, _ in plan.copies]
        targets = [target for _, target in plan.copies]
        assert not set(sources) & set(targets), "a launch must not read a block that it also writes"
        assert len(set(targets)) == len(targets)
        bytes_read = [self._block(source) for source in sources]
        for target, tags in zip(targets, bytes_read, strict=True):
            size = self.model.block_size
            self.slots[target * size : (target + 1) * size] = tags
        for row, column, block in plan.updates:
            self.tables[row, column] = block

    def write(self, seq_id: int, slots: Sequence[int]) -> None:
        """The sequence's next tokens, at these slots. A token whose id nobody gave yet is made up."""
        text = self.model.sequences[seq_id].text
        written = self.written.setdefault(seq_id, [])
        for slot in slots:
            tag, position = next(self._tags), len(written)
            token = text.ids[position] if position < len(text.ids) else tag % 3 % 2
            before = self._behind[written[-1]].meaning if written else self._meanings.of_salt(text.salt)
            self._behind[tag] = Written(token, self._meanings.behind(before, token, text.cover(position)))
            self.slots[slot] = tag
            written.append(tag)

    def tokens(self, seq_id: int) -> list[int]:
        """The ids of all that a sequence has, as far as the engine is concerned: also those not given yet."""
        return [self._behind[tag].token for tag in self.written.get(seq_id, [])]

    def take_over(self, seq_id: int) -> None:
        """A hit: the first tokens of a new sequence are there already, and must be the ones that it asked for."""
        sequence = self.model.sequences[seq_id]
        tags = [self.slots[slot] for slot in sequence.slots(range(sequence.length))]
        found = [self._behind[tag].meaning for tag in tags]
        text = sequence.text
        wanted = self._meanings.of_tokens(text.salt, text.ids[: len(tags)], text.cover)
        assert found == wanted, f"sequence {seq_id} took over other tokens than its own"
        self.written[seq_id] = tags

    def truncate(self, seq_id: int, length: int) -> None:
        del self.written.setdefault(seq_id, [])[length:]

    def fork(self, parent: int, children: Sequence[int]) -> None:
        """The children hold their parent's tokens, byte for byte; nothing was written for that."""
        for child in children:
            self.written[child] = list(self.written.get(parent, []))

    def reorder(self, ids: Sequence[int], parents: Sequence[int]) -> None:
        before = [self.written.get(seq_id, []) for seq_id in ids]
        self.written.update({seq_id: list(before[parent]) for seq_id, parent in zip(ids, parents, strict=True)})

    def free(self, seq_id: int) -> None:
        self.written.pop(seq_id, None)

    def check(self) -> None:
        for sequence in self.model.sequences.values():
            tags = [self.slots[slot] for slot in sequence.slots(range(sequence.length))]
            assert tags == self.written.get(sequence.seq_id, []), f"sequence {sequence.seq_id} lost its contents"
            known = [self.tables[sequence.row, column] for column in range(sequence.emitted)]
            assert known == sequence.table[: sequence.emitted], "the device's block table is stale"
        self._check_protected()
        for block, content in self.model.pool.contents.content_of.items():
            self._check_findable(block, content)

    def _check_protected(self) -> None:
        """Pinned blocks, and findable ones whose content nobody told, keep what they held when they became so."""
        told = self.model.pool.contents.content_of
        for block, entry in enumerate(self.model.pool.blocks):
            findable = entry.published and entry.refs == 0 and block not in told
            if not (entry.pins or findable):
                self._protected.pop(block, None)
                continue
            before = self._protected.setdefault(block, self._block(block)[: entry.fill])
            assert self._block(block)[: len(before)] == before, f"block {block} was overwritten under its reader"

    def _check_findable(self, block: int, content: Content) -> None:
        """Whoever finds the block by its content finds that content in it."""
        held = [self._behind[tag].meaning for tag in self._block(block)]
        assert held == self._meanings.of_last_block(content), f"block {block} is found by what it does not hold"

    def _block(self, block: int) -> list[int]:
        size = self.model.block_size
        return self.slots[block * size : (block + 1) * size]
