"""The options of `pagedkv simulate` that say what a request is and when it is admitted."""

from __future__ import annotations

from pagedkv.arguments import whole_number
from pagedkv.cli.quantities import probability
from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate import Groups
from pagedkv.simulate.groups import ADMISSIONS, LARGEST_GROUP, SINGLE


def read_groups(samples: int, beam_width: int, beam_survival: str | None, admission: str) -> Groups:
    """Return the groups that these options ask for; beam_survival None: not given.

    Errors: InvalidArgumentError, which names the option.
    """
    for name, size in (("--samples", samples), ("--beam-width", beam_width)):
        whole_number(size, name, minimum=1, maximum=LARGEST_GROUP)
    if samples > 1 and beam_width > 1:
        raise InvalidArgumentError("--samples and --beam-width both say what a request is; give one of them")
    if admission not in ADMISSIONS:
        raise InvalidArgumentError(f"--admission is {admission[:40]!r}; give {' or '.join(ADMISSIONS)}")
    if beam_survival is not None and beam_width == 1:
        raise InvalidArgumentError("--beam-survival is about beams and there are none; give --beam-width of 2 or more")
    survival = SINGLE.beam_survival if beam_survival is None else probability(beam_survival, "--beam-survival")
    return Groups(samples=samples, beam_width=beam_width, beam_survival=survival, admission=admission)
