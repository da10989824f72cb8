"""Interleavings of host streams chosen by hypothesis: every read gives the bytes of the program order.

That the property means something is tested too: it must find each planted fault, by itself and within a few hundred
scripts.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from .engine import ACTIONS, Action, Engine, WrongBytesError
from .planted_faults import PLANTED

SMALL = st.integers(0, 7)
SCRIPTS = st.lists(st.tuples(st.sampled_from(ACTIONS), SMALL, SMALL), min_size=30, max_size=80)


def every_read_is_right(engine: Callable[[], Engine], script: list[Action]) -> None:
    """The property, for a sound engine and for those with a planted fault alike."""
    engine().run(script)


@given(SCRIPTS)
def test_every_read_gives_the_bytes_of_the_program_order(script: list[Action]) -> None:
    every_read_is_right(Engine, script)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.__name__)
def test_a_planted_fault_is_found(planted: type[Engine]) -> None:
    @settings(max_examples=2000, derandomize=True, database=None, phases=[Phase.generate], deadline=None)
    @given(SCRIPTS)
    def look(script: list[Action]) -> None:
        every_read_is_right(planted, script)

    with pytest.raises(WrongBytesError):
        look()
