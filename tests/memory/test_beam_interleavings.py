"""Sequences that share blocks, on streams whose interleaving hypothesis chooses: every read gives their own bytes.

That the property means something is tested too: it must find each planted fault, by itself and within a few hundred
scripts.
"""

from __future__ import annotations

import pytest
from hypothesis import given

from .beam_engine import BEAM_ACTIONS, BeamEngine
from .beam_faults import BEAM_FAULTS, LayerMajorBeams
from .engine import Action
from .scripts import assert_found, every_read_is_right, scripts

SCRIPTS = scripts(BEAM_ACTIONS)


@given(SCRIPTS)
def test_every_sequence_reads_its_own_tokens(script: list[Action]) -> None:
    every_read_is_right(BeamEngine, script)


@given(SCRIPTS)
def test_every_sequence_reads_its_own_tokens_layer_by_layer(script: list[Action]) -> None:
    every_read_is_right(LayerMajorBeams, script)


@pytest.mark.parametrize("planted", BEAM_FAULTS, ids=lambda planted: planted.__name__)
def test_a_planted_fault_is_found(planted: type[BeamEngine]) -> None:
    assert_found(planted, SCRIPTS)
