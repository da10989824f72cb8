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
from .prefix_rules import PrefixRules
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


class PrefixMachine(PrefixRules, GrowthRules, CursorRules):
    """Prompts that begin alike: hits, copies of one content, evictions, contents that go with what they lie below."""


class PrefixConstantHashMachine(PrefixMachine):
    """The same where a hash tells nothing: only what is compared does."""

    constant_hash = True


class PrefixSharingMachine(PrefixRules, GrowthRules, CursorRules, ForkRules, PinRules):
    """Findable blocks that forks, beams and pins hold: who publishes, who copies, who may write."""


TestEngine = EngineMachine.TestCase
TestSharing = SharingMachine.TestCase
TestBeams = BeamMachine.TestCase
TestBeamSharing = BeamSharingMachine.TestCase
TestExports = ExportMachine.TestCase
TestRefusals = RefusalMachine.TestCase
TestPrefix = PrefixMachine.TestCase
TestPrefixConstantHash = PrefixConstantHashMachine.TestCase
TestPrefixSharing = PrefixSharingMachine.TestCase
