"""A model that a command names: a config.json, its folder, or an entry of the catalog."""

from __future__ import annotations

from pathlib import Path

from pagedkv.cli.files import exists
from pagedkv.model_config import read_config
from pagedkv.plan import Catalog, Model


def find_model(text: str, catalog: Catalog) -> Model:
    """Return the model; a file or folder of this machine first: a name is never taken for what lies there.

    Errors: InvalidArgumentError for a config that makes no sense and a name that is not known.
    """
    if exists(text) or text.endswith(".json"):
        path = Path(text)
        name = path.parent.name if path.name == "config.json" else path.name.removesuffix(".json")
        return Model(name or path.resolve().parent.name, read_config(text), text)
    return catalog.model(text)
