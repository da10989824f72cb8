"""What an attention mask says about a single query: from which token on it sees everything."""

from __future__ import annotations

import torch


def first_seen(mask: torch.Tensor, batch: int, length: int) -> torch.Tensor | None:
    """The first of `length` tokens that each row's query sees, int32 [batch]; None if it does not see all from there.

    mask: bool [batch or 1, 1, 1, length], True: seen, as Transformers makes it for scaled dot product attention. Left
    padding and sliding windows are such masks. Waits for the device once.
    """
    if mask.dtype != torch.bool or mask.shape[1:] != (1, 1, length) or mask.shape[0] not in (1, batch):
        return None
    seen = mask[:, 0, 0]
    first = length - seen.sum(dim=1, dtype=torch.int32)
    everything = torch.arange(length, device=mask.device) >= first[:, None]
    if not bool((seen == everything).all()):
        return None
    return first.expand(batch).contiguous()
