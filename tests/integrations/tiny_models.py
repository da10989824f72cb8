"""Small models of Transformers with random weights, and what they generate with a cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from typing import Any

import torch
import transformers

from pagedkv.integrations.transformers import PagedCache

# Such small products are done before a second thread is awake.
torch.set_num_threads(1)

# What `generate` and models call the cache.
_TAKES = signature(transformers.GenerationMixin.prepare_inputs_for_generation).parameters
ARGUMENT = "cache" if "cache" in _TAKES else "past_key_values"
VOCABULARY = 61
WINDOW = 7
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 48, "intermediate_size": 80, "max_position_embeddings": 512}
HEADS = {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def _build(name: str) -> Any:
    common = {**SIZES, **HEADS, **TOKENS}
    if name == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**common))
    if name == "qwen2":
        return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**common))
    if name == "qwen3":
        return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**common))
    if name == "mistral":
        return transformers.MistralForCausalLM(transformers.MistralConfig(**common, sliding_window=WINDOW))
    if name == "gemma3":
        kinds = ["sliding_attention", "full_attention", "sliding_attention"]
        return transformers.Gemma3ForCausalLM(
            transformers.Gemma3TextConfig(**common, sliding_window=WINDOW, layer_types=kinds)
        )
    if name == "gpt2":
        sizes = {"n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 512}
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=VOCABULARY, **sizes, **TOKENS))
    raise AssertionError(name)


@cache
def model(name: str, seed: int = 0) -> Any:
    """One model a name and seed, float32, ready to generate. Weights are large enough for outputs that vary."""
    torch.manual_seed(seed)
    built = _build(name).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.ndim > 1:
                parameter.mul_(6.0)
    return built


@dataclass(frozen=True)
class Mode:
    """One way to generate: rows of the prompt, their padding, options of `generate`."""

    name: str
    rows: int = 1
    padded: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    assistant: bool = False

    def __str__(self) -> str:
        return self.name


MODES = (
    Mode("greedy"),
    Mode("greedy-padded", rows=3, padded=True),
    Mode("sampling", rows=2, options={"do_sample": True}),
    Mode("samples-returned", options={"do_sample": True, "num_return_sequences": 4}),
    Mode("beams", options={"num_beams": 4}),
    Mode("beams-padded", rows=2, padded=True, options={"num_beams": 4}),
    Mode("beams-sampled", rows=2, options={"num_beams": 3, "do_sample": True}),
    Mode("beams-returned", options={"num_beams": 5, "num_return_sequences": 5}),
    Mode("chunks", rows=3, padded=True, options={"prefill_chunk_size": 5}),
    Mode("chunks-beams", rows=2, options={"prefill_chunk_size": 4, "num_beams": 4}),
    Mode("prompt-lookup", options={"prompt_lookup_num_tokens": 3}),
    Mode("assisted", assistant=True),
)


def prompt(mode: Mode, seed: int) -> dict[str, torch.Tensor]:
    """Token ids and their mask: rows of one length, or of several behind left padding."""
    source = torch.Generator().manual_seed(seed)
    length = 9 + seed % 5
    ids = torch.randint(3, VOCABULARY, (mode.rows, length), generator=source)
    if mode.name == "prompt-lookup":
        ids = ids[:, :4].repeat(1, 4)
    mask = torch.ones_like(ids)
    if mode.padded:
        for row in range(mode.rows):
            mask[row, : 2 * row] = 0
    return {"input_ids": ids * mask, "attention_mask": mask}


def generate(language_model: Any, mode: Mode, inputs: Any, past: Any, seed: int) -> torch.Tensor:
    """Token ids that the model generates with this cache (None: its default)."""
    options: dict[str, Any] = {"max_new_tokens": 14, ARGUMENT: past, **mode.options}
    if mode.assistant:
        options["assistant_model"] = model("llama", seed=11)
    torch.manual_seed(seed)
    result: torch.Tensor = language_model.generate(**inputs, **options)
    return result


def no_blocks_left(cache: PagedCache) -> bool:
    """Whether the cache's books are sound, and empty once it is reset."""
    cache.manager.check()
    cache.reset()
    cache.manager.check()
    return cache.manager.get_stats().allocated_blocks == 0 and cache.get_seq_length() == 0
