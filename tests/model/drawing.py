"""How the state machine draws arguments: mostly sensible ones, now and then one fault, in every accepted form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

# Both ends of int64, negative ids, and two ids that are equal in their low 32 bits.
SEQ_IDS = (0, 1, 2, 3, 7, -1, 7 + 2**32, 2**63 - 1, -(2**63))
STRANGER = 999  # never registered


def seldom(data: DataObject) -> bool:
    """True about once in twenty. Not ``integers(...) == 0``: hypothesis draws the ends of a range far more often."""
    return data.draw(st.sampled_from([False] * 12 + [True] + [False] * 12))


def drawn_batch(data: DataObject, live: Sequence[int], most: int = 4) -> list[int]:
    """Some live ids in any order; one batch in twenty names a stranger, one in twenty an id twice."""
    ids = data.draw(st.lists(st.sampled_from(live), unique=True, max_size=most)) if live else []
    if seldom(data):
        ids.insert(data.draw(st.integers(0, len(ids))), STRANGER)
    elif ids and seldom(data):
        ids.append(data.draw(st.sampled_from(ids)))
    return ids


def drawn_blocks(data: DataObject, num_blocks: int) -> list[int]:
    """Block ids, repeats allowed."""
    return data.draw(st.lists(st.integers(0, num_blocks - 1), max_size=4))


def drawn_form(data: DataObject, values: Sequence[int], dtype: str) -> Any:
    """The same numbers as a list, a tuple, an array of the native type, or a strided, read-only or wider one."""
    form = data.draw(st.sampled_from(("list", "tuple", "native", "strided", "wide")))
    if form == "list":
        return list(values)
    if form == "tuple":
        return tuple(values)
    array = np.array(values, dtype=np.int64 if form == "wide" else dtype)
    if form == "strided":
        array = np.repeat(array, 2)[::2]
        array.flags.writeable = False
    return array


def drawn_tokens(data: DataObject, count: int) -> list[int]:
    """Token ids of two kinds, so that sequences often say the same; a few draws at any length."""
    bits = data.draw(st.integers(0, 255)) if count else 0
    return [bits >> (place % 8) & 1 for place in range(count)]


def lengths(most: int) -> SearchStrategy[int]:
    return st.integers(0, most)


def maybe(strategy: SearchStrategy[int], one_in: int = 3) -> SearchStrategy[int | None]:
    """None most of the time."""
    return st.one_of(*[st.none()] * (one_in - 1), strategy)
