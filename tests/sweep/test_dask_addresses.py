"""Which schedulers a sweep talks to: this machine's, or one that proves who it is. Needs no Dask."""

from __future__ import annotations

import sys

import pytest

from pagedkv.errors import InvalidArgumentError
from pagedkv.sweep import DaskWorkers
from pagedkv.sweep.dask_workers import check_address


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:8786", "tcp://127.8.8.8:1/", "tcp://localhost:8786", "tcp://[::1]:8786"]
    + ["tls://10.0.0.1:8786", "tls://scheduler.example:8786"],
)
def test_loopback_and_tls_are_taken(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize(
    "address", ["tcp://10.0.0.1:8786", "tcp://0.0.0.0:8786", "tcp://localhost.example:8786", "tcp://[2001:db8::1]:1"]
)
def test_what_others_reach_in_the_clear_is_not(address: str) -> None:
    with pytest.raises(InvalidArgumentError, match="give tls://"):
        check_address(address)
    with pytest.raises(InvalidArgumentError, match="give tls://"):
        DaskWorkers(address)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "127.0.0.1:8786",
        "tcp://127.0.0.1",
        "tcp://:8786",
        "tcp://127.0.0.1:0x1",
        "tcp://127.0.0.1:99999",
        "tcp://[:1",
    ]
    + ["ws://127.0.0.1:8786", "ucx://127.0.0.1:8786", "inproc://127.0.0.1:1", "tcp://127.0.0.1:8786/path"],
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(InvalidArgumentError, match="not understood"):
        check_address(address)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InvalidArgumentError, match=r"pip install 'pagedkv\[distributed\]'"):
        DaskWorkers("tcp://127.0.0.1:8786")
