"""The token-unique pattern in plain Python integers, from the text in `pagedkv.kernels` and not from its NumPy twin."""

from __future__ import annotations

from functools import lru_cache

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def mix(z: int) -> int:
    z &= _MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    return z ^ (z >> 31)


def key(seq_id: int, position: int) -> int:
    return mix(mix(seq_id + _GOLDEN) + (position + 1) * _GOLDEN)


@lru_cache(maxsize=4096)
def token(seq_id: int, position: int, token_bytes: int) -> bytes:
    """The bytes of one token."""
    words = range(-(-token_bytes // 8))
    start = key(seq_id, position)
    return b"".join(((start + i * _GOLDEN) & _MASK).to_bytes(8, "little") for i in words)[:token_bytes]


def tokens(seq_id: int, count: int, token_bytes: int) -> bytes:
    """The bytes of a sequence's first `count` tokens, one after another."""
    return b"".join(token(seq_id, position, token_bytes) for position in range(count))
