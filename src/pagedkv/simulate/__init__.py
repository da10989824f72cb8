"""The simulator: request loads over the real manager with a virtual clock.

workload, traces, synthetic -> arrivals -> scheduler (drives the manager) -> measure -> figures, contiguous comparison
groups (what a request is), beams -> admission -> scheduler -> sharing (what forks save)
reservation: contiguous systems over the same steps -> sosp23_figure2, the paper's comparison
traces -> identities (what prompts hold) -> prompt_tokens -> prefix_reuse -> scheduler; cache_replay, the cache alone
traces, synthetic -> conversations (sessions, shared prefixes) -> conversation_tokens -> prefix_reuse
"""

from __future__ import annotations

from pagedkv.simulate.cache_replay import CacheReplay, CacheReplayResult
from pagedkv.simulate.conversations import Conversations
from pagedkv.simulate.device import DeviceChoice, choose_device
from pagedkv.simulate.distributions import Lengths, Lognormal, Uniform
from pagedkv.simulate.groups import Groups
from pagedkv.simulate.identities import PromptIdentities, join_identities
from pagedkv.simulate.simulator import Load, PoolSpec, Simulation, SimulationResult
from pagedkv.simulate.synthetic import SyntheticLoad, Turns
from pagedkv.simulate.traces import Trace, read_trace
from pagedkv.simulate.traces.writing import write_trace
from pagedkv.simulate.workload import Workload, base_case, base_case_requests

__all__ = [
    "CacheReplay",
    "CacheReplayResult",
    "Conversations",
    "DeviceChoice",
    "Groups",
    "Lengths",
    "Load",
    "Lognormal",
    "PoolSpec",
    "PromptIdentities",
    "Simulation",
    "SimulationResult",
    "SyntheticLoad",
    "Trace",
    "Turns",
    "Uniform",
    "Workload",
    "base_case",
    "base_case_requests",
    "choose_device",
    "join_identities",
    "read_trace",
    "write_trace",
]
