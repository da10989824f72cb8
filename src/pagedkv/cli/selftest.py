"""`pagedkv selftest`: does this installation work on this device? PASS or FAIL an item, in seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from pagedkv.cli.quantities import whole

if TYPE_CHECKING:
    from pagedkv.backends import Backend


def selftest(
    device: Annotated[
        str, typer.Option(metavar="auto|host|cuda:N", help="The device to test; auto is the first GPU, else the host.")
    ] = "auto",
    seed: Annotated[int, typer.Option(parser=whole, metavar="N", help="Seed of the random operations.")] = 42,
) -> None:
    """Test this installation on a device: bytes, bookkeeping and the simulator against known figures.

    Exit code: 0 if every item passes, 1 if one fails, 2 for a device that cannot be tested.
    """
    from pagedkv.arguments import whole_number
    from pagedkv.backends import open_backend
    from pagedkv.cli.selftest_outcome import CheckFailedError
    from pagedkv.errors import InvalidArgumentError, PagedKVError

    whole_number(seed, "--seed")
    name = _resolve(device)
    backend = open_backend(name)
    if not backend.has_bytes:
        raise InvalidArgumentError(f"device {device!r} has addresses only, there is nothing to test; use 'host'")
    _introduce(name, backend)
    failed = 0
    for title, item in _items(name, seed):
        try:
            found = item()
        except (CheckFailedError, PagedKVError) as error:
            failed += 1
            print(f"FAIL  {title}: {error}")
        else:
            print(f"PASS  {title}: {found}")
    print("FAIL: this installation does not work" if failed else "PASS: this installation works")
    if failed:
        raise typer.Exit(1)


def _resolve(device: str) -> str:
    """The device that "auto" means: a test should test the GPU where there is one."""
    if device != "auto":
        return device
    from pagedkv.backends.cuda import cuda_available

    return "cuda:0" if cuda_available() else "host"


def _introduce(name: str, backend: Backend) -> None:
    print(f"pagedkv selftest on {name}: {backend.device_name}")
    capability = getattr(backend, "compute_capability", None)  # a GPU has one
    if capability is None:
        return
    memory = backend.memory_info()
    print(f"      GPU: {backend.device_name}")
    print("      VRAM: " + ("unknown" if memory is None else f"{memory.total // 2**20:,} MB"))
    print(f"      compute capability: {capability[0]}.{capability[1]}")


def _items(device: str, seed: int) -> tuple[tuple[str, Callable[[], str]], ...]:
    from pagedkv.cli import selftest_blocks, selftest_items

    return (
        ("1 allocator", lambda: selftest_blocks.allocator_item(device)),
        ("2 page table", lambda: selftest_blocks.page_table_item(device)),
        ("3 base case, bytes verified, against its known figures", lambda: selftest_items.base_case_item(device)),
        ("fill and verify blocks", lambda: selftest_items.fill_item(device)),
        ("copy blocks", lambda: selftest_items.copy_item(device)),
        ("a planted wrong byte is found", lambda: selftest_items.planted_byte_item(device)),
        ("random operations", lambda: selftest_items.random_item(device, seed)),
    )
