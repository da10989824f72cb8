"""The terminal's dashboard shows texts as they are."""

from __future__ import annotations

import pytest

from pagedkv.report.model import Line, Report, Section, Table
from pagedkv.report.terminal import print_report


@pytest.mark.parametrize("name", ["[bold]steps.csv", "a[/x].csv", ":car:.csv"])
def test_names_that_look_like_markup_are_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    section = Section(f"1{name}", (Line(f"2{name}", f"3{name}", f"4{name}"),))
    table = Table(f"5{name}", (f"6{name}", "steps"), ((f"7{name}", f"8{name}"),))
    print_report(
        Report(
            title=f"9{name}", banner=(f"10{name}",), sections=(section,), notes=(f"11{name}",), outcome="PASS",
            closing=f"12{name}", tables=(table,),
        )
    )  # fmt: skip
    shown = capsys.readouterr().out
    assert [number for number in range(1, 13) if f"{number}{name}" not in shown] == []
