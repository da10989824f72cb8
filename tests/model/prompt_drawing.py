"""How the state machine draws prompts: few words, common heads, so that most of them meet what is known already."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from .contents import Span
from .prompts import Prompt

MOST_TOKENS = 40
# They part from each other at places of their own: inside a block, at its end, and after more than a dozen of them.
BOOKS = (
    (0,) * MOST_TOKENS,
    (0,) * 5 + (1,) * (MOST_TOKENS - 5),
    (0,) * 16 + (1, 0) * (MOST_TOKENS // 2 - 8),
)
SALTS = st.sampled_from((b"",) * 8 + (b"tenant", b"\0other"))


def drawn_prompt(data: DataObject, earlier: Sequence[Prompt], most: int, block_size: int) -> Prompt:
    """An earlier prompt's head or a book's, and perhaps another end; mostly not limited in what it may take over."""
    length = data.draw(st.sampled_from((most // 2, most, None)))
    length = data.draw(st.integers(0, most)) if length is None else length
    from_earlier, another_end = data.draw(st.tuples(st.booleans(), st.booleans()))
    if earlier and from_earlier:
        other = data.draw(st.sampled_from(earlier))
        tokens, salt, spans = list(other.tokens), other.salt, list(other.spans)
        tokens = (tokens + [0] * length)[:length]
    else:
        tokens, salt = list(BOOKS[data.draw(st.integers(0, len(BOOKS) - 1))][:length]), data.draw(SALTS)
        spans = _drawn_spans(data, length, block_size)
    if tokens and another_end:
        at = data.draw(st.integers(0, length - 1))
        tokens[at:] = [1 - token for token in tokens[at:]]
    limit = data.draw(st.sampled_from((None,) * 5 + (most, length, length // 2)))
    return Prompt(tuple(tokens), salt, tuple(span for span in spans if span[1] <= length), limit)


def _drawn_spans(data: DataObject, length: int, block_size: int) -> list[Span]:
    """Mostly none; at the ends of blocks, within one, over several; two that touch."""
    if length < 2 or data.draw(st.sampled_from((True, False, True))):
        return []
    starts = data.draw(st.sampled_from(((0,), (block_size,), (1, 2), (0, block_size + 1), (3,))))
    width = data.draw(st.sampled_from((1, block_size, 2 * block_size + 1)))
    digests = data.draw(st.sampled_from((b"image", b"image ", b"\0")))
    ends = [min(start + width, length, *(s for s in starts if s > start)) for start in starts]
    return [(start, end, digests) for start, end in zip(starts, ends, strict=True) if start < end]
