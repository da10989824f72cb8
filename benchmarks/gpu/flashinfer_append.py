"""FlashInfer's append_paged_kv_cache over the same keys, values and blocks, where it is installed.

Its cache is what it likes best: one layer's pool, compact, [blocks, 2, 16, heads, dim]; one for all calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

TOKENS_A_SEQUENCE = 1024


def flashinfer_append(steps: Sequence[Any], stream: int) -> Callable[[], object] | None:
    """A replay of all steps as one graph on `stream`; None without FlashInfer. Checked before it is handed out."""
    try:
        import flashinfer
        import torch
    except ImportError:
        return None
    queue = torch.cuda.ExternalStream(stream)
    blocks = 1 + max(int(step.blocks.max()) for step in steps)
    cache = torch.full((blocks, 2, 16, 8, 128), 7.0, dtype=torch.bfloat16, device="cuda")
    calls = [_arguments(torch, step) for step in steps]

    def append() -> None:
        for k, v, batch, positions, indices, indptr, last in calls:
            flashinfer.append_paged_kv_cache(k, v, batch, positions, cache, indices, indptr, last, "NHD")

    with torch.cuda.stream(queue):
        append()
    torch.cuda.synchronize()
    k, v, batch, positions, indices, indptr, _ = calls[-1]
    block = indices[indptr[batch.long()].long() + positions.long() // 16].long()
    for side, tokens in ((0, k), (1, v)):
        found = cache[block, side, positions.long() % 16]
        if not torch.equal(found.view(torch.int16), tokens.view(torch.int16)):
            raise RuntimeError("FlashInfer's cache does not hold what was appended: the times mean nothing")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=queue):
        append()

    def replay() -> None:
        with torch.cuda.stream(queue):
            graph.replay()

    replay.keep = (cache, calls)  # type: ignore[attr-defined]
    return replay


def _arguments(torch: Any, step: Any) -> tuple[Any, ...]:
    signed = (replace(tensor, typestr="<i2") for tensor in step.tokens)
    k, v = (torch.as_tensor(tensor, device="cuda").view(torch.bfloat16) for tensor in signed)
    tokens = k.shape[0]
    blocks = torch.as_tensor(step.blocks, device="cuda")
    if len(blocks) == tokens:  # a decode step
        offsets = (torch.as_tensor(step.slots, device="cuda") % 16).int()
        batch, positions = torch.arange(tokens, device="cuda").int(), offsets
        return k, v, batch, positions, blocks, torch.arange(tokens + 1, device="cuda").int(), offsets + 1
    sequences = max(1, tokens // TOKENS_A_SEQUENCE)
    length = tokens // sequences
    batch = torch.arange(sequences, device="cuda").repeat_interleave(length).int()
    positions = torch.arange(length, device="cuda").repeat(sequences).int()
    indptr = torch.from_numpy(np.arange(sequences + 1, dtype=np.int32) * (length // 16)).cuda()
    return k, v, batch, positions, blocks, indptr, torch.full((sequences,), 16, dtype=torch.int32, device="cuda")
