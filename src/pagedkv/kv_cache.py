"""KVCache: a manager bound to a pool. The manager's names, with every plan applied to the pool at once.

Owns: both. Invariant: every plan that the manager made is applied; when that fails the pool is lost, every
call that plans raises BackendError, and the cache is of no more use than to be closed.
Streams: plans go on the pool's compute stream. An engine with tensor-parallel pools or streams of its own
uses `KVCacheManager` and `DevicePool` themselves.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pagedkv._core import Admission, CacheEvents, StepPlan
from pagedkv.arguments import whole_number
from pagedkv.cache_reads import CacheReads
from pagedkv.errors import InvalidArgumentError, SequenceStateError
from pagedkv.manager import KVCacheManager
from pagedkv.pool import DevicePool
from pagedkv.streams import Stream


class KVCache(CacheReads):
    """A manager bound to a pool; made by `open_cache`, or from a manager and a pool of equal size that nobody
    else applies to.

    A context manager: leaving it closes the pool. Errors of a method are those of the manager's method of
    that name; methods that plan also raise BackendError when the pool is closed, lost, or lost by applying
    the plan.
    """

    def __init__(self, manager: KVCacheManager, pool: DevicePool) -> None:
        if not isinstance(manager, KVCacheManager) or not isinstance(pool, DevicePool):
            raise InvalidArgumentError(
                f"a cache binds a KVCacheManager and a DevicePool, not {type(manager).__name__}, {type(pool).__name__}"
            )
        shapes = [(m.num_blocks, m.scratch_blocks) for m in (manager, pool)]
        if shapes[0] != shapes[1] or manager.block_size != pool.layout.block_size:
            raise InvalidArgumentError(
                f"the manager has {shapes[0]} usable and scratch blocks of {manager.block_size} tokens, "
                f"the pool {shapes[1]} of {pool.layout.block_size}; give both the same"
            )
        self.manager = manager
        self.pool = pool
        self._ensure_in_step()
        if pool.layout.extents(1).contiguous:  # a block of a layer-major pool has no single address
            manager.allocator.bind_pool(pool.base, pool.layout.block_bytes)

    # sequences, one at a time

    def register_sequence(self, seq_id: int, tokens: npt.ArrayLike = ()) -> int:
        """Register a sequence, with blocks reserved for its prompt; returns its cached tokens, which are not to be
        computed again. Modifies the manager only.
        """
        self.pool.ensure_usable("register_sequence")
        return self.manager.register_sequence(seq_id, tokens)

    def append_token(self, seq_id: int) -> int:
        """Grow a sequence by one token; returns its slot. The plan is applied."""
        return int(self.append([seq_id], [1]).slots[0])

    def append_tokens(self, seq_id: int, count: int) -> npt.NDArray[np.int64]:
        """Grow a sequence by `count` tokens, all or nothing; returns their slots, int64 [count]. The plan is
        applied.
        """
        return self.append([seq_id], [count]).slots

    def free_sequence(self, seq_id: int) -> None:
        """Give a sequence's blocks back, to be reused by work put on the compute stream later. Modifies the
        manager only.
        """
        self.manager.free_sequence(seq_id)

    def fork_sequence(self, parent_id: int, child_id: int) -> None:
        """Register a copy of a sequence that shares its blocks copy-on-write; as fork."""
        self.fork(parent_id, [child_id])

    def truncate_sequence(self, seq_id: int, length: int) -> None:
        """Cut a sequence to `length` tokens and give back the blocks beyond. Modifies the manager only."""
        self.manager.truncate_sequence(seq_id, length)

    def get_token_ptr(self, seq_id: int, index: int, layer: int = 0, part: str = "k") -> int:
        """Device address of token `index` (0 .. capacity - 1) of a sequence: head 0 of a part ("k", "v", "k_scale",
        "v_scale") of a layer; touches no bytes.

        Opaque tokens have one part: layer 0, part "k". Valid until the sequence's block changes: freed,
        truncated, or copied on write by a later plan. Raises SequenceStateError for an unknown sequence,
        InvalidArgumentError for the rest.
        """
        place = whole_number(index, "index", maximum=2**31 - 2)
        slot = int(self.manager.slot_mapping([seq_id], starts=[place], stops=[place + 1])[0])
        return self.pool.token_ptr(*divmod(slot, self.manager.block_size), layer, part)

    # batches, planned and applied

    def admit(self, seq_id: int, tokens: npt.ArrayLike, **options: Any) -> Admission:
        """As KVCacheManager.admit, with its salt, spans, reserve and max_hit_tokens. Modifies the manager only; the
        first plan that names the sequence carries its blocks.
        """
        self.pool.ensure_usable("admit")
        return self.manager.admit(seq_id, tokens, **options)

    def try_admit(self, seq_id: int, tokens: npt.ArrayLike, **options: Any) -> Admission | None:
        """As KVCacheManager.try_admit: None when there are too few blocks now."""
        self.pool.ensure_usable("try_admit")
        return self.manager.try_admit(seq_id, tokens, **options)

    def append(
        self,
        seq_ids: npt.ArrayLike,
        counts: npt.ArrayLike,
        *,
        tokens: npt.ArrayLike | None = None,
        partial: bool = False,
    ) -> StepPlan:
        """As KVCacheManager.append; the plan is applied."""
        self._ready("append")
        return self._applied(self.manager.append(seq_ids, counts, tokens=tokens, partial=partial))

    def try_append(
        self,
        seq_ids: npt.ArrayLike,
        counts: npt.ArrayLike,
        *,
        tokens: npt.ArrayLike | None = None,
        partial: bool = False,
    ) -> StepPlan | None:
        """As try_append of the manager: None when there are too few blocks now; else the plan is applied."""
        self._ready("try_append")
        plan = self.manager.try_append(seq_ids, counts, tokens=tokens, partial=partial)
        return None if plan is None else self._applied(plan)

    def reserve(self, seq_ids: npt.ArrayLike, upto: npt.ArrayLike) -> StepPlan:
        """As KVCacheManager.reserve; the plan is applied."""
        self._ready("reserve")
        return self._applied(self.manager.reserve(seq_ids, upto))

    def try_reserve(self, seq_ids: npt.ArrayLike, upto: npt.ArrayLike) -> StepPlan | None:
        """As KVCacheManager.try_reserve; the plan is applied."""
        self._ready("try_reserve")
        plan = self.manager.try_reserve(seq_ids, upto)
        return None if plan is None else self._applied(plan)

    def fork(self, parent_id: int, child_ids: npt.ArrayLike) -> None:
        """As KVCacheManager.fork; the children's rows of the device-resident tables are written at once."""
        self._ready("fork")
        self.manager.fork(parent_id, child_ids)
        try:
            plan = self.manager.reserve(child_ids, self.manager.seq_lens(child_ids))
        except BaseException:
            self.manager.free(child_ids)  # too little memory for so large a plan: as if nobody had asked
            raise
        self._applied(plan)

    def reorder(self, seq_ids: npt.ArrayLike, parent_indices: npt.ArrayLike) -> StepPlan:
        """As KVCacheManager.reorder; the plan is applied."""
        self._ready("reorder")
        return self._applied(self.manager.reorder(seq_ids, parent_indices))

    def commit(self, seq_ids: npt.ArrayLike, lengths: npt.ArrayLike, *, tokens: npt.ArrayLike | None = None) -> None:
        """As KVCacheManager.commit. Modifies the manager only."""
        self.manager.commit(seq_ids, lengths, tokens=tokens)

    def truncate(self, seq_ids: npt.ArrayLike, lengths: npt.ArrayLike, *, keep_blocks: bool = False) -> None:
        """As KVCacheManager.truncate. Modifies the manager only."""
        self.manager.truncate(seq_ids, lengths, keep_blocks=keep_blocks)

    def free(self, seq_ids: npt.ArrayLike, *, after: int | None = None) -> None:
        """As KVCacheManager.free. Modifies the manager only."""
        self.manager.free(seq_ids, after=after)

    # steps

    def step_done(self, step: int, stream: Stream | None = None) -> None:
        """As DevicePool.step_done: the kernels of `step` are all put on `stream`."""
        self.pool.step_done(step, stream)

    def retire_finished(self) -> int:
        """Retire every step that has finished on the device, which frees what was given back until then;
        returns the last.

        Does not wait. On a lost pool raises BackendError: what is pending stays so.
        """
        step = self.pool.finished_step()
        self.manager.retire(step)
        return step

    def retire(self, step: int) -> None:
        """As KVCacheManager.retire, for an engine that knows by itself that `step` has finished."""
        self.manager.retire(step)

    # prefix reuse

    def reset_prefix_cache(self) -> bool:
        """As KVCacheManager.reset_prefix_cache: False while any sequence lives. Modifies the manager only."""
        return self.manager.reset_prefix_cache()

    def drain_events(self) -> CacheEvents:
        """As KVCacheManager.drain_events: what became findable and what ceased to be since the last call. Modifies
        the record only.
        """
        return self.manager.drain_events()

    # life

    def close(self) -> None:
        """Close the pool: waits for its compute stream, frees its memory. Safe to call twice, and on a lost
        pool.
        """
        if not self.pool.closed:
            self.manager.allocator.bind_pool(0, 0)  # its addresses end with the pool
        self.pool.close()

    def __enter__(self) -> Self:
        self.pool.ensure_usable("entering the cache's context")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ready(self, call: str) -> None:
        self.pool.ensure_usable(call)
        self._ensure_in_step()

    def _ensure_in_step(self) -> None:
        """Every plan of the manager has been applied; one that somebody made aside would be lost without a word."""
        made, applied = self.manager.last_step, self.pool.applied_step
        if made != applied:
            raise SequenceStateError(
                f"the manager has planned step {made}, this pool has applied step {applied}; make every plan through "
                "the cache, or open the pool with first_step=manager.last_step + 1"
            )

    def _applied(self, plan: StepPlan) -> StepPlan:
        self.pool.apply(plan)
        return plan
