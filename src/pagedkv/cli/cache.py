"""`pagedkv cache`: the compiled kernels on disk."""

from __future__ import annotations

from typing import Annotated

import typer


def cache(
    action: Annotated[str | None, typer.Argument(metavar="[clear]", help="clear: remove all compiled kernels.")] = None,
) -> None:
    """Show where compiled kernels are kept and their size, or clear them; they are compiled again when needed."""
    from pagedkv.errors import InvalidArgumentError
    from pagedkv.kernels.cubin_cache import cache_path, cache_size, clear_cache

    if action not in (None, "clear"):
        raise InvalidArgumentError(
            f"'pagedkv cache {action}' is unknown; give 'clear', or nothing to see path and size"
        )
    if action == "clear":
        print(f"removed {clear_cache():,} bytes from {cache_path()}")
    else:
        print(f"path: {cache_path()}\nsize: {cache_size():,} bytes")
