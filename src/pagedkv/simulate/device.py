"""Which device a simulation uses, and whether bytes are verified on it."""

from __future__ import annotations

from dataclasses import dataclass

from pagedkv.backends import open_backend
from pagedkv.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """device: the name to open the pool with; description: the device in words; reason: why it was chosen."""

    device: str
    description: str
    verify: bool
    reason: str


def choose_device(asked: str, verify: bool | None, *, verify_by_default: bool, pool_bytes: int) -> DeviceChoice:
    """Resolve "auto" and an open `verify` (None: whatever is usual and possible).

    auto is the host where bytes are verified and the null device where they are not. Verification that nobody asked
    for is left out on the null device and, with auto, for a pool of more than half the free memory. Errors:
    InvalidArgumentError for an unknown device or for verification on null, BackendError for a device that is not
    there. Modifies nothing.
    """
    if asked != "auto":
        return _choose_named(asked, verify, verify_by_default)
    host = open_backend("host")
    memory = host.memory_info()
    wanted = verify_by_default if verify is None else verify
    if wanted and verify is None and memory is not None and pool_bytes > memory.free // 2:
        return _null(f"the pool exceeds half of the free memory ({memory.free} bytes), so no bytes are verified")
    if wanted:
        return DeviceChoice("host", host.device_name, True, "auto: bytes are verified")
    return _null("auto: no bytes are needed")


def _choose_named(asked: str, verify: bool | None, verify_by_default: bool) -> DeviceChoice:
    backend = open_backend(asked)
    if backend.has_bytes:
        wanted = verify_by_default if verify is None else verify
        return DeviceChoice(asked, backend.device_name, wanted, "as asked")
    if verify:
        raise InvalidArgumentError(f"verification needs bytes, and {asked!r} has addresses only; use device 'host'")
    return _null("as asked")


def _null(reason: str) -> DeviceChoice:
    return DeviceChoice("null", open_backend("null").device_name, False, reason)
