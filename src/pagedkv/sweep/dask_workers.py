"""Workers of a Dask cluster (package `distributed`): the scheduler runs again what a lost worker had.

Whoever reaches a scheduler runs code on its workers, since tasks travel as pickles. So only loopback addresses and TLS
are taken; certificates come from Dask's own configuration (`distributed.comm.tls`).
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.sweep.workers import Verdict, judge_loss

TIMEOUT = 15  # seconds to the first answer of a scheduler
ASK_EVERY = 2.0  # seconds


class DaskWorkers:
    """A cluster's workers, by the address of its scheduler.

    Errors: InvalidArgumentError for an address that is neither loopback nor TLS, or without `distributed`; BackendError
    for a scheduler that does not answer.
    """

    def __init__(self, address: str) -> None:
        check_address(address)
        self._killed, self._client = _connect(address)
        # pure: equal jobs of two sweeps are apart, so that one which ends does not cancel the other's.
        self._executor = self._client.get_executor(pure=False)
        self._threads = 0
        self._ask_at = 0.0

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        if self._client.status != "running":
            raise BrokenExecutor("the connection to the scheduler is lost")
        future: Future[Any] = self._executor.submit(function, *arguments)
        return future

    def room(self) -> int:
        # Asked again and again, since workers come and go. Two a thread: while one runs, the next is on its way.
        if (now := time.monotonic()) >= self._ask_at and self._client.status == "running":
            self._ask_at = now + ASK_EVERY
            with suppress(OSError):  # a scheduler that is gone: what is under way tells
                self._threads = sum(map(int, self._client.nthreads().values()))
        return max(2, 2 * self._threads)

    def judge(self, error: BaseException) -> Verdict:
        # The scheduler has run it on several workers, and none of them lived.
        return Verdict.GIVE_UP if isinstance(error, self._killed) else judge_loss(error)

    def restart(self) -> bool:
        return bool(self._client.status == "running")

    def close(self, *, at_once: bool) -> None:
        self._client.close()


def check_address(address: str) -> None:
    """Refuse a scheduler that others could reach, or be, unless TLS says who is who. Errors: InvalidArgumentError."""
    shown = address[:80]
    try:
        parts = urlsplit(address)
        whole = bool(parts.hostname and parts.port) and parts.path in ("", "/")
    except ValueError:
        whole = False
    if not whole or parts.scheme not in ("tcp", "tls"):
        raise InvalidArgumentError(f"Dask address {shown!r} is not understood; give tcp://HOST:PORT or tls://HOST:PORT")
    if parts.scheme == "tcp" and not _is_loopback(parts.hostname or ""):
        raise InvalidArgumentError(
            f"Dask address {shown!r} is neither on this machine nor encrypted, and who reaches a scheduler runs code "
            f"on its workers; give tls://{parts.netloc}"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which may lead anywhere
        return False


def _connect(address: str) -> tuple[type[BaseException], Any]:
    try:
        import distributed
        from distributed.scheduler import KilledWorker
    except ImportError as error:
        raise InvalidArgumentError(
            f"Dask's workers need the package distributed ({error}); pip install 'pagedkv[distributed]'"
        ) from error
    connect: Any = distributed.Client
    security: Any = distributed.Security
    if address.startswith("tls:") and security().get_connection_args("client").get("ssl_context") is None:
        raise InvalidArgumentError(
            f"{address} needs certificates, and Dask's configuration has none; give distributed.comm.tls.ca-file and "
            "distributed.comm.tls.client.cert and .key"
        )
    try:
        return KilledWorker, connect(address, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise BackendError(
            name="NO_SCHEDULER",
            text=f"{error}; start one with `dask scheduler`, and see that its address and its certificates are those",
            call=f"connecting to {address}",
        ) from error
