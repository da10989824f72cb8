"""The rows of a batch as sequences of a manager: bookkeeping only, no bytes.

Owns: one sequence a row, all of `length` tokens. A group is rows that hold the same tokens in the same blocks; its
first row leads it, and is written for all. Plans must be applied in the order in which they are returned.
A call that raises has changed nothing that can be seen: rows, length and contents are as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pagedkv.errors import PagedKVError
from pagedkv.integrations.transformers.equal_rows import groups_of
from pagedkv.manager import KVCacheManager
from pagedkv.step_plan import StepPlan


@dataclass(frozen=True, slots=True)
class Split:
    """Rows that got blocks of their own: the plan, and the block copies (source, destination) after it."""

    plan: StepPlan
    copies: npt.NDArray[np.int32]


class Rows:
    """See the module. Rows are numbers from 0; the manager's sequence ids stay inside."""

    def __init__(self, manager: KVCacheManager) -> None:
        self._manager = manager
        self._ids: list[int] = []
        self._next_id = 0
        self.groups: list[int] = []
        self.length = 0

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def leaders(self) -> list[int]:
        """The first rows of the groups, in order."""
        return [row for row, leader in enumerate(self.groups) if row == leader]

    @property
    def table_rows(self) -> npt.NDArray[np.int32]:
        """int32 [rows]: where the block tables on the device have each row's blocks."""
        # A follower's own line is written only once it parts from its leader.
        return np.array([self._manager.row(self._ids[leader]) for leader in self.groups], np.int32)

    def append(self, batch: int, count: int, same: Sequence[bool]) -> StepPlan:
        """Lengthen all rows by `count` tokens; the first call makes `batch` rows. same: as groups_of.

        The plan's slots are those of the leaders, row by row. Raises OutOfBlocksError or NeverFitsError.
        """
        fresh = not self._ids
        if fresh:
            self.groups, self._ids = [0] * batch, self._new_ids(batch)
        self.groups = groups_of(self.groups, same)
        followers = [row for row, leader in enumerate(self.groups) if row != leader]
        try:
            if fresh:
                for row in self.leaders:
                    self._manager.register_sequence(self._ids[row])
            elif followers:
                # Alone, a leader may go on in its last block; with followers it would have to copy it first.
                self._manager.free(self._named(followers))
            leaders = self._named(self.leaders)
            plan = self._manager.append(leaders, np.full(len(leaders), count, np.int32))
        except PagedKVError:
            if fresh:
                self._drop_all()
            else:
                self._fork_followers(followers)
            raise
        self._fork_followers(followers)
        self.length += count
        return plan

    def still_grouped(self, same: Sequence[bool]) -> bool:
        """Whether every row is still equal to the row before where both are in one group."""
        return groups_of(self.groups, same) == self.groups

    def split(self, same: Sequence[bool], start: int) -> Split:
        """Give rows that differ from their group since token `start` blocks of their own; the rest stays shared.

        Raises OutOfBlocksError; the rows then hold what they held, but are to be cut back to `start`.
        """
        old, self.groups = self.groups, groups_of(self.groups, same)
        moved = [row for row in self.leaders if old[row] != row]
        followers = [row for row, leader in enumerate(self.groups) if leader in moved and row != leader]
        ids, origins = self._named(moved), self._named([old[row] for row in moved])
        self._manager.free(self._named(followers))
        try:
            self._manager.truncate(ids, np.full(len(ids), start, np.int32))
            plan = self._manager.append(ids, np.full(len(ids), self.length - start, np.int32))
        except PagedKVError:
            self._fork_followers(followers)
            raise
        self._fork_followers(followers)
        first = start // self._manager.block_size
        # Several may come from one, whose blocks can be asked for once.
        named, places = np.unique(origins, return_inverse=True)
        sources, targets = self._manager.block_table(named)[places, first:], self._manager.block_table(ids)[:, first:]
        return Split(plan, np.stack([sources.reshape(-1), targets.reshape(-1)], axis=1))

    def reorder(self, parents: Sequence[int]) -> StepPlan:
        """Row i becomes what row parents[i] was. Raises InvalidArgumentError."""
        plan = self._manager.reorder(self._named(range(len(self))), np.asarray(parents, np.int32))
        self.groups = list(range(len(self)))
        return plan

    def select(self, rows: Sequence[int]) -> None:
        """Row i becomes what row rows[i] was, for any number of rows; the caller has checked them."""
        old = self._ids
        taken: set[int] = set()
        ids = []
        for row in rows:
            # The first taker keeps the sequence, others share its blocks.
            if row in taken:
                ids += self._new_ids(1)
                self._manager.fork(old[row], ids[-1:])
            else:
                ids.append(old[row])
            taken.add(row)
        self._manager.free([seq_id for row, seq_id in enumerate(old) if row not in taken])
        self.groups = groups_of([self.groups[row] for row in rows], [True] * len(ids))
        self._ids = ids
        if not ids:
            self.length = 0

    def cut(self, length: int) -> None:
        """Shorten all rows to `length` tokens. None left: the rows end."""
        if length == 0:
            self._drop_all()
        elif self._ids and length < self.length:
            self._manager.truncate(self._named(range(len(self))), np.full(len(self), length, np.int32))
            self.length = length

    def slots(self, rows: Sequence[int], start: int) -> npt.NDArray[np.int64]:
        """Slots of tokens `start` up to `length` of each of `rows`, int64, row by row."""
        starts, stops = (np.full(len(rows), each, np.int32) for each in (start, self.length))
        return self._manager.slot_mapping(self._named(rows), starts=starts, stops=stops)

    def _named(self, rows: Sequence[int]) -> list[int]:
        return [self._ids[row] for row in rows]

    def _new_ids(self, count: int) -> list[int]:
        first, self._next_id = self._next_id, self._next_id + count
        return list(range(first, first + count))

    def _fork_followers(self, followers: Sequence[int]) -> None:
        for row in followers:
            self._manager.fork(self._ids[self.groups[row]], [self._ids[row]])

    def _drop_all(self) -> None:
        self._manager.free([seq_id for seq_id in self._ids if seq_id in self._manager])
        self._ids, self.groups, self.length = [], [], 0
