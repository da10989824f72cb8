"""Carries out `pagedkv plan`: simulates where there is a trace, and makes the JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pagedkv.cli.plan_setup import PlanSetup
from pagedkv.cli.simulation_run import run_document
from pagedkv.model_config import read_shape
from pagedkv.plan import Gpu, Plan
from pagedkv.report.document import SCHEMA, Document, versions

_OF_THE_RUN = ("outcome", "config", "figures", "rejections", "trace", "history", "time", "failures", "notes")


def run_plan(setup: PlanSetup, *, show_progress: bool, history: bool = False) -> Document:
    """Simulate the trace, if there is one, and return the document, with the run's history if asked for. Ctrl-C ends
    the run after its step.
    """
    simulated = None
    if setup.simulation is not None:
        run = run_document(setup.simulation, show_progress=show_progress, history=history)
        simulated = {key: run[key] for key in _OF_THE_RUN}
    return {
        "schema": SCHEMA,
        "command": "plan",
        "outcome": "PASS" if simulated is None else simulated["outcome"],
        "versions": versions(),
        "config": asdict(setup.options),
        "gpu": _gpu(setup.gpu),
        "model": _model(setup),
        "memory": _memory(setup.plan),
        "kv": _kv(setup.plan),
        "pool": _pool(setup.plan),
        "sequences": [asdict(setup.plan.fit(length)) for length in setup.lengths],
        "simulation": simulated,
        "failures": [] if simulated is None else simulated["failures"],
        "notes": _notes(setup),
    }


def _gpu(gpu: Gpu) -> dict[str, Any]:
    return {
        "name": gpu.name or None,
        "memory_bytes": gpu.memory_bytes,
        "memory_source": gpu.memory_source,
        "bandwidth_bytes_per_second": gpu.bandwidth,
        "bandwidth_source": gpu.bandwidth_source,
        "flops_16bit_per_second": gpu.flops,
        "compute_source": gpu.compute_source,
    }


def _model(setup: PlanSetup) -> dict[str, Any]:
    model, weights = setup.plan.demand.model, setup.plan.demand.weights
    return {
        "name": model.name,
        "source": model.source,
        "parameters": weights.parameters if weights.parameters is not None else model.parameters,
        "weights_bytes": weights.total_bytes,
        "weights_dtype": weights.dtype,
        "weights_source": weights.source,
        "longest_sequence": setup.longest,
    }


def _memory(plan: Plan) -> dict[str, Any]:
    demand = plan.demand
    return {
        "gpus": demand.tensor_parallel,
        "gpu_bytes": demand.gpu_bytes,
        "utilization": float(demand.utilization),
        "usable_bytes": plan.usable_bytes,
        "weights_bytes": plan.weights_bytes,
        "reserve_bytes": demand.reserve_bytes,
        "kv_bytes": plan.kv_bytes,
        "kept_out_bytes": demand.gpu_bytes - plan.usable_bytes,
    }


def _kv(plan: Plan) -> dict[str, Any]:
    layout = plan.layout
    return {
        "dtype": layout.dtype,
        "scales": layout.scales,
        "layers": layout.num_layers,
        "kv_heads": plan.kv_heads,
        "kv_heads_per_gpu": layout.num_kv_heads,
        "copies_of_a_head": plan.head_copies,
        "head_dim": layout.head_dim,
        "v_head_dim": layout.v_head_dim,
        "token_bytes": layout.token_bytes,
        "token_bytes_of_all_gpus": layout.token_bytes * plan.demand.tensor_parallel,
        "kinds": [asdict(kind) for kind in plan.kinds],
    }


def _pool(plan: Plan) -> dict[str, Any]:
    layout = plan.layout
    return {
        "block_size": layout.block_size,
        "block_bytes": layout.block_bytes,
        "blocks": plan.blocks,
        "bytes": layout.pool_bytes(plan.blocks),
        "tokens": plan.blocks * layout.block_size,
    }


def _notes(setup: PlanSetup) -> list[str]:
    plan, options = setup.plan, setup.options
    notes = []
    if not plan.demand.reserve_bytes:
        notes.append(
            "nothing is reserved: activations, CUDA graphs and the framework must fit beside the share that is used; "
            "--reserve SIZE keeps more"
        )
    if plan.demand.tensor_parallel > 1:
        notes.append("weights are divided evenly; what every GPU keeps whole (norms, repeated heads) needs a --reserve")
    if sliding := read_shape(plan.demand.model.config).sliding_layers:
        notes.append(f"{sliding} layers have a sliding window; pagedkv stores them as full attention")
    if (longest := setup.longest) is not None and any(length > longest for length in setup.lengths):
        notes.append(f"the model is made for {longest:,} tokens at most")
    if setup.simulation is not None and options.step_ms is None and options.step_time is None:
        notes.append(
            "all requests of the trace are there at step 0, so the pool is as full as it gets; --step-ms MS replays "
            "their times"
        )
    return notes if setup.simulation is None else [*notes, *setup.simulation.notes]
