"""A request as a group: `size` sequences that share one prompt and grow together.

Member j of request r has the id r * size + j; member 0, the root, stores the prompt and the others are forked from it.
A group of one is a plain sequence whose id is the request's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pagedkv.arguments import whole_number
from pagedkv.errors import InvalidArgumentError

LARGEST_GROUP = 65_536  # sequences; a group is forked in one step, and more would fill memory before the second
ADMISSIONS = ("grow", "final")


@dataclass(frozen=True, slots=True)
class Groups:
    """What every request of a run is, and when one is admitted.

    samples: sequences that go on independently; beam_width: sequences that are copied over each other, each step one
    continues itself with probability beam_survival. At most one of the two exceeds 1, and neither 65,536.
    admission: "grow" admits what fits now; "final" only what still fits when all that run have their last token.
    Errors: InvalidArgumentError.
    """

    samples: int = 1
    beam_width: int = 1
    beam_survival: float = 0.9
    admission: str = "grow"

    def __post_init__(self) -> None:
        for name in ("samples", "beam_width"):
            whole_number(getattr(self, name), name, minimum=1, maximum=LARGEST_GROUP)
        if self.samples > 1 and self.beam_width > 1:
            raise InvalidArgumentError(
                f"samples is {self.samples} and beam_width {self.beam_width}: a request is a group of samples or of "
                "beams; leave one of them at 1"
            )
        survival = self.beam_survival
        if isinstance(survival, bool) or not isinstance(survival, (int, float)) or not 0 <= survival <= 1:
            raise InvalidArgumentError(f"beam_survival is {survival!r}; give a probability, 0 to 1")
        if self.admission not in ADMISSIONS:
            raise InvalidArgumentError(f"admission is {self.admission!r}; give one of {', '.join(ADMISSIONS)}")

    @property
    def size(self) -> int:
        """Sequences a request."""
        return max(self.samples, self.beam_width)


SINGLE = Groups()


def group_blocks(prompt: int, generated: int, size: int, block_size: int) -> int:
    """Return the most blocks that a group of `size` sequences needs for its prompt and `generated` tokens each.

    Full blocks of the prompt are held once. The rest is each sequence's own as soon as it has generated a token: what
    samples need exactly, and beams at most. Pure.
    """
    if generated == 0:
        return -(-prompt // block_size)
    shared = prompt // block_size
    return shared + size * (-(-(prompt + generated) // block_size) - shared)


def members(requests: Sequence[int], size: int) -> list[int]:
    """Return the sequence ids of these requests, group by group, the root first."""
    if size == 1:
        return list(requests)
    return [member for request in requests for member in range(request * size, (request + 1) * size)]
