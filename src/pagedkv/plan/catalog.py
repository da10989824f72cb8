"""GPUs and models by name: the built-in table, and files of a user's in the same form.

Names are compared without regard to letter case; of "owner/name" the name counts. A later entry replaces an earlier one
of the same name, so a user's file can correct a figure of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from os import PathLike
from typing import Any

from pagedkv.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. memory_bytes: the total that its driver reports, bytes; every figure has its source in words.

    bandwidth: bytes/s of its memory; flops: dense FP16 or BF16 operations/s with tensor cores; None: not known.
    """

    name: str
    memory_bytes: int
    memory_source: str
    bandwidth: float | None = None
    bandwidth_source: str | None = None
    flops: float | None = None
    compute_source: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """One model. config: the content of its config.json; parameters: how many it has, None: not told.

    source: where the config comes from, parameters_source: where the count does.
    """

    name: str
    config: Mapping[str, Any]
    source: str
    parameters: int | None = None
    parameters_source: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(slots=True)
class Catalog:
    """What is known by name. `add` puts an entry in the place of those with its names."""

    gpus: dict[str, Gpu] = field(default_factory=dict)
    models: dict[str, Model] = field(default_factory=dict)

    def add(self, entry: Gpu | Model) -> None:
        """Know an entry by its name and aliases."""
        for name in (entry.name, *entry.aliases):
            if isinstance(entry, Gpu):
                self.gpus[_key(name)] = entry
            else:
                self.models[_key(name)] = entry

    def gpu(self, name: str) -> Gpu:
        """Return a GPU by name. Raises InvalidArgumentError, which lists the names."""
        if (found := self.gpus.get(_key(name))) is None:
            raise InvalidArgumentError(
                f"GPU {name[:80]!r} is unknown; known are {_names(self.gpus)}; for another give --gpu-memory SIZE, or "
                "describe it in a file for --catalog"
            )
        return found

    def model(self, name: str) -> Model:
        """Return a model by name. Raises InvalidArgumentError, which lists the names."""
        if (found := self.models.get(_key(name))) is None:
            raise InvalidArgumentError(
                f"model {name[:80]!r} is unknown; give the path of its config.json or of the folder with it (nothing "
                f"is downloaded), or one of {_names(self.models)}, or describe it in a file for --catalog"
            )
        return found


def read_catalog(*files: str | PathLike[str]) -> Catalog:
    """Return the built-in table, then the entries of these files (TOML, or JSON by their suffix), in order.

    Raises InvalidArgumentError for a file that cannot be read and for an entry that makes no sense.
    """
    from pagedkv.plan.catalog_file import read_entries

    catalog = Catalog()
    with resources.as_file(resources.files("pagedkv.plan") / "catalog.toml") as built_in:
        for file in (built_in, *files):
            for entry in read_entries(file):
                catalog.add(entry)
    return catalog


def _key(name: str) -> str:
    bare = name.strip().casefold()
    return bare.rpartition("/")[2] or bare


def _names(entries: Mapping[str, Gpu] | Mapping[str, Model]) -> str:
    return ", ".join(dict.fromkeys(entry.name for entry in entries.values()))
