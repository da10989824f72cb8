"""Many rows of pagedkv's own traces at once give what single lines give, whatever the rows hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagedkv.simulate.traces import own, source

from .test_trace_reading import outcome

TIMES = st.sampled_from(
    ["0", "3", "3.5", "10.0001", "10.00001", "99999999999.9999", "7e0", "-1", "-0.0", '"3"', "true", "null", "NaN"]
    + ["562949953421311", "562949953421312", "123456789012.5", "9" * 30, "0.99999"]
)
NAMES = st.sampled_from(["0", "1", "7", '"7"', '"a{b}"', '"é"', "null", "true", "1.5", "[1]", "1" * 25])
COUNTS = st.sampled_from(["1", "8", "9", "12", "40", "0", "-2", "2147483647", "2147483648", "8.0", "null", "1" * 20])
FIELDS = {
    "session": NAMES,
    "prefix": NAMES,
    "prefix_tokens": COUNTS,
    "hash_ids": st.sampled_from(
        ["[]", "[1]", "[1, 2]", "[2, 99999999999999999999]", "[-1]", "[true]", "5", "[0, 1, 2]"]
    ),
    "more": st.sampled_from(["{}", "[{}]", '"}"', '"x, {"', "Infinity", "-1.5e3"]),
}
LINES = [
    "",
    " ",
    "[]",
    "{",
    "}",
    '{"a": [1',
    "2]}",
    '{"prompt_tokens": 1, "output_tokens": 1}, {"x": 1}',
    "{}",
    "\r",
]


@st.composite
def own_rows(draw: st.DrawFn, ids: bool) -> list[str]:
    """Rows of which most can be used, and a few that nobody can."""
    rows: list[str] = []
    timed = draw(st.booleans())
    for place in range(draw(st.integers(1, 12))):
        odd = draw(st.integers(0, 9))
        if odd == 0:
            rows.append(draw(st.sampled_from(LINES)))
            continue
        time = draw(TIMES) if odd == 1 else draw(st.sampled_from([f"{place}", f"{place}.25"]))
        fields = {"arrival_ms": time} if timed != (odd == 2) else {}
        fields["prompt_tokens"] = draw(COUNTS) if odd == 3 else str(8 + 8 * place)
        fields["output_tokens"] = draw(COUNTS) if odd == 4 else str(1 + place % 3)
        if ids:
            fields["hash_ids"] = str([place // 2 * j for j in range(2 + 2 * place)])
        elif draw(st.booleans()):
            fields["session"] = draw(st.sampled_from(["1", "2", '"2"']))
        elif draw(st.booleans()):
            fields |= {
                "prefix": draw(st.sampled_from(["1", '"sys"'])),
                "prefix_tokens": draw(st.sampled_from(["1", "8"])),
            }
        if odd in (5, 6):
            name = draw(st.sampled_from(sorted(FIELDS)))
            fields[name] = draw(FIELDS[name])
        rows.append("{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}")
    return rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), ids=st.booleans(), strict=st.booleans(), crlf=st.booleans(), chunk=st.integers(1, 400))
def test_columns_of_our_own_rows_are_what_single_lines_give(
    tmp_path: Path, data: st.DataObject, ids: bool, strict: bool, crlf: bool, chunk: int
) -> None:
    file = tmp_path / "trace"
    header = '{"pagedkv_trace": 1, "tokens_per_id": 4}' if ids else '{"pagedkv_trace": 1}'
    rows = [header, *data.draw(own_rows(ids))]
    file.write_bytes((("\r\n" if crlf else "\n").join(rows) + "\n").encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "CHUNK", chunk)  # the chunk of the header is read line by line
        patch.setattr(own._Reader, "_read_plain", lambda *_: False)
        fast = outcome(file, strict=strict)
        patch.setattr(own._Reader, "_read_columns", lambda *_: False)
        assert outcome(file, strict=strict) == fast


def test_columns_take_what_they_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "trace"
    rows = [
        {"arrival_ms": place + 0.5, "prompt_tokens": 9 + place, "output_tokens": 1, "session": place % 7}
        for place in range(99)
    ]
    file.write_text("\n".join(map(json.dumps, [{"pagedkv_trace": 1}, *rows])) + "\n")
    monkeypatch.setattr(source, "CHUNK", 300)
    whole = outcome(file, strict=True)
    lines: list[int] = []
    single = own._Reader._read_row

    def counted(reader: own._Reader, row: int, fields: dict[str, object]) -> None:
        lines.append(row)
        single(reader, row, fields)

    monkeypatch.setattr(own._Reader, "_read_row", counted)
    assert outcome(file, strict=True) == whole
    assert lines == [2, 3, 4]  # beside the header; all others as columns
