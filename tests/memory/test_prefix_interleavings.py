"""Sequences that take over blocks of others, on streams whose interleaving hypothesis chooses: every read is right.

That the property means something is tested too: it must find each planted fault, by itself and within a few hundred
scripts.
"""

from __future__ import annotations

import pytest
from hypothesis import given

from .engine import Action
from .prefix_engine import PREFIX_ACTIONS, PrefixEngine
from .prefix_faults import PREFIX_FAULTS
from .scripts import assert_found, every_read_is_right, scripts

SCRIPTS = scripts(PREFIX_ACTIONS)


@given(SCRIPTS)
def test_a_hit_reads_what_its_own_kernels_would_have_written(script: list[Action]) -> None:
    every_read_is_right(PrefixEngine, script)


@pytest.mark.parametrize("planted", PREFIX_FAULTS, ids=lambda planted: planted.__name__)
def test_a_planted_fault_is_found(planted: type[PrefixEngine]) -> None:
    assert_found(planted, SCRIPTS)
