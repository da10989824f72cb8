"""How the model says no: which typed error the manager must raise, and the figures that it must carry."""

from __future__ import annotations

from pagedkv.errors import (
    InvalidArgumentError,
    NeverFitsError,
    OutOfBlocksError,
    PagedKVError,
    SequenceStateError,
)


class RefusalError(Exception):
    """The model's own exception, so that a fault inside the model can never pass for an expected error."""

    def __init__(self, error: type[PagedKVError], **figures: int) -> None:
        super().__init__(error.__name__, figures)
        self.error = error
        self.figures = figures


def bad_argument() -> RefusalError:
    return RefusalError(InvalidArgumentError)


def bad_state() -> RefusalError:
    return RefusalError(SequenceStateError)


def out_of_blocks(needed: int, available: int, pending: int) -> RefusalError:
    return RefusalError(OutOfBlocksError, needed=needed, available=available, pending=pending)


def never_fits(needed: int, total: int) -> RefusalError:
    return RefusalError(NeverFitsError, needed=needed, total=total)
