"""Many rows of pagedkv's own traces at once give what single lines give, whatever the rows hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagedkv.simulate.traces import own, source

from .test_trace_reading import outcome

CHUNK = 1500
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
def own_rows(draw: st.DrawFn, ids: bool, timed: bool) -> list[str]:
    """Rows of which most can be used, and a few that nobody can."""
    rows: list[str] = []
    for place in range(draw(st.integers(1, 12))):
        odd = draw(st.integers(0, 30))
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


def both_ways(file: Path, rows: list[str], *, ids: bool, strict: bool, end: str = "\n") -> tuple[object, object]:
    """What columns and what single lines give. The first row, before which nothing is decided, ends the first chunk."""
    header = '{"pagedkv_trace": 1, "tokens_per_id": 4}' if ids else '{"pagedkv_trace": 1}'
    rows = [rows[0].replace("PAD", "x" * (CHUNK + 3 - len(header) - len(rows[0]) - 2 * len(end))), *rows[1:]]
    file.write_bytes((end.join([header, *rows]) + end).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own._Reader, "_read_plain", lambda *_: False)
        fast = outcome(file, strict=strict)
        patch.setattr(own._Reader, "_read_columns", lambda *_: False)
        return fast, outcome(file, strict=strict)


def first_row(*, timed: bool, ids: bool) -> str:
    time, known = '"arrival_ms": 0, ' if timed else "", ', "hash_ids": [3, 1]' if ids else ""
    return f'{{{time}"prompt_tokens": 8, "output_tokens": 1{known}, "more": "PAD"}}'


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    ids=st.booleans(),
    timed=st.booleans(),
    strict=st.booleans(),
    end=st.sampled_from(["\n", "\r\n"]),
    chunk=st.sampled_from([1, 200, CHUNK, CHUNK]),
)
def test_columns_are_what_single_lines_give(
    tmp_path: Path, data: st.DataObject, ids: bool, timed: bool, strict: bool, end: str, chunk: int
) -> None:
    rows = [first_row(timed=timed, ids=ids), *data.draw(own_rows(ids, timed))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "CHUNK", chunk)
        fast, single = both_ways(tmp_path / "trace", rows, ids=ids, strict=strict, end=end)
    assert fast == single


def row(time: str = "5", prompt: int = 9, more: str = "") -> str:
    return f'{{"arrival_ms": {time}, "prompt_tokens": {prompt}, "output_tokens": 1{more}}}'


PREFIX = ', "prefix": 1, "prefix_tokens": '


@pytest.mark.parametrize(
    "rows",
    [
        [row()[:-1] + ', "x": [{"y": 1}', '{"y": 2}]}', f"{row()},{row()}"],  # three objects, in other lines
        [row()[:-1], '"x": 1}', f"{row()},{row()}"],
        [row("3.00019"), row("4.0001"), row("4.00019999999999999999")],  # rounded down to a tick
        [row("0.29"), row("1.1503"), row("99999999999.9999")],  # whose product is not exact
        [row("0", 9, ', "session": true'), row("0", 10, ', "session": 1')],
        [row(), row("6", 12), row("7", 14, ', "session": 1'), row("8", 16), row("9", 18, ', "session": 1')],
        [row("6", 12, ', "session": 1'), row("5", 16, ', "session": 1'), row("7", 30, ', "session": 1')],
        [row("6", 12, ', "session": 1'), row("7", 12, ', "session": 1'), row("7", 13, ', "session": 1')],
        [row("6", 12, f', "session": 1{PREFIX}4'), row("7", 13, f', "session": 1{PREFIX}5'), row(more=f"{PREFIX}9")],
        [row(more=f"{PREFIX}10"), row(more=f"{PREFIX}0"), row(more=f"{PREFIX}1.0")],
        [row(), row(more=', "hash_ids": [1, 2, 3]'), row(more=', "hash_ids": null')],
        [row(prompt=2**31), row(prompt=2**31 - 1), row(prompt=2**64)],
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_rows_that_columns_could_get_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[str], strict: bool
) -> None:
    monkeypatch.setattr(source, "CHUNK", CHUNK)
    some = [first_row(timed=True, ids=False), *rows, row("10", 50, ', "session": 1')]
    fast, single = both_ways(tmp_path / "trace", some, ids=False, strict=strict)
    assert fast == single


@pytest.mark.parametrize("known", ["[1, -2, 5]", "[1, 2]", "[1, true, 2]", f"[1, {2**63}, 2]", "[[1], 2, 3]", "7"])
def test_ids_that_columns_could_get_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: str) -> None:
    monkeypatch.setattr(source, "CHUNK", CHUNK)
    rows = [row(more=f', "hash_ids": {ids}') for ids in ("[1, 2, 9]", known, "[5, 9, 1]")]
    fast, single = both_ways(tmp_path / "trace", [first_row(timed=True, ids=True), *rows], ids=True, strict=False)
    assert fast == single


def test_columns_take_what_they_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "trace"
    rows = [
        {"arrival_ms": place + 0.5, "prompt_tokens": 9 + place, "output_tokens": 1, "session": place // 2 % 3}
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
    monkeypatch.setattr(own._Reader, "_read_columns", lambda *_: False)
    assert outcome(file, strict=True) == whole
    assert lines[3:] == list(range(2, 101))
