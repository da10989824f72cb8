"""What a worker does: one configuration, if it sees the same files and the same packages as who asked.

Importable and picklable, with plain data in and out: it runs in other processes and on other machines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from pagedkv.errors import PagedKVError
from pagedkv.sweep.keys import digest_of
from pagedkv.sweep.program import Configuration, Document, Options, Program, files_of, resolved


@dataclass(frozen=True, slots=True)
class Job:
    """options: resolved; files: path -> SHA-256 of its content; versions: by package."""

    task: Callable[[Options], Document]
    options: Options
    files: Mapping[str, str]
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no result: the name of an error and its message."""

    error: str
    message: str


def make_job(program: Program, configuration: Configuration) -> Job:
    """Return the job of a configuration. Reads its files. Errors: OSError."""
    options = resolved(program, configuration)
    files = {path: digest_of(path) for path in files_of(program, options).values()}
    return Job(program.task, options, files, dict(program.versions))


def carry_out(job: Job) -> Document | Failure:
    """Run a job. What a user can cause is a Failure; anything else raises."""
    try:
        if reason := _otherwise(job):
            return Failure("WorkerError", reason)
        return job.task(job.options)
    except PagedKVError as error:
        return Failure(type(error).__name__, str(error))
    except MemoryError:
        return Failure("MemoryError", "not enough memory for this run; ask for fewer blocks, requests or workers")


def package_versions(*names: str) -> dict[str, str]:
    """Return the installed versions, as a worker compares them."""
    return {name: _version(name) for name in names}


def _otherwise(job: Job) -> str | None:
    """What differs here from where the job was made; a result would be kept under the wrong key."""
    for name, wanted in job.versions.items():
        if (here := _version(name)) != wanted:
            return f"the worker has {name} {here}, and the sweep {wanted}; install the same on both"
    for path, digest in job.files.items():
        try:
            found = digest_of(path)
        except OSError as error:
            return f"the worker cannot read {path} ({error.strerror}); files lie at the same place on all machines"
        if found != digest:
            return f"the worker sees another content of {path}; run the sweep again once it no longer changes"
    return None


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
