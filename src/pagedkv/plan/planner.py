"""What is left for keys and values, the pool that it makes, and how many sequences fit there.

usable  = GPU memory x utilization, rounded down
pool    = usable - weights of a rank - reserve
blocks  = pool / bytes of a block, rounded down        (every rank has as many: they hold the same tokens)
fits(n) = blocks / ceil(n / block size), rounded down
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pagedkv.arguments import INT32_MAX, whole_number
from pagedkv.errors import InvalidArgumentError
from pagedkv.kv_layout import KVLayout
from pagedkv.model_config import ModelShape, cache_dtype, language_fields, read_shape
from pagedkv.plan.catalog import Model
from pagedkv.plan.kinds import LayerKind, blocks_of, layer_kinds, sequence_bytes
from pagedkv.plan.weights import Weights

MOST_RANKS = 1024


@dataclass(frozen=True, slots=True)
class Demand:
    """What is planned. gpu_bytes: memory of one GPU; reserve_bytes: for activations and all else, on each GPU.

    kv_dtype: None: the config's; kv_scales: a float32 for each token and head, 8-bit formats only; utilization: the
    share of the memory that is used, above 0 and at most 1.
    """

    model: Model
    gpu_bytes: int
    weights: Weights
    tensor_parallel: int = 1
    utilization: Fraction = Fraction(9, 10)
    reserve_bytes: int = 0
    block_size: int = 16
    kv_dtype: str | None = None
    kv_scales: bool = False


@dataclass(frozen=True, slots=True)
class Fit:
    """Sequences of `length` tokens: blocks and bytes of each on a rank, and how many fit at once.

    window_bytes, window_sequences: the same in a pool that drops what is out of the windows; None: there are none.
    """

    length: int
    blocks: int
    nbytes: int
    sequences: int
    window_bytes: int | None
    window_sequences: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer; all bytes are one rank's. kv_heads: the whole model's; head_copies: ranks that keep the same head."""

    demand: Demand
    layout: KVLayout
    kinds: tuple[LayerKind, ...]
    kv_heads: int
    head_copies: int
    usable_bytes: int
    weights_bytes: int
    kv_bytes: int
    blocks: int

    def fit(self, length: int) -> Fit:
        """How many sequences of `length` tokens fit. Raises InvalidArgumentError for a length below 1."""
        size = whole_number(length, "length", minimum=1, maximum=INT32_MAX)
        blocks = blocks_of(size, self.layout.block_size)
        windows = any(one.window is not None for one in self.kinds)
        need = sequence_bytes(self.kinds, size, self.layout.block_size) if windows else None
        return Fit(
            size,
            blocks,
            blocks * self.layout.block_bytes,
            self.blocks // blocks,
            need,
            None if need is None else self.kv_bytes // need,
        )


def make_plan(demand: Demand) -> Plan:
    """Return the plan of a demand. Pure.

    Raises InvalidArgumentError, with what to do, where the weights do not fit, no block fits, or a number makes no
    sense.
    """
    ranks = whole_number(demand.tensor_parallel, "tensor_parallel", minimum=1, maximum=MOST_RANKS)
    whole_number(demand.gpu_bytes, "gpu_bytes", minimum=1)
    whole_number(demand.reserve_bytes, "reserve_bytes")
    whole_number(demand.weights.total_bytes, "bytes of the weights")
    if not 0 < demand.utilization <= 1:
        raise InvalidArgumentError(f"utilization is {float(demand.utilization):g}; give a share above 0, up to 1")
    whole, shape = read_shape(demand.model.config), read_shape(demand.model.config, ranks)
    layout = _layout(demand, shape)
    left = _left(demand, ranks)
    if left < layout.block_bytes:
        raise _no_room(demand, layout)
    return Plan(
        demand=demand,
        layout=layout,
        kinds=layer_kinds(layout, shape, _window(demand.model, shape)),
        kv_heads=whole.num_kv_heads,
        head_copies=ranks * shape.num_kv_heads // whole.num_kv_heads,
        usable_bytes=_usable(demand),
        weights_bytes=demand.weights.rank_bytes(ranks),
        kv_bytes=left,
        blocks=_blocks(layout, left),
    )


def _usable(demand: Demand) -> int:
    return int(demand.gpu_bytes * demand.utilization)


def _left(demand: Demand, ranks: int) -> int:
    return _usable(demand) - demand.weights.rank_bytes(ranks) - demand.reserve_bytes


def _layout(demand: Demand, shape: ModelShape) -> KVLayout:
    return rank_layout(shape, demand.block_size, dtype=demand.kv_dtype, scales=demand.kv_scales)


def rank_layout(shape: ModelShape, block_size: int, *, dtype: str | None = None, scales: bool = False) -> KVLayout:
    """The layout of one rank's cache. dtype: None: the config's. Raises InvalidArgumentError. Pure: it does not warn of
    windows, of which a plan speaks itself.
    """
    return KVLayout(
        shape.num_layers,
        shape.num_kv_heads,
        shape.head_dim,
        cache_dtype(shape, dtype),
        block_size,
        v_head_dim=shape.v_head_dim,
        scales=scales,
    )


def _window(model: Model, shape: ModelShape) -> int | None:
    size = language_fields(model.config).get("sliding_window") if shape.sliding_layers else None
    return None if size is None else whole_number(size, "sliding_window", minimum=1, maximum=INT32_MAX)


def _blocks(layout: KVLayout, nbytes: int) -> int:
    if (blocks := layout.blocks_in(nbytes)) > INT32_MAX:
        raise InvalidArgumentError(
            f"{_gib(nbytes)} hold {blocks} blocks of {layout.block_bytes} bytes and block ids end at {INT32_MAX}; give "
            "a larger --block-size"
        )
    return blocks


def _no_room(demand: Demand, layout: KVLayout) -> InvalidArgumentError:
    """Say what does not fit, and what would."""
    left = _left(demand, demand.tensor_parallel)
    parts = f"weights of {_gib(demand.weights.rank_bytes(demand.tensor_parallel))} a GPU"
    if demand.reserve_bytes:
        parts += f" and a reserve of {_gib(demand.reserve_bytes)}"
    room = f"{_gib(_usable(demand))}, {float(demand.utilization):g} of a GPU's {_gib(demand.gpu_bytes)}"
    if left <= 0:
        return InvalidArgumentError(f"{parts} leave nothing of {room}; {_advice(demand)}")
    return InvalidArgumentError(
        f"{parts} leave {left} bytes of {room}, and a block has {layout.block_bytes}; {_advice(demand)}"
    )


def _advice(demand: Demand) -> str:
    """Name the smallest power of two of ranks that would do."""
    for power in range(demand.tensor_parallel.bit_length(), MOST_RANKS.bit_length()):
        ranks = 1 << power
        try:
            layout = _layout(demand, read_shape(demand.model.config, ranks))
        except InvalidArgumentError:  # heads that so many ranks cannot share
            continue
        if _left(demand, ranks) >= layout.block_bytes:
            return f"--tensor-parallel {ranks} would fit; or give a larger GPU, or the size of smaller weights"
    return "no number of such GPUs would do; give a larger GPU, a higher --utilization, or a smaller --reserve or block"


def _gib(nbytes: int) -> str:
    return f"{nbytes / 2**30:,.2f} GiB"
