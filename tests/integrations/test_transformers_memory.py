"""Bytes of beams and returned sequences in blocks, against those of the default cache's tensors."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")

from pagedkv.integrations.transformers import PagedCache  # noqa: E402

from .tiny_models import ARGUMENT, HEADS, VOCABULARY, model  # noqa: E402

PROMPT, NEW = 256, 32
# Bytes with 4 beams and blocks of 16 tokens, and those of the default cache: docs/models.md states them.
STATED = (211_968, 661_248)


def default_bytes(cache: Any) -> int:
    """Bytes of the default cache's tensors."""
    return sum(states.nbytes for layer in cache.layers for states in (layer.keys, layer.values))


def _run(options: dict[str, Any], block_size: int) -> tuple[int, int]:
    subject = model("llama")
    ids = torch.randint(3, VOCABULARY, (1, PROMPT), generator=torch.Generator().manual_seed(3))
    caches = [PagedCache(subject, num_blocks=4 * (PROMPT + NEW), block_size=block_size), transformers.DynamicCache()]
    texts = []
    for cache in caches:
        torch.manual_seed(5)
        texts.append(
            subject.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                eos_token_id=None,
                max_new_tokens=NEW,
                **{ARGUMENT: cache, **options},
            )
        )
    assert torch.equal(*texts)
    paged, default = caches
    return paged.peak_nbytes, default_bytes(default)


@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize(
    ("options", "rows"),
    [({"num_beams": 4}, 4), ({"do_sample": True, "num_return_sequences": 4}, 4)],
    ids=["beams", "samples"],
)
def test_four_rows_of_a_prompt_take_little_more_than_one(options: dict[str, Any], rows: int, block_size: int) -> None:
    paged, default = _run(options, block_size)
    token = 2 * HEADS["num_hidden_layers"] * HEADS["num_key_value_heads"] * HEADS["head_dim"] * 4
    assert default == rows * (PROMPT + NEW - 1) * token
    # The prompt once; in every row the tokens after it, and at most a block cut at each end.
    assert paged <= (PROMPT + rows * (NEW + 2 * block_size)) * token
    assert paged < 0.5 * default
    if (options, block_size) == ({"num_beams": 4}, 16):
        assert (paged, default) == STATED
