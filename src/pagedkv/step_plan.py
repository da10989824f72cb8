"""What one batched call decided. Bookkeeping decides, a pool carries out."""

from __future__ import annotations

from pagedkv._core import Admission, CsrTables, StepPlan

__all__ = ["Admission", "CsrTables", "StepPlan"]
