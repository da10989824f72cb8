"""Random programs over few token ids, so that prompts meet: a small engine that knows every sequence's text."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product

from pagedkv import KVCacheManager, StepPlan

SALTS = (b"", b"a", b"b")
LETTERS = (1, 2)


class Engine:
    """A manager and the texts of its sequences. `wrote` is told of every plan with (sequence, first position, ids)."""

    def __init__(self, manager: KVCacheManager, seed: int) -> None:
        self.manager = manager
        self.random = random.Random(seed)
        self.texts: dict[int, list[int]] = {}
        self.next_id = 0
        self.planned: Callable[[StepPlan], None] = lambda plan: None
        self.wrote: Callable[[int, int, list[int]], None] = lambda seq_id, first, ids: None
        self.admitted: Callable[[int], None] = lambda seq_id: None

    def turn(self) -> None:
        """One random call that a real engine could make."""
        calls = [self._admit] * 4 + [self._append] * 4 + [self._truncate, self._fork, self._reorder, self._forget]
        calls += [self._commit] * 2 + [self._free] * 3 + [self._retire]
        self.random.choice(calls)()

    def _some(self) -> int | None:
        return self.random.choice(sorted(self.texts)) if self.texts else None

    def _admit(self) -> None:
        tokens = [self.random.choice(LETTERS) for _ in range(self.random.randint(0, 9))]
        most = self.random.choice((None, None, len(tokens)))
        admission = self.manager.try_admit(
            self.next_id, tokens, salt=self.random.choice(SALTS), max_hit_tokens=most, reserve=0
        )
        if admission is None:
            return
        seq_id, self.next_id = self.next_id, self.next_id + 1
        self.texts[seq_id] = tokens[: admission.cached_tokens]
        self.admitted(seq_id)
        rest = tokens[admission.cached_tokens :]
        plan = self.manager.try_append([seq_id], [len(rest)])
        if plan is None:
            self._drop(seq_id)
            return
        self._grown(plan, seq_id, rest)

    def _append(self) -> None:
        seq_id = self._some()
        ids = [self.random.choice(LETTERS) for _ in range(self.random.randint(1, 3))]
        if seq_id is None or len(self.texts[seq_id]) + len(ids) > self.manager.num_blocks * self.manager.block_size:
            return
        plan = self.manager.try_append([seq_id], [len(ids)], tokens=ids)
        if plan is not None:
            self._grown(plan, seq_id, ids)

    def _grown(self, plan: StepPlan, seq_id: int, ids: list[int]) -> None:
        self.planned(plan)
        first = len(self.texts[seq_id])
        self.texts[seq_id] += ids
        self.wrote(seq_id, first, ids)
        if self.random.random() < 0.7:
            self._commit_one(seq_id)

    def _commit(self) -> None:
        seq_id = self._some()
        if seq_id is not None:
            self._commit_one(seq_id)

    def _commit_one(self, seq_id: int) -> None:
        self.manager.commit([seq_id], [self.random.randint(0, len(self.texts[seq_id]))])

    def _truncate(self) -> None:
        seq_id = self._some()
        if seq_id is not None:
            length = self.random.randint(0, len(self.texts[seq_id]))
            self.manager.truncate([seq_id], [length], keep_blocks=self.random.random() < 0.5)
            del self.texts[seq_id][length:]

    def _fork(self) -> None:
        seq_id = self._some()
        if seq_id is not None and len(self.texts) < 6:
            self.manager.fork(seq_id, [self.next_id])
            self.texts[self.next_id] = list(self.texts[seq_id])
            self.next_id += 1

    def _reorder(self) -> None:
        ids = sorted(self.texts)
        parents = [self.random.randrange(len(ids)) for _ in ids]
        self.planned(self.manager.reorder(ids, parents))
        before = {seq_id: list(text) for seq_id, text in self.texts.items()}
        for seq_id, parent in zip(ids, parents, strict=True):
            self.texts[seq_id] = list(before[ids[parent]])

    def _free(self) -> None:
        seq_id = self._some()
        if seq_id is not None:
            self._drop(seq_id)

    def _drop(self, seq_id: int) -> None:
        last = self.manager.last_step
        self.manager.free([seq_id], after=self.random.choice((None, last)))
        del self.texts[seq_id]

    def _retire(self) -> None:
        self.manager.retire(self.random.randint(self.manager.retired_step, self.manager.last_step))

    def _forget(self) -> None:
        if self.random.random() < 0.3:
            for seq_id in sorted(self.texts):
                self._drop(seq_id)
            assert self.manager.reset_prefix_cache()
        else:
            block = self.random.randrange(self.manager.num_blocks)
            if self.manager.allocator.state(block).name != "CLEAN":
                self.manager.allocator.unpublish(block)


def every_prompt(most: int) -> list[tuple[int, ...]]:
    """All prompts of 1 to `most` letters."""
    return [prompt for length in range(1, most + 1) for prompt in product(LETTERS, repeat=length)]
