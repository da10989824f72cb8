"""The block pool of the reference model.

Every block is in exactly one of four places: held (``refs >= 1``), in ``clean``, in ``cached`` or in ``pending``. The
lists are the order: nothing here is clever, so that it can be read against the design line by line.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .contents import Content, ModelIndex
from .event_record import EventRecord
from .refusal import bad_argument, bad_state, never_fits, out_of_blocks


@dataclass
class ModelBlock:
    """One block: who holds it, how many of its tokens were written, and whether its contents stay findable."""

    table_refs: int = 0
    pins: int = 0
    fill: int = 0
    published: bool = False
    busy_until: int = 0  # the last step that anybody who gave it back named: work up to there may touch it

    @property
    def refs(self) -> int:
        return self.table_refs + self.pins


@dataclass
class ModelPool:
    """All blocks of one manager."""

    num_blocks: int
    prefix_caching: bool = False
    contents: ModelIndex = field(init=False)
    blocks: list[ModelBlock] = field(init=False)
    clean: list[int] = field(init=False)  # last in, first out; block 0 first on a new pool
    cached: list[int] = field(init=False, default_factory=list)  # least recently released first
    pending: list[tuple[int, int]] = field(init=False, default_factory=list)  # (step, block), the next to retire first
    retired_step: int = 0
    evictions: int = 0
    peak_allocated: int = 0

    def __post_init__(self) -> None:
        self.contents = ModelIndex(EventRecord(limit=4 * self.num_blocks))
        self.blocks = [ModelBlock() for _ in range(self.num_blocks)]
        self.clean = list(reversed(range(self.num_blocks)))

    @property
    def available(self) -> int:
        return len(self.clean) + len(self.cached)

    @property
    def allocated(self) -> int:
        return self.num_blocks - self.available

    @property
    def in_use(self) -> list[int]:
        return [block for block in range(self.num_blocks) if self.blocks[block].refs > 0]

    def state(self, block: int) -> str:
        """The name of the block's `BlockState`."""
        if self.blocks[block].refs > 0:
            return "IN_USE"
        if block in self.cached:
            return "CACHED"
        return "CLEAN" if block in self.clean else "PENDING"

    def busy(self, block: int) -> bool:
        """May work in flight still touch it for somebody who gave it back with a step?"""
        return self.blocks[block].busy_until > self.retired_step

    def writable_in_place(self, block: int, own: int, left: int = 0) -> bool:
        """May its last holder, who has ``own`` tokens in it, write behind them? ``left``: references given up already.

        What lies there may be a former holder's, whose readers are still at work: then only after that step.
        """
        entry = self.blocks[block]
        return entry.refs - left <= 1 and (entry.fill <= own or not self.busy(block))

    def take(self) -> int:
        """Hand out a block that nobody holds yet; the caller takes the first reference."""
        if self.clean:
            block = self.clean.pop()
        else:
            block = self.cached.pop(0)
            self.evictions += 1
            self.lose_content(block)
        self.blocks[block] = ModelBlock()
        return block

    def note_peak(self) -> None:
        self.peak_allocated = max(self.peak_allocated, self.allocated)

    def require(self, needed: int) -> None:
        if needed > self.available:
            raise out_of_blocks(needed, self.available, len(self.pending))

    def drop_table_ref(self, block: int, after: int | None = None) -> None:
        entry = self.blocks[block]
        entry.table_refs -= 1
        entry.busy_until = max(entry.busy_until, after or 0)
        self.park_if_unheld(block)

    def park_if_unheld(self, block: int) -> None:
        """Put a block that has just lost a reference where its state says, if that was its last one.

        Whoever drops the last reference, the block waits for the latest step that any of its holders named.
        """
        entry = self.blocks[block]
        if entry.refs > 0:
            return
        if entry.busy_until > self.retired_step:
            # Ordered by the step that each waits for, and within a step by the order of release.
            at = sum(waits_for <= entry.busy_until for waits_for, _ in self.pending)
            self.pending.insert(at, (entry.busy_until, block))
            self._forget_unfindable(block)
        else:
            self._make_free(block)

    def _make_free(self, block: int) -> None:
        (self.cached if self.blocks[block].published else self.clean).append(block)
        self._forget_unfindable(block)

    def _forget_unfindable(self, block: int) -> None:
        """A block outside use whose contents nobody can find holds no tokens that count."""
        if not self.blocks[block].published:
            self.blocks[block].fill = 0

    def unpublish_for_write(self, block: int, tokens_kept: int) -> None:
        """The sole holder overwrites what was findable; only its own tokens are left."""
        entry = self.blocks[block]
        if entry.published:
            self.lose_content(block)
            entry.fill = min(entry.fill, tokens_kept)

    # -- what prefix reuse adds: published blocks are found by their content --

    def publish_content(self, block: int, content: Content) -> None:
        self.blocks[block].published = True
        self.contents.publish(block, content)

    def lose_content(self, block: int) -> None:
        """What nobody can reach any more goes with it, before anything else happens to the block."""
        self.blocks[block].published = False
        for other in self.contents.lost(block):
            self._withdraw(other)

    def forget_contents(self) -> None:
        for block in self.contents.clear():
            self._withdraw(block)

    def revive(self, block: int) -> None:
        """A findable block that nobody holds comes back into use with its content."""
        if block in self.cached:
            self.cached.remove(block)
        self.pending = [entry for entry in self.pending if entry[1] != block]

    def _withdraw(self, block: int) -> None:
        """Nothing finds the block any more: held ones stay with their holders, a cached one is just a clean one."""
        self.blocks[block].published = False
        if block in self.cached:
            self.cached.remove(block)
            self._make_free(block)
        elif self.blocks[block].refs == 0:
            self._forget_unfindable(block)

    def retire(self, step: int) -> None:
        self.retired_step = max(self.retired_step, step)
        done = [block for waits_for, block in self.pending if waits_for <= step]
        del self.pending[: len(done)]
        for block in done:
            self._make_free(block)

    # -- what the allocator view offers: references that belong to no sequence ("pins") --

    def allocate(self, count: int) -> list[int]:
        if count < 0:
            raise bad_argument()
        if count > self.num_blocks:
            raise never_fits(count, self.num_blocks)
        self.require(count)
        taken = [self.take() for _ in range(count)]
        for block in taken:
            self.blocks[block].pins = 1
        self.note_peak()
        return taken

    def pin(self, ids: list[int]) -> None:
        """Take references; a findable block that nobody holds is revived, any other free one is an error."""
        for block in ids:
            if self.blocks[block].refs == 0 and not self.blocks[block].published:
                raise bad_state()
        for block in ids:
            self.revive(block)
            self.blocks[block].pins += 1
        self.note_peak()

    def unpin(self, ids: list[int]) -> None:
        """Drop pins only: the references of page tables are not the caller's to drop.

        The last one named counts as the deepest: it is released first, so the first is handed out first.
        """
        if any(ids.count(block) > self.blocks[block].pins for block in ids):
            raise bad_state()
        for block in reversed(ids):
            self.blocks[block].pins -= 1
            self.park_if_unheld(block)

    def publish(self, ids: list[int]) -> None:
        """By hand only where the manager does not publish by itself."""
        if self.prefix_caching or any(self.blocks[block].refs == 0 for block in ids):
            raise bad_state()
        for block in ids:
            self.blocks[block].published = True

    def unpublish(self, ids: list[int]) -> None:
        """Like an eviction, but the block stays where it is; a clean one has nothing to withdraw."""
        if any(self.state(block) == "CLEAN" for block in ids):
            raise bad_state()
        for block in ids:
            self.lose_content(block)
            self._withdraw(block)
