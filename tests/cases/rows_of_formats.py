"""The same requests in every format that the simulator reads."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pagedkv.simulate import Trace

# Times in milliseconds, prompt, output; None: the field is missing.
Row = tuple[int, int | None, int | None]

COLUMNS = {
    "azure-csv": ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    "burstgpt-csv": ("Timestamp", "Request tokens", "Response tokens"),
    "prefill-decode-csv": (None, "num_prefill_tokens", "num_decode_tokens"),
    "input-output-csv": ("arrival_s", "input_len", "output_len"),
    "toks-tsv": (None, "input_toks", "output_toks"),
    "mooncake-jsonl": ("timestamp", "input_length", "output_length"),
    "pagedkv-jsonl": ("arrival_ms", "prompt_tokens", "output_tokens"),
    "kv-cache-tester": ("t", "in", "out"),
}
TIMED = [name for name, columns in COLUMNS.items() if columns[0]]


def content(form: str, rows: Sequence[Row | None]) -> bytes:
    """Return a file of these rows; None: a blank line."""
    if form == "kv-cache-tester":
        requests = [_object(form, row) for row in rows if row is not None]
        return json.dumps({"id": "s", "block_size": 64, "hash_id_scope": "local", "requests": requests}).encode()
    if form in ("mooncake-jsonl", "pagedkv-jsonl"):
        return "".join("\n" if row is None else json.dumps(_object(form, row)) + "\n" for row in rows).encode()
    mark = "\t" if form == "toks-tsv" else ","
    header = mark.join(name for name in COLUMNS[form] if name)
    return "\r\n".join([header, *("" if row is None else mark.join(_cells(form, row)) for row in rows)]).encode()


def requests(trace: Trace) -> list[tuple[int, int, int]]:
    """Return (ticks, prompt, output) of every request; ticks 0 without times."""
    load = trace.workload
    ticks = [0] * len(load) if load.arrival_ticks is None else load.arrival_ticks.tolist()
    return list(zip(ticks, load.prompt_tokens.tolist(), load.output_tokens.tolist(), strict=True))


def _cells(form: str, row: Row) -> list[str]:
    time, prompt, output = row
    counts = ["" if count is None else str(count) for count in (prompt, output)]
    if form == "azure-csv":
        return [f"2023-11-16 18:{time // 60_000:02}:{time // 1000 % 60:02}.{time % 1000:03}0000", *counts]
    return counts if COLUMNS[form][0] is None else [f"{time / 1000:.3f}", *counts]


def _object(form: str, row: Row) -> dict[str, object]:
    time, prompt, output = row
    names = COLUMNS[form]
    values = (time / 1000 if form == "kv-cache-tester" else time, prompt, output)
    fields: dict[str, object] = {
        str(name): value for name, value in zip(names, values, strict=True) if value is not None
    }
    if form == "mooncake-jsonl":
        fields["hash_ids"] = list(range(-(-max(prompt or 0, 0) // 512)))
    if form == "kv-cache-tester":
        fields["hash_ids"] = list(range(max(prompt or 0, 0) // 64))
    return fields
