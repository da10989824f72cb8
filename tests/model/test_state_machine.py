"""The manager against its reference model, over every operation, with everything compared after each one.

Several machines instead of one: a run is some dozens of steps, and with every rule in one machine few runs would
get as far as an eviction or a copy.
"""

from __future__ import annotations

from .cursor_rules import CursorRules
from .export_rules import ExportRules
from .fork_rules import ForkRules
from .growth_rules import GrowthRules
from .pin_rules import PinRules
from .refusal_rules import RefusalRules


class EngineMachine(GrowthRules, CursorRules):
    """What an engine does: admit, grow, commit, reject, preempt, finish, retire."""


class SharingMachine(GrowthRules, CursorRules, PinRules):
    """The same while others hold, publish and revive blocks: copies, evictions, blocks that outlive sequences."""


class BeamMachine(GrowthRules, CursorRules, ForkRules):
    """Sequences that share blocks with each other: copies by batches, reorders after copies, forks of forks."""


class BeamSharingMachine(GrowthRules, CursorRules, ForkRules, PinRules):
    """The same with holders that are no sequences: pins on shared blocks, published ones that a group writes over."""


class ExportMachine(GrowthRules, CursorRules, ExportRules):
    """The arrays for kernels, at any moment of an engine's life."""


class RefusalMachine(GrowthRules, RefusalRules):
    """Calls that can never be right, at any moment."""


TestEngine = EngineMachine.TestCase
TestSharing = SharingMachine.TestCase
TestBeams = BeamMachine.TestCase
TestBeamSharing = BeamSharingMachine.TestCase
TestExports = ExportMachine.TestCase
TestRefusals = RefusalMachine.TestCase
