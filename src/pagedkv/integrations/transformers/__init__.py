"""Hugging Face Transformers on pagedkv memory. Needs PyTorch and Transformers, which pagedkv does not depend on.

    cache = PagedCache(model, num_blocks=4096)
    model.generate(**inputs, cache=cache, num_beams=4)

`register_attention()` adds the attention implementation "pagedkv", which reads the blocks in place when it decodes.
"""

from pagedkv.integrations.transformers.attention import register_attention
from pagedkv.integrations.transformers.paged_cache import PagedCache

__all__ = ["PagedCache", "register_attention"]
