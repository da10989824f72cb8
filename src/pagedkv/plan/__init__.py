"""Capacity of a model on a GPU by arithmetic alone: what is left for keys and values, and what fits there.

catalog (GPUs and models by name; catalog_file reads them) -> weights, kinds (bytes a token) -> planner -> sequences
"""

from __future__ import annotations

from pagedkv.plan.catalog import Catalog, Gpu, Model, read_catalog
from pagedkv.plan.planner import Demand, Plan, make_plan
from pagedkv.plan.weights import Weights, weights_of

__all__ = ["Catalog", "Demand", "Gpu", "Model", "Plan", "Weights", "make_plan", "read_catalog", "weights_of"]
