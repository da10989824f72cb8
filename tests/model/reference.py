"""The reference model of `KVCacheManager`: every operation as the design words it, nothing for speed.

Each operation validates everything, then changes things; a `RefusalError` therefore means that nothing changed.
Faults are looked for in one order: bad numbers and repeated ids, unknown or live ids, max_tokens, never-fits, out of
blocks.

Where the contract is silent the model decides, and says so here:

* A sequence's `known` token ids may lie ahead of its length (a prompt not yet appended). A truncation that shortens the
  length forgets the ids from there on, those of the prompt too: what comes next is other tokens. Truncating to the
  current length rejects nothing and so forgets nothing: an engine calls it for every sequence of a step.
* Truncating lowers the fill of the blocks that lose tokens, if their sole holder does it and they are not published:
  published tokens stay findable until somebody writes over them.
* `reserve` treats every existing block that holds a position in [length, upto) as written: shared ones are copied,
  own ones un-published.
* `commit` can raise the length only over blocks of the sequence's own. A pin or a fork taken after `reserve` makes that
  a state error (reserve again, so that the block is copied): two holders would have written the same slots.
* A fork shares the blocks that hold tokens; what the parent has only reserved stays its own. A child of a parent in the
  middle of its prompt knows the ids ahead too. A fork of no children needs a live parent all the same.
* A reorder takes over tokens, not room: a sequence that becomes another one keeps none of its reserved blocks, and one
  that stays itself keeps all of them.
* Equal contents are one content with several blocks; a match returns the block that had it first, and when that one
  is gone the one that got it last of those left at that time.
* A write into a published block withdraws its content when it is planned, the blocks below at the same moment.
* Errors carry the blocks asked for without the watermark: `needed` and `available` are comparable with the pool.
* An empty batch is legal everywhere; an empty growth still takes a step number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from .blocks import ModelPool
from .growth import Growth, blocks_needed, grow, raise_fill
from .plan import ModelPlan
from .prompts import Prompt
from .refusal import bad_argument, bad_state, never_fits, out_of_blocks
from .sequences import ModelSequence, blocks_for
from .sharing import fork, reorder


@dataclass
class ModelManager:
    """Bookkeeping for one pool."""

    num_blocks: int
    block_size: int
    max_tokens: int | None = None
    watermark: int = 0
    scratch_blocks: int = 0
    prefix_caching: bool = False
    pool: ModelPool = field(init=False)
    sequences: dict[int, ModelSequence] = field(init=False, default_factory=dict)
    last_step: int = 0
    cow_copies: int = 0
    failed_admissions: int = 0
    queried_tokens: int = 0
    hit_tokens: int = 0

    def __post_init__(self) -> None:
        self.pool = ModelPool(self.num_blocks, self.prefix_caching)

    # -- admission --

    def admit(self, seq_id: int, prompt: Prompt, reserve: int | None = None) -> tuple[int, int]:
        """Register a sequence. Returns the row, and how many tokens came from the cache."""
        tokens = len(prompt.tokens) if reserve is None else reserve
        if seq_id in self.sequences:
            raise bad_state()
        if tokens < 0:
            raise bad_argument()
        prompt.check()
        self._check_target(max(len(prompt.tokens), tokens), self.num_blocks - self.watermark)
        hit = prompt.hit(self.pool, self.block_size)
        need = max(0, blocks_for(tokens, self.block_size) - len(hit))
        self._check_admission(need, hit)
        sequence = ModelSequence(seq_id, self._free_row(), self.block_size)
        sequence.text.ids, sequence.text.salt = list(prompt.tokens), prompt.salt
        sequence.text.spans, sequence.text.published = list(prompt.spans), len(hit)
        sequence.length = sequence.committed = len(hit) * self.block_size
        # Matched blocks first: what is taken afterwards may evict, and must not evict them.
        for block in hit:
            self.pool.revive(block)
        for block in [*hit, *(self.pool.take() for _ in range(need))]:
            self.pool.blocks[block].table_refs += 1
            sequence.table.append(block)
        self.sequences[seq_id] = sequence
        self.pool.note_peak()
        if self.prefix_caching:
            self.queried_tokens += len(prompt.tokens)
            self.hit_tokens += sequence.length
        return sequence.row, sequence.length

    def _check_admission(self, need: int, hit: Sequence[int]) -> None:
        """The watermark keeps blocks back from newcomers only, and only from those that take some.

        A matched block that nobody holds is taken too, and is not there for the rest.
        """
        revived = sum(block in self.pool.cached for block in hit)
        available = self.pool.available - revived
        if need + revived and need + self.watermark > available:
            self.failed_admissions += 1
            raise out_of_blocks(need, available, len(self.pool.pending))

    def lookup(self, prompt: Prompt) -> int:
        """What an admission would find now; nothing moves."""
        prompt.check()
        return len(prompt.hit(self.pool, self.block_size)) * self.block_size

    def reset_prefix_cache(self) -> bool:
        if self.sequences:
            return False
        self.pool.forget_contents()
        return True

    def _free_row(self) -> int:
        used = {sequence.row for sequence in self.sequences.values()}
        return next(row for row in range(len(used) + 1) if row not in used)

    # -- growth --

    def append(
        self, ids: Sequence[int], counts: Sequence[int], *, tokens: Sequence[int] | None = None, partial: bool = False
    ) -> ModelPlan:
        """``tokens`` are the ids of all members' new tokens in a row, None if they are not known yet."""
        if any(count < 0 for count in counts):
            raise bad_argument()
        batch = [
            Growth(sequence, sequence.length, sequence.length + count, sequence.length + count)
            for sequence, count in zip(self.batch(ids), counts, strict=True)
        ]
        if tokens is not None:
            writers = [growth for growth in batch if growth.stop > growth.start]
            known = all(growth.sequence.known == growth.start for growth in writers)
            if len(tokens) != sum(counts) or not known:
                raise bad_argument()
        plan = self._grow(batch, partial)
        given = iter(tokens or ())
        for growth in batch[: plan.served]:
            plan.slots += growth.sequence.slots(range(growth.start, growth.stop))
            growth.sequence.text.ids += islice(given, growth.stop - growth.start)
        return plan

    def reserve(self, ids: Sequence[int], upto: Sequence[int]) -> ModelPlan:
        if any(tokens < 0 for tokens in upto):
            raise bad_argument()
        batch = [
            Growth(sequence, sequence.length, tokens, sequence.length)
            for sequence, tokens in zip(self.batch(ids), upto, strict=True)
        ]
        return self._grow(batch, partial=False)

    def _grow(self, batch: list[Growth], partial: bool) -> ModelPlan:
        for growth in batch:
            self._check_target(growth.stop, self.num_blocks)
        needs = blocks_needed(self.pool, batch)
        if partial:
            while sum(needs) > self.pool.available:
                needs.pop()
        self.pool.require(sum(needs))
        self.last_step += 1
        plan = ModelPlan(self.last_step)
        for growth in batch[: len(needs)]:
            self.cow_copies += grow(self.pool, plan, growth)
        self.pool.note_peak()
        return plan

    # -- cursors --

    def commit(self, ids: Sequence[int], lengths: Sequence[int], *, tokens: Sequence[int] | None = None) -> None:
        """``tokens`` are the ids that were missing up to each member's length, in a row, None if they still are."""
        batch = list(zip(self.batch(ids), lengths, strict=True))
        for sequence, length in batch:
            self._check_commit(sequence, length)
        if tokens is not None and len(tokens) != sum(max(0, length - s.known) for s, length in batch):
            raise bad_argument()
        given = iter(tokens or ())
        for sequence, length in batch:
            if length > sequence.length:
                for column in sequence.columns(sequence.length, length):
                    self.pool.unpublish_for_write(sequence.table[column], sequence.tokens_in_column(column))
                start, sequence.length = sequence.length, length
                raise_fill(self.pool, sequence, start)
            sequence.committed = max(sequence.committed, length)
            sequence.text.ids += islice(given, max(0, length - sequence.known))
            self._publish(sequence)

    def _publish(self, sequence: ModelSequence) -> None:
        """Equal blocks elsewhere stay as they are: the content has one more copy."""
        if not self.prefix_caching:
            return
        for column in sequence.text.publishable(sequence.committed):
            block = sequence.table[column]
            if not self.pool.blocks[block].published:
                if column and not self.pool.blocks[sequence.table[column - 1]].published:
                    return  # that one was withdrawn by hand: nobody could reach what is below
                self.pool.publish_content(block, sequence.text.content(column))
            sequence.text.published = column + 1

    def _check_commit(self, sequence: ModelSequence, length: int) -> None:
        if not 0 <= length <= sequence.capacity:
            raise bad_argument()
        self._check_target(length, self.num_blocks)
        for column in sequence.columns(sequence.length, length):
            if not self.pool.writable_in_place(sequence.table[column], sequence.tokens_in_column(column)):
                raise bad_state()

    def truncate(self, ids: Sequence[int], lengths: Sequence[int], *, keep_blocks: bool = False) -> None:
        batch = list(zip(self.batch(ids), lengths, strict=True))
        if any(not 0 <= length <= sequence.length for sequence, length in batch):
            raise bad_argument()
        for sequence, length in batch:
            if length < sequence.length:
                sequence.text.cut(length)
            before, sequence.length = sequence.length, length
            sequence.committed = min(sequence.committed, length)
            if not keep_blocks:
                for block in sequence.shorten_table(blocks_for(length, self.block_size)):
                    self.pool.drop_table_ref(block)
            self._lower_fill(sequence, before)

    def _lower_fill(self, sequence: ModelSequence, before: int) -> None:
        """Only a sole holder may lower a fill: another one, or a reader of an ended one, may need the tokens."""
        for column in range(sequence.length // self.block_size, blocks_for(before, self.block_size)):
            if column < len(sequence.table):
                block = self.pool.blocks[sequence.table[column]]
                if block.refs == 1 and not block.published and not self.pool.busy(sequence.table[column]):
                    block.fill = min(block.fill, sequence.tokens_in_column(column))

    # -- sharing --

    def fork(self, parent_id: int, children: Sequence[int]) -> None:
        if parent_id not in self.sequences or any(child in self.sequences for child in children):
            raise bad_state()
        if len(set(children)) != len(children):
            raise bad_argument()
        for child in children:
            self.sequences[child] = ModelSequence(child, self._free_row(), self.block_size)
            fork(self.pool, self.sequences[parent_id], self.sequences[child])

    def reorder(self, ids: Sequence[int], parents: Sequence[int]) -> ModelPlan:
        if len(ids) != len(parents):
            raise bad_argument()
        batch = self.batch(ids)
        if any(not 0 <= parent < len(ids) for parent in parents):
            raise bad_argument()
        self.last_step += 1
        plan = ModelPlan(self.last_step)
        reorder(self.pool, plan, batch, parents)
        return plan

    # -- release --

    def free(self, ids: Sequence[int], *, after: int | None = None) -> None:
        """One release per sequence, in argument order; within it the deepest block counts as released first."""
        if after is not None and not 0 <= after <= self.last_step:
            raise bad_argument()
        for sequence in self.batch(ids):
            for block in sequence.shorten_table(0):
                self.pool.drop_table_ref(block, after)
            del self.sequences[sequence.seq_id]

    def retire(self, step: int) -> None:
        if not 0 <= step <= self.last_step:
            raise bad_argument()
        self.pool.retire(step)

    # -- shared checks --

    def batch(self, ids: Sequence[int]) -> list[ModelSequence]:
        if len(set(ids)) != len(ids):
            raise bad_argument()
        if any(seq_id not in self.sequences for seq_id in ids):
            raise bad_state()
        return [self.sequences[seq_id] for seq_id in ids]

    def _check_target(self, tokens: int, most_blocks: int) -> None:
        """May a sequence ever hold this many tokens?"""
        if self.max_tokens is not None and tokens > self.max_tokens:
            raise bad_argument()
        alone = blocks_for(tokens, self.block_size)
        if alone > most_blocks:
            raise never_fits(alone, self.num_blocks)
