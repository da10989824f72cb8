"""BurstGPT (CC-BY 4.0): CSV with Timestamp (seconds from midnight of day 1), Request tokens, Response tokens.

Version 2 has `Session ID` and `Elapsed time` behind the time; columns are found by name, so both are the same format.
Failed calls are rows without response tokens.
"""

from __future__ import annotations

from pagedkv.simulate.traces.cells import seconds, seconds_of
from pagedkv.simulate.traces.delimited import DelimitedFormat, TimeColumn

BURSTGPT = DelimitedFormat(
    "burstgpt-csv", "Request tokens", "Response tokens", TimeColumn("Timestamp", seconds, seconds_of)
)
