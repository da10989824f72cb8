"""Decode attention of others over the same pool, blocks and queries, where they are installed.

FlashInfer: its decode wrapper with and without tensor cores, its prefill wrapper, which takes several query tokens, and
XQA. FlashAttention 4: its kernel for Hopper, which has a page table and does not split a sequence.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.gpu.attention_case import Prepared

Attend = Callable[[int, Any], Any]  # (layer, queries [n, tokens, heads, dim]) -> results of that shape


class Tensors:
    """A case in PyTorch's terms, and the same work by peers."""

    def __init__(self, prepared: Prepared) -> None:
        import torch

        self.torch, self.prepared = torch, prepared
        self.case = prepared.case
        views = [prepared.pool.layer(layer) for layer in range(prepared.layers)]
        self.k = [view.k.torch() for view in views]
        self.v = [view.v.torch() for view in views if view.v is not None]
        self.queries = [self._tensor(each) for each in prepared.queries]
        self.table = torch.from_numpy(prepared.entries).cuda()
        self.lengths = torch.tensor(self.case.lengths, dtype=torch.int32, device="cuda")
        self.queue = torch.cuda.ExternalStream(prepared.pool.stream.handle)  # type: ignore[attr-defined]

    def replays(self, attend: Attend, count: int) -> list[float]:
        """Microseconds a layer of each replay; the last layer's result is checked. Raises where it is wrong."""
        torch, layers = self.torch, range(self.prepared.layers)
        with torch.cuda.stream(self.queue):
            attend(0, self.queries[0])
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.queue):
            outs = [attend(layer, self.queries[layer]) for layer in layers]
        times = []
        with torch.cuda.stream(self.queue):
            for _ in range(count + 1):
                first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                first.record()
                graph.replay()
                last.record()
                last.synchronize()
                times.append(first.elapsed_time(last) * 1e3 / len(layers))
        found = outs[-1].contiguous().view(torch.int16).cpu().numpy().view(np.uint16)
        self.prepared.check(found)
        return times[1:]

    def _tensor(self, place: Any) -> Any:
        from dataclasses import replace

        return self.torch.as_tensor(replace(place, typestr="<i2"), device="cuda").view(self.torch.bfloat16)


def peers(tensors: Tensors) -> Iterator[tuple[str, Callable[[], Attend]]]:
    """(name, how it is made ready) of every peer for this case; making it ready raises where it is not installed."""
    case = tensors.case
    known = case.head_dim == 128 and case.kv_layout == "NHD" and case.block_size == 16 and case.stored != "int8"
    if not known or case.scales or case.softcap is not None or case.window is not None:
        return
    plain = case.stored == "bfloat16"
    if plain:
        yield "FlashInfer prefill", lambda: _flashinfer_prefill(tensors)
        yield "FlashAttention 4", lambda: _flash_attention_4(tensors)
    if case.tokens == 1:
        yield "FlashInfer decode", lambda: _flashinfer_decode(tensors, tensor_cores=False)
        if plain:
            yield "FlashInfer decode, tensor cores", lambda: _flashinfer_decode(tensors, tensor_cores=True)
        yield "FlashInfer XQA", lambda: _xqa(tensors)


def _csr(tensors: Tensors) -> tuple[Any, Any, Any]:
    torch, case = tensors.torch, tensors.case
    indptr = torch.from_numpy(np.concatenate([[0], np.cumsum(case.needed)]).astype(np.int32))
    rows = zip(tensors.prepared.entries, case.needed, strict=True)
    indices = torch.from_numpy(np.concatenate([row[:needed] for row, needed in rows])).cuda()
    last = torch.tensor([(length - 1) % case.block_size + 1 for length in case.lengths], dtype=torch.int32)
    return indptr.cuda(), indices, last.cuda()


def _flashinfer_decode(tensors: Tensors, *, tensor_cores: bool) -> Attend:
    import flashinfer

    torch, case = tensors.torch, tensors.case
    workspace = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=tensor_cores)
    sizes = (*case.heads, case.head_dim, case.block_size)
    kinds = {"q_data_type": torch.bfloat16, "kv_data_type": tensors.k[0].dtype}
    wrapper.plan(*_csr(tensors), *sizes, **kinds)
    return lambda layer, queries: wrapper.run(queries[:, 0], (tensors.k[layer], tensors.v[layer]))


def _flashinfer_prefill(tensors: Tensors) -> Attend:
    import flashinfer

    torch, case = tensors.torch, tensors.case
    workspace = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD", backend="fa2")
    starts = torch.arange(len(case.lengths) + 1, dtype=torch.int32, device="cuda") * case.tokens
    sizes = (*case.heads, case.head_dim, case.block_size)
    wrapper.plan(starts, *_csr(tensors), *sizes, causal=True, q_data_type=torch.bfloat16)
    return lambda layer, queries: wrapper.run(queries.flatten(0, 1), (tensors.k[layer], tensors.v[layer]))


def _xqa(tensors: Tensors) -> Attend:
    from flashinfer.decode import xqa_batch_decode_with_kv_cache

    torch, case = tensors.torch, tensors.case
    workspace = torch.zeros(512 << 20, dtype=torch.uint8, device="cuda")
    lengths, longest = tensors.lengths.view(torch.uint32), max(case.lengths)

    def attend(layer: int, queries: Any) -> Any:
        cache = (tensors.k[layer], tensors.v[layer])
        scale = case.head_dim**-0.5
        return xqa_batch_decode_with_kv_cache(
            queries[:, 0], cache, workspace, tensors.table, lengths, longest, bmm1_scale=scale, bmm2_scale=1.0
        )

    return attend


def _flash_attention_4(tensors: Tensors) -> Attend:
    from flash_attn.cute import flash_attn_varlen_func

    def attend(layer: int, queries: Any) -> Any:
        cache = (tensors.k[layer], tensors.v[layer])
        places = {"seqused_k": tensors.lengths, "page_table": tensors.table}
        result = flash_attn_varlen_func(queries, *cache, **places, causal=True)
        return result[0] if isinstance(result, tuple) else result

    return attend
