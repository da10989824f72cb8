"""Scripts that hypothesis draws for an engine, and the proof that the property over them can fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from .engine import Action, WrongBytesError

Scripts = st.SearchStrategy[list[Action]]


class Runs(Protocol):
    """An engine that is ready for one script. Raises WrongBytesError when a read gives bytes of another order."""

    def run(self, script: list[Action]) -> None: ...


def scripts(actions: Sequence[str]) -> Scripts:
    """Scripts of these actions, each with two small numbers."""
    small = st.integers(0, 7)
    return st.lists(st.tuples(st.sampled_from(actions), small, small), min_size=30, max_size=80)


def every_read_is_right(engine: Callable[[], Runs], script: list[Action]) -> None:
    """The property, for a sound engine and for those with a planted fault alike."""
    engine().run(script)


def assert_found(planted: Callable[[], Runs], drawn: Scripts) -> None:
    """A planted fault is found, by itself and within a few hundred scripts."""

    @settings(max_examples=2000, derandomize=True, database=None, phases=[Phase.generate], deadline=None)
    @given(drawn)
    def look(script: list[Action]) -> None:
        every_read_is_right(planted, script)

    with pytest.raises(WrongBytesError):
        look()
