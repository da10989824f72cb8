"""Lists of lengths: a prompt and an output a row, as three families of projects name them; most have no times."""

from __future__ import annotations

from pagedkv.simulate.traces.cells import seconds, seconds_of
from pagedkv.simulate.traces.delimited import DelimitedFormat, TimeColumn

PREFILL_DECODE = DelimitedFormat("prefill-decode-csv", "num_prefill_tokens", "num_decode_tokens")
INPUT_OUTPUT = DelimitedFormat(
    "input-output-csv", "input_len", "output_len", TimeColumn("arrival_s", seconds, seconds_of, optional=True)
)
TOKS = DelimitedFormat("toks-tsv", "input_toks", "output_toks")
