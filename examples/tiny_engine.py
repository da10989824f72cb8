"""A small serving engine: continuous batching of a Transformers Llama whose keys and values live in pagedkv's memory.

`python examples/tiny_engine.py [--model FOLDER] [--device cuda:0]`. Needs torch and transformers. Without --model the
weights are random. Every answer is compared with that of one-by-one generation by Transformers itself.
"""

import argparse
from collections import Counter, deque
from time import perf_counter
from types import SimpleNamespace

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa
from transformers import AttentionInterface, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from pagedkv import DevicePool, KVCacheManager, KVLayout


class Engine:
    """One step is one packed forward pass: a token of everybody who decodes, then chunks of prompts."""

    def __init__(self, model, requests: list, blocks: int, block_size: int = 16, chunk: int = 64) -> None:
        self.model, self.chunk, self.cuda = model, chunk, model.device.type == "cuda"
        layout = KVLayout.from_config(model.config.to_dict(), block_size, dtype=model.dtype)
        self.manager = KVCacheManager(blocks, block_size, prefix_caching=True)
        self.pool = DevicePool(layout, blocks, device=str(model.device) if self.cuda else "host")
        self.waiting, self.running, self.totals, self.times = deque(requests), [], Counter(preemptions=0), []
        AttentionInterface.register("tiny_engine", self.attend)
        model.set_attn_implementation("tiny_engine")

    @torch.no_grad()
    def run(self) -> None:
        while self.waiting or self.running:
            start = perf_counter()
            self.admit()
            batch, slots = self.grow()
            planned = perf_counter()
            sampled = self.compute(batch, slots)
            computed = perf_counter()
            self.commit(batch, sampled)
            self.times.append((perf_counter() - start, computed - planned))

    def admit(self) -> None:
        """First come, first served: blocks for all its tokens; what somebody has computed before is taken over."""
        while self.waiting:
            request = self.waiting[0]
            admission = self.manager.try_admit(request.id, np.asarray(request.tokens, np.int32))
            if admission is None:
                return  # not now
            request.stored, request.known = admission.cached_tokens, len(request.tokens)
            self.totals["cached tokens"] += admission.cached_tokens
            self.running.append(self.waiting.popleft())

    def grow(self) -> tuple[list, np.ndarray]:
        """Places for this step's tokens, decodes first; while there are too few, the last one without goes back."""
        left = [(r, min(len(r.tokens) - r.stored, self.chunk)) for r in self.running]
        left.sort(key=lambda work: work[1] > 1)
        batch, slots = [], []
        while left:
            plan = self.manager.append([r.id for r, _ in left], [n for _, n in left], partial=True)
            # The block copies and table updates go before the model's kernels, on the stream of those.
            self.pool.apply(plan, torch.cuda.current_stream() if self.cuda else None)
            batch, left = batch + left[: plan.served], left[plan.served :]
            slots.append(plan.slots)
            if left:
                victim, _ = left.pop()
                self.manager.free([victim.id])
                self.running.remove(victim)
                self.waiting.appendleft(victim)
                self.totals["preemptions"] += 1
        return batch, np.concatenate(slots)

    def compute(self, batch: list, slots: np.ndarray) -> list[int]:
        """The model's next token after the last one of each request."""
        put = lambda values, dtype=torch.int64: torch.tensor(values, dtype=dtype, device=self.model.device)  # noqa: E731
        ends, singles = np.cumsum([n for _, n in batch]), [r for r, n in batch if n == 1]  # those lead the batch
        step = SimpleNamespace(slots=put(slots), rows=put([self.manager.row(r.id) for r in singles], torch.int32))
        step.lengths = put([r.stored + 1 for r in singles], torch.int32)
        chunks = list(zip(ends.tolist(), batch, strict=True))[len(singles) :]
        step.chunks = [(end - n, end, put(self.manager.slot_mapping([r.id]))) for end, (r, n) in chunks]
        ids = [token for r, n in batch for token in r.tokens[r.stored : r.stored + n]]
        positions = put([[place for r, n in batch for place in range(r.stored, r.stored + n)]])
        options = {"use_cache": False, "logits_to_keep": put(ends - 1), "step": step}
        self.totals["computed tokens"] += len(ids)
        return self.model(put([ids]), position_ids=positions, **options).logits[0].argmax(-1).tolist()

    def attend(self, module, query, key, value, mask, *, scaling, step, **_):
        """One layer: new keys and values into their slots; each token attends to the blocks of its own sequence."""
        layer, n = module.layer_idx, len(step.rows)
        q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))  # [tokens, heads, head_dim]
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        self.pool.write_kv(layer, k, v, step.slots)
        if n:
            self.pool.decode_attention(layer, q[:n], step.lengths, out[:n], rows=step.rows, softmax_scale=scaling)
        for start, end, slots in step.chunks:
            keys, values = (torch.empty(len(slots), *x.shape[1:], dtype=x.dtype, device=x.device) for x in (k, v))
            self.pool.gather_kv(layer, slots, keys, values)
            visible = torch.ones(end - start, len(slots), dtype=torch.bool, device=q.device)
            visible = visible.tril(len(slots) - (end - start))  # each token sees itself and what came before
            q_k_v = (x.transpose(0, 1)[None] for x in (q[start:end], keys, values))
            out[start:end] = sdpa(*q_k_v, attn_mask=visible, scale=scaling, enable_gqa=True)[0].transpose(0, 1)
        return out[None], None

    def commit(self, batch: list, sampled: list[int]) -> None:
        """What is written can be found from here on; ids that only this loop knew are told."""
        late = [token for r, n in batch for token in r.tokens[r.known : r.stored + n]]
        for (r, n), token in zip(batch, sampled, strict=True):
            r.stored, r.known = r.stored + n, max(r.known, r.stored + n)
            if r.stored == len(r.tokens):
                r.tokens.append(token)
        self.manager.commit([r.id for r, _ in batch], [r.stored for r, _ in batch], tokens=np.asarray(late, np.int32))
        self.manager.free([r.id for r in self.running if len(r.tokens) == r.end])
        self.running = [r for r in self.running if len(r.tokens) < r.end]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = {"layers": 2, "hidden": 128, "requests": 12, "answer": 24, "blocks": 32}
    for name, value in {"model": "", "device": "cpu", **sizes}.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    given, draw = parser.parse_args(), np.random.default_rng(0)
    torch.manual_seed(0)
    heads = {"num_attention_heads": given.hidden // 64, "num_key_value_heads": max(1, given.hidden // 256)}
    shape = {"hidden_size": given.hidden, "num_hidden_layers": given.layers, "intermediate_size": 2 * given.hidden}
    random = None if given.model else LlamaForCausalLM(LlamaConfig(**shape, **heads, vocab_size=1000))
    model = (random or AutoModelForCausalLM.from_pretrained(given.model)).to(given.device).eval()
    model.generation_config.eos_token_id = None  # all answers have the same length
    lengths = [40, *draw.integers(1, 80, given.requests)]  # all prompts begin alike
    system, *rest = (draw.integers(3, 1000, length).tolist() for length in lengths)
    # The pool holds the first `stored` of the tokens, the manager has the ids of the first `known`.
    requests = [SimpleNamespace(id=i, tokens=system + own, stored=0, known=0) for i, own in enumerate(rest)]
    for request in requests:
        request.end = len(request.tokens) + given.answer
    (engine := Engine(model, requests, given.blocks)).run()
    engine.manager.check()
    model.set_attn_implementation("sdpa")
    options = {"max_new_tokens": given.answer, "do_sample": False}
    alone = [model.generate(torch.tensor([system + own]).to(model.device), **options)[0].tolist() for own in rest]
    wrong = sum(r.tokens != one for r, one in zip(requests, alone, strict=True))
    counted = ", ".join(f"{count} {what}" for what, count in sorted(engine.totals.items()))
    print(f"{len(engine.times)} steps, {counted}")
    step, model = np.median(engine.times, axis=0)
    print(f"{step * 1e3:.2f} ms a step (median), of which the manager takes {1 - model / step:.2%}")
    print(f"{wrong} of {len(requests)} answers differ from one-by-one generation")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
