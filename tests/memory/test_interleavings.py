"""Interleavings of host streams chosen by hypothesis: every read gives the bytes of the program order.

That the property means something is tested too: it must find each planted fault, by itself and within a few hundred
scripts.
"""

from __future__ import annotations

import pytest
from hypothesis import given

from .engine import ACTIONS, Action, Engine
from .planted_faults import PLANTED
from .scripts import assert_found, every_read_is_right, scripts

SCRIPTS = scripts(ACTIONS)


@given(SCRIPTS)
def test_every_read_gives_the_bytes_of_the_program_order(script: list[Action]) -> None:
    every_read_is_right(Engine, script)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.__name__)
def test_a_planted_fault_is_found(planted: type[Engine]) -> None:
    assert_found(planted, SCRIPTS)
