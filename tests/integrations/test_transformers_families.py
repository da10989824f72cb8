"""Models of other families, each with something of its own: tokens are those of the default cache."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")

from pagedkv.integrations.transformers import PagedCache, register_attention  # noqa: E402

from .tiny_models import ARGUMENT, HEADS, SIZES, TOKENS, WINDOW, no_blocks_left  # noqa: E402

_COMMON = {**SIZES, **HEADS, **TOKENS}
_NO_HEAD_DIM = {name: value for name, value in _COMMON.items() if name != "head_dim"}
_LATENT = {"q_lora_rank": 16, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 10}
_DENSE = {"first_k_dense_replace": 3, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1}
FAMILIES: dict[str, dict[str, Any]] = {
    "Falcon": {
        **_NO_HEAD_DIM,
        "new_decoder_architecture": True,
        "num_kv_heads": 2,
    },  # KV heads repeated before the cache
    "OPT": {**_NO_HEAD_DIM, "ffn_dim": 80, "word_embed_proj_dim": 48},
    "GPTNeoX": _NO_HEAD_DIM,
    "Phi": _NO_HEAD_DIM,
    "Gemma2": {**_COMMON, "sliding_window": WINDOW},  # a soft cap
    "GptOss": {**_COMMON, "sliding_window": WINDOW, "num_local_experts": 4, "num_experts_per_tok": 2},  # sinks
    "Llama4": {**_COMMON, "attention_chunk_size": 8, "num_local_experts": 2, "intermediate_size_mlp": 80},  # chunks
    "Mixtral": {**_COMMON, "num_local_experts": 4},
    "DeepseekV3": {**_NO_HEAD_DIM, **_LATENT, **_DENSE, "num_key_value_heads": 4},  # K and V of different sizes
}
if ARGUMENT == "cache":  # 4.5x reads shared keys out of the default cache's own layers
    FAMILIES["Gemma3n"] = {  # layers that attend to what others have stored
        **_COMMON,
        "num_hidden_layers": 5,
        "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2 + ["full_attention"],
        "sliding_window": WINDOW,
        "intermediate_size": [80] * 5,
        "vocab_size_per_layer_input": SIZES["vocab_size"],
        "hidden_size_per_layer_input": 8,
        "laurel_rank": 4,
        "activation_sparsity_pattern": None,
    }
EAGER_ONLY = ("Gemma2", "GptOss")


def _model(family: str) -> Any:
    configs = (f"{family}TextConfig", f"{family}Config")
    config = next(getattr(transformers, name) for name in configs if hasattr(transformers, name))
    torch.manual_seed(0)
    built = getattr(transformers, f"{family}ForCausalLM")(config(**FAMILIES[family])).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.ndim > 1:
                parameter.mul_(5.0)
    return built


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_are_those_of_the_default_cache(family: str) -> None:
    subject = _model(family)
    source = torch.Generator().manual_seed(1)
    texts: set[tuple[int, ...]] = set()
    for attention in ("eager",) if family in EAGER_ONLY else ("sdpa", register_attention()):
        for rows, options in ((3, {}), (2, {"num_beams": 3})):
            ids = torch.randint(3, SIZES["vocab_size"], (rows, 11), generator=source)
            mask = torch.ones_like(ids)
            mask[1, :4] = 0
            asked: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "max_new_tokens": 12, **options}
            subject.set_attn_implementation("eager" if attention == "eager" else "sdpa")
            expected = subject.generate(**asked)
            subject.set_attn_implementation(attention)
            cache = PagedCache(subject, num_blocks=200, block_size=3)
            assert torch.equal(subject.generate(**asked, **{ARGUMENT: cache}), expected)
            assert no_blocks_left(cache)
            texts.update(tuple(row) for row in expected[:, 11:].tolist())
    assert len(texts) > 2
