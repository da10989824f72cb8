"""The options of `pagedkv simulate` that draw a load: arrivals, lengths, sessions, system prompts."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.cli.quantities import SMALL_DECIMAL
from pagedkv.errors import InvalidArgumentError
from pagedkv.simulate import Lengths, Lognormal, SyntheticLoad, Turns, Uniform, read_trace
from pagedkv.simulate.synthetic import ARRIVALS, MOST_REQUESTS, MOST_TURNS

REQUESTS = 1000
PROMPT_LENGTHS = "lognormal:512:1"
OUTPUT_LENGTHS = "lognormal:128:1"
TIMED = ("poisson", "gamma")

_WHOLE = re.compile(r"[0-9]{1,12}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SyntheticOptions:
    """The options as they were given; None: not given. The fields are the options' names."""

    requests: int | None = None
    arrivals: str | None = None
    rate: str | None = None
    burstiness: str | None = None
    prompt_lengths: str | None = None
    output_lengths: str | None = None
    lengths_from: str | None = None
    turns: int | None = None
    turn_gap_ms: str | None = None
    system_prompt: int | None = None
    system_prompts: int | None = None

    @property
    def given(self) -> list[str]:
        """The options that were given, as they are written."""
        named = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        return [f"--{name.replace('_', '-')}" for name in named]

    @property
    def closed(self) -> bool:
        """Whether requests come as others end."""
        return self.arrivals == "closed"

    def described(self, seed: int) -> dict[str, Any]:
        """Return the options as they were resolved, for the document."""
        resampled = self.lengths_from is not None
        return {
            "requests": self.requests or REQUESTS,
            "arrivals": self.arrivals or "offline",
            "rate": self.rate,
            "burstiness": self.burstiness,
            "prompt_lengths": None if resampled else self.prompt_lengths or PROMPT_LENGTHS,
            "output_lengths": None if resampled else self.output_lengths or OUTPUT_LENGTHS,
            "lengths_from": self.lengths_from,
            "turns": self.turns or 1,
            "turn_gap_ms": self.turn_gap_ms,
            "system_prompt": self.system_prompt or 0,
            "system_prompts": self.system_prompts or 1,
            "seed": seed,
        }


def check_synthetic(options: SyntheticOptions, *, timed: bool, must_be_timed: bool) -> None:
    """Refuse what does not go together, before anything is read. timed: it is said how long a step takes;
    must_be_timed: by --step-ms, which is for nothing else.

    Errors: InvalidArgumentError.
    """
    arrivals = _or(options.arrivals, "offline")
    if arrivals not in ARRIVALS:
        raise InvalidArgumentError(f"--arrivals is {arrivals[:40]!r}; give one of {', '.join(ARRIVALS)}")
    is_timed = arrivals in TIMED
    if is_timed and not timed:
        raise InvalidArgumentError(
            f"--arrivals {arrivals} has times; say how long a step is, with --step-ms or --step-time"
        )
    if must_be_timed and not is_timed:
        raise InvalidArgumentError(f"--step-ms is about times and --arrivals {arrivals} has none; leave it out")
    if is_timed and options.rate is None:
        raise InvalidArgumentError(f"--arrivals {arrivals} needs --rate, how many sessions or requests come a second")
    for name, given, needed, there in (
        ("--rate", options.rate, "--arrivals poisson or gamma", is_timed),
        ("--burstiness", options.burstiness, "--arrivals gamma", arrivals == "gamma"),
        ("--turn-gap-ms", options.turn_gap_ms, "--turns of 2 or more and timed arrivals", _has_gaps(options)),
        ("--system-prompts", options.system_prompts, "--system-prompt TOKENS", bool(options.system_prompt)),
    ):
        if given is not None and not there:
            raise InvalidArgumentError(f"{name} has no meaning here; give {needed} with it, or leave it out")
    for name in ("prompt_lengths", "output_lengths"):
        if options.lengths_from is not None and getattr(options, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise InvalidArgumentError(f"{option} and --lengths-from both say how long requests are; give one of them")


def synthetic_load(options: SyntheticOptions, seed: int, *, strict: bool) -> SyntheticLoad:
    """Return the load that these options ask for. Reads the file of --lengths-from.

    Errors: InvalidArgumentError, which names the option; TraceError.
    """
    turns = Turns(
        turns=_whole(options.turns, "--turns", 1, MOST_TURNS),
        gap_s=_decimal(_or(options.turn_gap_ms, "10000"), "--turn-gap-ms", "milliseconds", (0, 1e12)) / 1000,
        system_tokens=_whole(options.system_prompt, "--system-prompt", 0, INT32_MAX),
        system_prompts=_whole(options.system_prompts, "--system-prompts", 1, INT32_MAX),
    )
    requests = REQUESTS if options.requests is None else options.requests
    return SyntheticLoad(
        requests=whole_number(requests, "--requests", minimum=1, maximum=MOST_REQUESTS),
        arrivals=_or(options.arrivals, "offline"),
        rate=_decimal(_or(options.rate, "1"), "--rate", "a number a second", (1e-6, 1e6)),
        variation=_decimal(_or(options.burstiness, "2"), "--burstiness", "a variation", (1e-3, 100)),
        lengths=(
            read_lengths(_or(options.prompt_lengths, PROMPT_LENGTHS), "--prompt-lengths"),
            read_lengths(_or(options.output_lengths, OUTPUT_LENGTHS), "--output-lengths"),
        ),
        resampled=None if options.lengths_from is None else read_trace(options.lengths_from, strict=strict).workload,
        turns=turns,
        seed=seed,
    )


def read_lengths(text: str, name: str) -> Lengths:
    """Return the distribution of "512", "uniform:16:1024" or "lognormal:512:1". Errors: InvalidArgumentError."""
    kind, *values = text.strip().split(":")
    if not values and _WHOLE.fullmatch(kind):
        return _named(name, text, lambda: Uniform(int(kind), int(kind)))
    if kind == "uniform" and len(values) == 2 and all(map(_WHOLE.fullmatch, values)):
        return _named(name, text, lambda: Uniform(int(values[0]), int(values[1])))
    if kind == "lognormal" and len(values) == 2 and all(map(SMALL_DECIMAL.fullmatch, values)):
        return _named(name, text, lambda: Lognormal(float(values[0]), float(values[1])))
    raise InvalidArgumentError(
        f"{name} is {text[:40]!r}; give TOKENS, uniform:LOW:HIGH, or lognormal:MEAN:VARIATION (deviation / mean)"
    )


def _named(name: str, text: str, make: Any) -> Lengths:
    try:
        made: Lengths = make()
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{name} is {text[:40]!r}: {error}") from error
    return made


def _whole(value: int | None, name: str, minimum: int, maximum: int) -> int:
    return minimum if value is None else whole_number(value, name, minimum=minimum, maximum=maximum)


def _decimal(text: str, name: str, what: str, bounds: tuple[float, float]) -> float:
    low, high = bounds
    if SMALL_DECIMAL.fullmatch(text.strip()) is None or not low <= float(text) <= high:
        raise InvalidArgumentError(f"{name} is {text[:40]!r}; give {what}, from {low:g} to {high:g}, such as 2.5")
    return float(text)


def _or(given: str | None, default: str) -> str:
    return default if given is None else given  # "" was given, and is wrong


def _has_gaps(options: SyntheticOptions) -> bool:
    return options.arrivals in TIMED and (options.turns or 1) > 1
