"""The cache alone: which blocks of each prompt are still there, one request after another, in a pool of a given size.

No clock, no running requests: in file order, from an empty pool, each request takes what is known of its prompt, stores
the rest, and ends. One identity of the trace is one block. Blocks are evicted least recently used first, and of one
prompt the tail before the head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pagedkv.errors import InvalidArgumentError, PagedKVError
from pagedkv.manager import KVCacheManager
from pagedkv.simulate.figures import Figures
from pagedkv.simulate.measure import CHUNK
from pagedkv.simulate.workload import Workload


@dataclass(frozen=True, slots=True)
class CacheReplayResult:
    """What came out. failures is empty if all checks passed; interrupted: stop() was called."""

    figures: Figures
    interrupted: bool
    failures: tuple[str, ...]


class CacheReplay:
    """A replay that is ready to start; `run` may be called once. Owns a manager of `num_blocks` blocks.

    on_progress(ended requests) is called every 4096 requests. Errors: InvalidArgumentError for a workload without
    identities and for sizes that the manager refuses. No stream.
    """

    def __init__(
        self, workload: Workload, num_blocks: int, *, on_progress: Callable[[int], None] | None = None
    ) -> None:
        if workload.identities is None:
            raise InvalidArgumentError("the trace does not say what its prompts hold; give one with hash_ids")
        self._workload = workload
        self._identities = workload.identities
        self._num_blocks = num_blocks
        self._on_progress = on_progress
        self._stopping = False
        self.manager = KVCacheManager(num_blocks, 1, prefix_caching=True)

    def stop(self) -> None:
        """End the replay after the current request (safe in a signal handler)."""
        self._stopping = True

    def run(self) -> CacheReplayResult:
        """Replay all requests and check the manager's invariants."""
        hits: list[int] = []
        for start in range(0, len(self._workload), CHUNK):
            self._replay(start, min(start + CHUNK, len(self._workload)), hits)
            if self._stopping:
                break
            if self._on_progress is not None:
                self._on_progress(len(hits))
        failures = []
        try:
            self.manager.check()
        except PagedKVError as error:
            failures.append(f"the manager's check failed: {error}")
        return CacheReplayResult(self._figures(np.array(hits, dtype=np.int64)), self._stopping, tuple(failures))

    def _replay(self, start: int, stop: int, hits: list[int]) -> None:
        """Replay these requests; append to `hits` how many blocks each found."""
        manager, identities, most = self.manager, self._identities.ids, self._num_blocks
        starts = self._identities.starts[start : stop + 1].tolist()
        one, length = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int32)
        for first, end in pairwise(starts):
            # Of a prompt that is larger than the pool the head would be left: the tail is evicted first.
            count = min(end - first, most)
            found = manager.admit(0, identities[first : first + count], max_hit_tokens=count).cached_tokens
            length[0] = count
            manager.commit(one, length)
            manager.free(one)
            hits.append(found)
            if self._stopping:
                return

    def _figures(self, hits: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Figures:
        done, size = len(hits), self._identities.tokens_per_id
        prompts = self._workload.prompt_tokens[:done]
        blocks, full = np.diff(self._identities.starts[: done + 1]), prompts // size
        found = np.minimum(hits * size, prompts)
        stats = self.manager.get_stats()
        figures: Figures = {"requests": len(self._workload), "completed": done}
        for name, hit, queried in (
            ("block", hits, blocks),
            ("full_block", np.minimum(hits, full), full),
            ("token", found, prompts),
        ):
            part, whole = int(hit.sum()), int(queried.sum())
            figures |= {f"{name}s": whole, f"{name}_hits": part, f"{name}_hit": part / whole if whole else None}
        return figures | {
            "computed_tokens": int((prompts - found).sum()),
            "fully_cached_requests": int((hits == blocks).sum()),
            "larger_than_pool": int((blocks > self._num_blocks).sum()),
            "unique_blocks": len(np.unique(self._identities.ids[: self._identities.starts[done]])),
            "evictions": stats.evictions,
            "cached_blocks": stats.cached_blocks,
        }
