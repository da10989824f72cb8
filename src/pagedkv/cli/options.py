"""Options of the commands in one line each: a whole number, a text, a flag."""

from __future__ import annotations

from typing import Any

import typer

from pagedkv.cli.quantities import whole


def whole_option(metavar: str, help: str) -> Any:
    """A whole number."""
    return typer.Option(parser=whole, metavar=metavar, help=help)


def text_option(metavar: str, help: str) -> Any:
    """A text as it is."""
    return typer.Option(metavar=metavar, help=help)


def flag_option(names: str, help: str) -> Any:
    """A switch, with its own names."""
    return typer.Option(names, help=help)
