"""The command line's entry point. It imports next to nothing: what must hold while the rest is loaded is set up here.

Bad input is a message on standard error and exit code 2, never a traceback; an interrupted command ends with 130.
"""

from __future__ import annotations

import os
import signal
import sys
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130


def main() -> None:
    """Run the command line of this process and exit."""
    if sys.stdout is None:  # started with standard output closed
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # for the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a file name may have bytes that are no text: shown, not refused
            stream.reconfigure(errors="backslashreplace")
    end_on_interrupt()
    try:
        try:
            from pagedkv.cli.application import application

            application()
        finally:
            sys.stdout.flush()  # here, where a full disk can still be reported
    except OSError as error:
        _fail_output(error)


def end_on_interrupt() -> None:
    """Before and after a command, Ctrl-C ends the process here and now: there is nothing to finish, and an exception in
    the middle of an import would be reported as an import that failed. A SIGINT that the parent ignores stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_on_interrupt() -> None:
    """While a command runs, Ctrl-C is a KeyboardInterrupt, which the command may catch."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def _fail_output(error: OSError) -> NoReturn:
    # What is still buffered cannot be written either; the interpreter would complain of it at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        print(f"error: output was not written ({error.strerror})", file=sys.stderr)
    sys.exit(1)
