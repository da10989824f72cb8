"""Sequences that take over blocks of others, on streams whose interleaving hypothesis chooses: every read is right.

That the property means something is tested too: it must find each planted fault, by itself and within a few hundred
scripts.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from .engine import Action, WrongBytesError
from .prefix_engine import PREFIX_ACTIONS, PrefixEngine
from .prefix_faults import PREFIX_FAULTS

SMALL = st.integers(0, 7)
SCRIPTS = st.lists(st.tuples(st.sampled_from(PREFIX_ACTIONS), SMALL, SMALL), min_size=30, max_size=80)


def every_read_is_right(engine: Callable[[], PrefixEngine], script: list[Action]) -> None:
    """The property, for a sound engine and for those with a planted fault alike."""
    engine().run(script)


@given(SCRIPTS)
def test_a_hit_reads_what_its_own_kernels_would_have_written(script: list[Action]) -> None:
    every_read_is_right(PrefixEngine, script)


@pytest.mark.parametrize("planted", PREFIX_FAULTS, ids=lambda planted: planted.__name__)
def test_a_planted_fault_is_found(planted: type[PrefixEngine]) -> None:
    @settings(max_examples=2000, derandomize=True, database=None, phases=[Phase.generate], deadline=None)
    @given(SCRIPTS)
    def look(script: list[Action]) -> None:
        every_read_is_right(planted, script)

    with pytest.raises(WrongBytesError):
        look()
