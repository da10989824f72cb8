"""The text of a document: what json reads back is the document, and rows of numbers take one line each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv.report.json_text import json_text

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(value=_VALUES)
def test_the_text_reads_back(value: Any) -> None:
    assert json.loads(json_text(value)) == value


def test_rows_of_numbers_take_one_line_and_the_rest_a_line_an_item() -> None:
    document = {
        "notes": ["one", "two"],
        "none": [],
        "nothing": {},
        "steps": [1, 2.5, None],
        "segments": [[0, 1, 2, "completed"], [1, 0, 5, "stopped"]],
        "cells": ((1, -1), (2, -4)),
    }
    assert json_text(document).splitlines() == [
        "{",
        '  "notes": [',
        '    "one",',
        '    "two"',
        "  ],",
        '  "none": [],',
        '  "nothing": {},',
        '  "steps": [1, 2.5, null],',
        '  "segments": [',
        '    [0, 1, 2, "completed"],',
        '    [1, 0, 5, "stopped"]',
        "  ],",
        '  "cells": [',
        "    [1, -1],",
        "    [2, -4]",
        "  ]",
        "}",
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1, float("-inf")], {"a": {"b": [[float("nan")]]}}])
def test_what_is_no_json_is_an_error(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text(value)
