"""The options of `pagedkv simulate`, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field

from pagedkv.cli.simulation_load import SyntheticOptions


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """The options as they were given; None: not given."""

    trace: str | None = None
    format: str | None = None
    synthetic: SyntheticOptions = field(default_factory=SyntheticOptions)
    save_trace: str | None = None
    closed_loop: bool = False
    pool_size: str | None = None
    blocks: int | None = None
    block_size: int | None = None
    token_bytes: int | None = None
    max_seq_len: int | None = None
    concurrency: int | None = None
    completions: int | None = None
    samples: int = 1
    beam_width: int = 1
    beam_survival: str | None = None
    seed: int | None = None
    limit: int | None = None
    step_ms: str | None = None
    max_seqs: int | None = None
    admission: str = "grow"
    watermark: str = "0"
    prefix_caching: bool = False
    cache_only: bool = False
    compare: bool = False
    device: str = "auto"
    strict: bool = False
    verify: bool | None = None
    max_batched_tokens: int | None = None
    chunked_prefill: bool = False
    step_time: str | None = None

    @property
    def has_clock(self) -> bool:
        """Whether times of requests mean something."""
        return self.step_ms is not None or self.step_time is not None

    @property
    def offline(self) -> bool:
        """Whether a trace's times are left out on purpose."""
        return self.trace is not None and self.synthetic.arrivals == "offline"
