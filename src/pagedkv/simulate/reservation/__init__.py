"""Contiguous reservation, what came before paging: same requests, same steps, same pool.

lengths (how much is reserved) + placement: counting, first_fit, buddy (where) -> systems -> scheduler -> shares
side_by_side runs them all beside a paged run.
"""

from __future__ import annotations

from pagedkv.simulate.reservation.side_by_side import SideBySide, SystemResult, paged_system
from pagedkv.simulate.reservation.systems import ALL_SYSTEMS, ContiguousSystem

__all__ = ["ALL_SYSTEMS", "ContiguousSystem", "SideBySide", "SystemResult", "paged_system"]
