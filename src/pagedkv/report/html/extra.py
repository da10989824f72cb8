"""The packages of the extra `report`: asked for before a run, so that their absence costs none."""

from __future__ import annotations

from importlib.util import find_spec

from pagedkv.errors import InvalidArgumentError

PACKAGES = ("jinja2", "plotly")


def require_packages() -> None:
    """Do nothing if an HTML report can be made. Errors: InvalidArgumentError that names the extra."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise InvalidArgumentError(
            f'an HTML report needs {" and ".join(missing)}, not installed here; pip install "pagedkv[report]"'
        )
