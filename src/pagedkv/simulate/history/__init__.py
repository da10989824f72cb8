"""What a run looked like over its steps, in bounded memory: recorded while it runs, plain data at its end.

series (buckets) <- step_series; block_map (who owns which block); sequences (when which request ran) -> recorder
foresight (how many steps there will be at least) -> setup (the recorder of a run)
Everything is thinned by doubling: when a limit is passed, two neighbors become one, or every second is dropped.
"""

from __future__ import annotations

from pagedkv.simulate.history.recorder import LIMITS, History, HistoryRecorder, Limits
from pagedkv.simulate.history.setup import history_recorder

__all__ = ["LIMITS", "History", "HistoryRecorder", "Limits", "history_recorder"]
