"""PagedCache: the cache that `generate` and the models of Transformers take, on blocks of a pool.

It has the methods that they call, and derives from nothing of theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pagedkv.arguments import whole_number
from pagedkv.errors import InvalidArgumentError, PagedKVError
from pagedkv.integrations.transformers.attention import NAME, hand_over
from pagedkv.integrations.transformers.cache_state import CacheState
from pagedkv.integrations.transformers.equal_rows import equal_to_previous
from pagedkv.integrations.transformers.memory import Memory
from pagedkv.integrations.transformers.step import Step
from pagedkv.integrations.transformers.store import Shape


class PagedCache(CacheState):
    """K and V of a batch in blocks that equal rows, beams and copies share.

    model: a decoder-only model, or its config. num_blocks or pool_bytes (a number or "2GiB"): the pool's size, fixed;
    it is allocated when the first K and V come, whose heads, format and device it takes. block_size: tokens a block.
    dtype: how K and V are stored, None: as they come. share_equal_rows=False: do not look for rows with equal K and V
    in prompts (a comparison and a wait for the device in each layer). layout_options: as KVLayout (order, kv_layout).

    Layers with a sliding window are stored in full. Streams: all is put on PyTorch's current stream. Threads: one at a
    time. Errors: OutOfBlocksError when the pool is full, InvalidArgumentError for what does not fit the cache; a
    forward pass in which one is raised is taken back in all layers. After another exception inside a model, `reset`.
    """

    # A compiled model breaks its graph here: traced, NumPy's arrays and the blocks would become PyTorch's.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store K and V of new tokens, [batch, heads, tokens, dim]; return those of all tokens of the layer.

        The results are the arguments (into an empty cache) or new tensors, gathered; no gradients flow through those.
        When the model runs the attention "pagedkv" and adds one token, nothing is gathered: the results are NaN and
        take no memory, and the attention function finds the blocks through the layer's keyword arguments, or through
        the results where a model hands over none.
        """
        layer = whole_number(layer_idx, "layer_idx", maximum=len(self) - 1)
        memory = self._memory_for(key_states, value_states)
        step = self._step
        if step is None or layer in step.written:
            step = self._step = self._begin(memory, key_states, value_states)
        try:
            self._write(memory, step, layer, key_states, value_states)
        except PagedKVError:
            memory.rows.cut(step.start)
            self._step = None
            raise
        if key_states.shape[2] == 1 and self._reads_in_place:
            return hand_over(step, layer, kwargs.get("kwargs"))
        if step.start == 0:
            return key_states, value_states
        return step.gather(layer)

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Row i becomes what row beam_idx[i] was: tables change, no block is copied. Waits for the device once."""
        if self._memory is None or not len(self._rows):
            return
        parents = _indices(beam_idx, "beam_idx", len(self._rows))
        if len(parents) != len(self._rows):
            raise InvalidArgumentError(f"beam_idx has {len(parents)} entries, the cache {len(self._rows)} rows")
        self._step = None
        self._memory.store.apply(self._memory.rows.reorder(parents))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Every row `repeats` times, one after another; the copies share its blocks."""
        times = whole_number(repeats, "repeats", minimum=1)
        self._select([row for row in range(len(self._rows)) for _ in range(times)])

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these rows, in this order: integers, or one bool a row."""
        if len(self._rows):
            self._select(_indices(indices, "indices", len(self._rows)))

    def crop(self, tokens_to_remove: int) -> None:
        """Remove the last -tokens_to_remove tokens of every row. A number above 0 is the length to keep at most, as
        Transformers 4.5x has it.
        """
        count = whole_number(tokens_to_remove, "tokens_to_remove", minimum=-(2**31))
        length = self.get_seq_length()
        self._step = None
        if self._memory is not None and count:
            self._memory.rows.cut(min(length, count) if count > 0 else max(0, length + count))

    def reset(self) -> None:
        """Forget all rows. The pool stays."""
        self._step = None
        if self._memory is not None:
            self._memory.rows.cut(0)
            self._memory.store.layers_seen.clear()

    def _begin(self, memory: Memory, k: torch.Tensor, v: torch.Tensor) -> Step:
        """Make room for the new tokens of all rows, once a forward pass. The first layer says which rows are equal."""
        rows, (batch, _, count, _) = memory.rows, k.shape
        if len(rows) not in (0, batch):
            raise InvalidArgumentError(
                f"the cache holds {len(rows)} rows, K and V have {batch}; reset it, or batch_repeat_interleave"
            )
        if self._step is not None:
            self._check_ended(memory, self._step)
        start = rows.length
        # Single tokens come from rows that have just been told apart: looking would cost a wait in every step.
        look = self._share_equal_rows and batch > 1 and (count > 1 or start == 0)
        same = equal_to_previous(k, v) if look else [False] * batch
        plan = rows.append(batch, count, same)
        try:
            memory.store.apply(plan)
            return Step(memory.store, rows, start)
        except PagedKVError:
            rows.cut(start)
            raise

    def _write(self, memory: Memory, step: Step, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        self._check_read(step)
        if k.shape[0] != step.batch or k.shape[2] != step.stop - step.start:
            raise InvalidArgumentError(
                f"layer {layer} adds {k.shape[2]} tokens to {k.shape[0]} rows, the layer before added "
                f"{step.stop - step.start} to {step.batch}"
            )
        if step.shares and step.written:
            same = equal_to_previous(k, v)
            if not memory.rows.still_grouped(same):
                split = memory.rows.split(same, step.start)
                memory.store.apply(split.plan)
                memory.store.pool.copy_blocks(split.copies, stream=memory.store.stream)
                step.locate()
        step.write(layer, k, v)

    @property
    def _reads_in_place(self) -> bool:
        # Latent keys and values (kv_lora_rank) become heads only behind the cache.
        latent = getattr(self._config, "kv_lora_rank", None) is not None
        return getattr(self._config, "_attn_implementation", None) == NAME and not latent

    def _check_ended(self, memory: Memory, step: Step) -> None:
        if missing := memory.store.layers_seen - step.written:
            raise InvalidArgumentError(
                f"the forward pass before ended without layer {min(missing)}: crop(-{step.stop - step.start}) takes "
                "its tokens back, reset forgets all"
            )
        self._check_read(step)

    def _check_read(self, step: Step) -> None:
        if step.unread is not None:
            raise InvalidArgumentError(
                f"layer {step.unread} did not read K and V through {NAME!r}: this model does not call its attention "
                'function with what the cache gives it; use model.set_attn_implementation("sdpa")'
            )

    def _select(self, rows: list[int]) -> None:
        self._step = None
        if self._memory is not None and len(self._rows):
            self._memory.rows.select(rows)

    def _memory_for(self, k: torch.Tensor, v: torch.Tensor) -> Memory:
        self._ensure_open("update")
        memory = self._memory
        if memory is None:
            memory = self._memory = Memory(self._size, Shape.of(k, v))
        elif not memory.store.shape.fits(k, v):
            raise InvalidArgumentError(
                f"this cache holds {memory.store.shape}, K and V are {Shape.of(k, v)}; open another one"
            )
        return memory


def _indices(values: torch.Tensor, name: str, rows: int) -> list[int]:
    """Row numbers of an index or bool tensor, those below 0 from the end. Raises InvalidArgumentError."""
    array = torch.as_tensor(values).detach().cpu().numpy()
    if array.dtype == np.bool_ and array.shape == (rows,):
        array = np.flatnonzero(array)
    if array.ndim != 1 or array.dtype.kind not in "iu" or ((array < -rows) | (array >= rows)).any():
        raise InvalidArgumentError(f"{name} is {array.dtype} {array.tolist()}; give rows of the cache's {rows}")
    return [int(row) for row in array % max(rows, 1)]
