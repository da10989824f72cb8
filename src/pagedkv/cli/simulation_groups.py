"""The options of `pagedkv simulate` that say what a request is, when it is admitted, and what a step may compute."""

from __future__ import annotations

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.cli.quantities import probability
from pagedkv.cli.simulation_options import SimulateOptions
from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate import Groups
from pagedkv.simulate.batching import Batching
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


def read_batching(options: SimulateOptions, groups: Groups) -> Batching:
    """Return what a step may compute. Errors: InvalidArgumentError, which names the option."""
    cap = options.max_batched_tokens
    if cap is None:
        if options.chunked_prefill:
            raise InvalidArgumentError(
                "--chunked-prefill cuts prompts to what a step computes; give --max-batched-tokens"
            )
        return Batching()
    whole_number(cap, "--max-batched-tokens", minimum=1, maximum=INT32_MAX)
    if groups.size > 1 and options.chunked_prefill:
        raise InvalidArgumentError(
            "--chunked-prefill is about single sequences; leave it out, or --samples and --beam-width"
        )
    if groups.size > cap:
        raise InvalidArgumentError(
            f"--max-batched-tokens is {cap} and a request has {groups.size} sequences, which compute a token each; "
            f"give {groups.size} or more"
        )
    return Batching(cap, options.chunked_prefill)
