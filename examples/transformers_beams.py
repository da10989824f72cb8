"""Beam search of an unpatched Transformers model on blocks: the same tokens, a third of the memory.

`python examples/transformers_beams.py [--model FOLDER] [--device cuda] [--in-place]`. Needs torch and transformers.
Without --model it is a small Llama with random weights. --in-place decodes with pagedkv's attention kernel.
"""

from __future__ import annotations

import argparse

import torch
from transformers import AutoModelForCausalLM, DynamicCache, LlamaConfig, LlamaForCausalLM

from pagedkv.integrations.transformers import PagedCache, register_attention


def main() -> None:
    """Generate with the default cache and with blocks, and compare."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--model")
    options.add_argument("--device", default="cpu")
    options.add_argument("--beams", type=int, default=4)
    options.add_argument("--prompt", type=int, default=256, help="tokens")
    options.add_argument("--new", type=int, default=32, help="tokens to generate")
    options.add_argument("--in-place", action="store_true")
    asked = options.parse_args()

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(asked.model) if asked.model else small_llama()
    model = model.to(asked.device).eval()
    prompt = torch.randint(3, model.config.vocab_size, (1, asked.prompt), device=asked.device)
    inputs = {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}
    search = {"num_beams": asked.beams, "max_new_tokens": asked.new, "eos_token_id": None, "pad_token_id": 0}

    default = DynamicCache()
    expected = model.generate(**inputs, **search, cache=default)
    held = sum(states.nbytes for layer in default.layers for states in (layer.keys, layer.values))

    if asked.in_place:
        model.set_attn_implementation(register_attention())
    with PagedCache(model, num_blocks=asked.beams * (asked.prompt + asked.new)) as cache:
        tokens = model.generate(**inputs, **search, cache=cache)
        print(cache)
        print(f"tokens are {'the same' if torch.equal(tokens, expected) else 'NOT the same'}")
        print(f"blocks {cache.peak_nbytes} bytes at most, the default cache {held}: {cache.peak_nbytes / held:.0%}")


def small_llama() -> LlamaForCausalLM:
    """A model that a laptop runs at once."""
    sizes = {"vocab_size": 128, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3}
    return LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2))


if __name__ == "__main__":
    main()
