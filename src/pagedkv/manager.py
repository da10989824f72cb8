"""KVCacheManager: bookkeeping that knows no device.

The batched calls are native (see `_core.pyi`); here are the scalar, step-by-step names, thin wraps of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pagedkv import _core

__all__ = ["KVCacheManager"]


class KVCacheManager(_core.KVCacheManager):
    """Bookkeeping of a paged KV cache: sequences, page tables, blocks; no device, no framework.

    `num_blocks` blocks of `block_size` tokens. `max_tokens`: the most a sequence may hold. `watermark`: blocks that
    admission leaves free for running sequences. `scratch_blocks`: extra blocks for padding, ids num_blocks and up.
    `prefix_caching`: full, committed blocks whose token ids are known stay findable by what they hold, until they are
    evicted or written over; a later prompt with the same head takes them over instead of computing it again.
    Thread-safe. One manager serves any number of pools (tensor parallel).
    """

    def register_sequence(self, seq_id: int, tokens: ArrayLike = ()) -> int:
        """Admit one sequence; returns how many leading tokens the cache already holds.

        tokens: int32 prompt ids, or () if unknown. The rest of the prompt is then appended by count. No salt and no
        spans: admit takes those. Modifies: as admit. Errors: as admit.
        """
        return self.admit(seq_id, tokens).cached_tokens

    def append_token(self, seq_id: int) -> int:
        """Append one token; returns its slot (block id * block_size + offset). Modifies and errors: as append."""
        return int(self.append([seq_id], [1]).slots[0])

    def append_tokens(self, seq_id: int, count: int) -> NDArray[np.int64]:
        """Append `count` tokens, all or none; returns their slots, int64 [count]. Modifies and errors: as append."""
        return self.append([seq_id], [count]).slots

    def fork_sequence(self, parent_id: int, child_id: int) -> None:
        """Register a copy of a sequence that shares its blocks copy-on-write. Modifies and errors: as fork."""
        self.fork(parent_id, [child_id])

    def truncate_sequence(self, seq_id: int, length: int) -> None:
        """Shorten one sequence to `length` tokens. Modifies and errors: as truncate."""
        self.truncate([seq_id], [length])

    def free_sequence(self, seq_id: int) -> None:
        """End one sequence. Modifies and errors: as free."""
        self.free([seq_id])

    @property
    def block_size_tokens(self) -> int:
        """Tokens a block."""
        return self.block_size
