"""What the CUDA backend launches for decode attention, without a GPU: a stand-in carries out the launch's argument."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest

from memory.attention_batches import AttentionBatch, Rules, Span, error_of
from pagedkv import BackendError, InvalidArgumentError
from pagedkv.backends.cuda_attention import _BATCH
from pagedkv.backends.cuda_kernels import CudaKernels
from pagedkv.backends.cuda_stream import CudaStream
from pagedkv.backends.host import HostBackend
from pagedkv.backends.host_buffer import HostBuffer
from pagedkv.kernels import DecodeBatch, PoolMemory, StridedPlace, TableMemory
from pagedkv.kernels.attention_shapes import WORKSPACE_BYTES
from pagedkv.kv_layout import KVLayout

from .attention_launches import Launches, Numbers, carry_out, declared_fields

_HOST = HostBackend()


class Side:
    """A batch at the backend's own door, over memory of the host."""

    def __init__(self, batch: AttentionBatch, launches: Launches, stream: int = 0) -> None:
        self.batch, self.launches = batch, launches
        self.kernels = CudaKernels(launches)  # type: ignore[arg-type]
        self.kernels.store = launches  # type: ignore[assignment]
        self.stream = CudaStream(launches, foreign=stream)  # type: ignore[arg-type]
        extents = batch.layout.extents(batch.blocks)
        self.memory = PoolMemory(HostBuffer(batch.memory), batch.layout, batch.blocks, extents)
        shape = (len(batch.spans), batch.rules.tokens, batch.queries.shape[-2] + 2, batch.layout.value_dim)
        self.wide = np.full(shape, 9, batch.queries.dtype)
        self.out = self.wide[:, :, 1:-1]

    def decode_batch(self, **changed: Any) -> DecodeBatch:
        batch = self.batch
        given = {
            "layer": batch.layer,
            "queries": _place(batch.queries.reshape(self.out.shape), batch.dtype),
            "table": _place(batch.table, "int32"),
            "rows": None,
            "lengths": _place(batch.lengths, "int32"),
            "starts": _place(batch.starts, "int32"),
            "out": _place(self.out, batch.dtype),
            "softmax_scale": batch.layout.head_dim**-0.5,
            "k_scale": batch.factors[0],
            "v_scale": batch.factors[1],
            "causal": batch.rules.causal,
            "window": batch.rules.window or 0,
            "softcap": batch.rules.softcap or 0.0,
        }
        return DecodeBatch(**{**given, **changed})

    def found(self) -> Numbers:
        """The results as `batch.expected` has them."""
        return self.out.reshape(self.batch.expected.shape)

    def run(self, **changed: Any) -> None:
        self.kernels.decode_attention(self.memory, self.decode_batch(**changed), self.stream)


def _place(array: Numbers, dtype: str) -> StridedPlace:
    return _HOST.as_strided(array, "array", (dtype,), array.ndim)


def test_the_kernels_and_the_backend_mean_the_same_argument() -> None:
    packed = "".join(code * int(count or 1) for count, code in re.findall(r"(\d*)([Qqf])", _BATCH.format))
    assert packed == "".join(code for _, code in declared_fields())


@pytest.mark.parametrize("order", ["block", "layer"])
@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
@pytest.mark.parametrize(
    ("stored", "dtype", "scales"),
    [("float32", None, False), ("bfloat16", None, False), ("int8", "float16", False), ("float8_e5m2", "float32", True)],
)
def test_every_address_and_stride(order: Any, kv_layout: Any, stored: str, dtype: str | None, scales: bool) -> None:
    layout = KVLayout(2, 2, 64, stored, 6, order, kv_layout, scales=scales)
    for rules in (Rules(), Rules(3, softcap=2.0), Rules(2, causal=False, window=4)):
        batch = AttentionBatch(layout, [Span(0), Span(1), Span(9, 2), Span(6)], 3, seed=2, dtype=dtype, rules=rules)
        side = Side(batch, Launches())
        side.run()
        kernel = "decode_attention" if "float32" in (stored, dtype) else "decode_tensor"
        assert side.launches.launched[0][0] == kernel
        carry_out(side.launches.launched[0])
        assert error_of(side.found(), batch.dtype, batch.expected) < 2.0**-8
        assert (side.wide[:, :, [0, -1]] == 9).all()


def test_rows_of_the_pools_tables_and_no_starts() -> None:
    batch = AttentionBatch(KVLayout(1, 1, 64, "float32", 4), [Span(5), Span(7)], 1, seed=3)
    cells = np.full((9, batch.width + 3), -1, np.int32)
    rows = np.array([8, 2], np.int32)
    cells[rows, : batch.width] = batch.table
    tables = TableMemory(HostBuffer(cells.reshape(-1).view(np.uint8)), *cells.shape)
    side = Side(batch, Launches())
    side.run(table=tables, rows=_place(rows, "int32"), starts=None)
    carry_out(side.launches.launched[0])
    assert error_of(side.found(), "float32", batch.expected) < 1e-6


def test_shares_are_merged_and_a_stream_keeps_its_workspace() -> None:
    launches = Launches(processors=132)
    side = Side(AttentionBatch(KVLayout(1, 2, 64, "float16", 16), [Span(3000), Span(10)], 4, seed=4), launches)
    for stream, workspace in ((1, 1 << 40), (1, 1 << 40), (2, 2 << 40), (1, 1 << 40)):
        launches.launched.clear()
        side.stream = CudaStream(launches, foreign=stream)  # type: ignore[arg-type]
        side.run()
        (_, _, grid, (argument, *_)), (name, _, merge_grid, values) = launches.launched
        assert grid[0] == 2
        assert grid[1] > 1
        assert (name, merge_grid) == ("decode_merge", (2, grid[1], 1))
        assert values[0].tolist() == argument.tolist()
        sums, weights, marks = argument[-3:].tolist()
        assert marks == workspace
        assert sums - marks >= 8 * grid[1]
        lines = 2 * grid[1] * 8
        assert weights - sums == lines * 64 * 4
        assert weights + lines * 8 <= workspace + WORKSPACE_BYTES
    assert launches.allocated == [WORKSPACE_BYTES] * 2


@pytest.mark.parametrize(("ratio", "tokens", "groups"), [(1, 1, 1), (4, 1, 1), (5, 1, 2), (3, 3, 3), (16, 4, 16)])
def test_each_query_of_a_kv_head_has_a_warp_that_merges_it(ratio: int, tokens: int, groups: int) -> None:
    launches = Launches(processors=132)
    layout = KVLayout(1, 2, 64, "float16", 16)
    Side(AttentionBatch(layout, [Span(3000)], ratio, seed=4, rules=Rules(tokens)), launches).run()
    *_, (name, _, grid, _) = launches.launched
    assert name == "decode_merge"
    assert (grid[0], grid[2]) == (2, groups)


@pytest.mark.parametrize("order", ["block", "layer"])
@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
def test_the_bulk_copy_engine_is_told_where_k_and_v_are(order: Any, kv_layout: Any) -> None:
    layout = KVLayout(3, 2, 128, "bfloat16", 32, order, kv_layout)
    batch = AttentionBatch(layout, [Span(70)], 4, seed=6)
    launches = Launches()
    side = Side(batch, launches)
    for _ in range(2):
        side.run()
    assert len(launches.maps) == 2, "made once for a pool and layer"
    (_, macros, _, (_, maps)), *_ = launches.launched
    assert macros["STAGES"]
    assert maps.tobytes() == bytes([1]) * 128 + bytes([2]) * 128
    token, head = (1, 2) if kv_layout == "NHD" else (2, 1)
    for part, (kind, rank, address, sizes, steps, box, elements, *ways) in zip("kv", launches.maps, strict=True):
        view = layout.part_view(batch.layer, part, batch.blocks)
        assert (kind, rank) == (1, 4), "uint16"
        assert address == side.memory.buffer.address + view.offset
        assert sizes == [128, 32, 2, batch.blocks]
        assert steps == [view.strides[token], view.strides[head], view.strides[0]]
        assert (box, elements) == ([64, 16, 1, 1], [1] * 4)
        assert ways == [0, 3, 2, 0], "turned within 128 bytes, L2 fetches as many"


def test_a_map_that_the_driver_refuses_is_an_error_before_anything_is_launched() -> None:
    launches = Launches()
    side = Side(AttentionBatch(KVLayout(1, 1, 128, "bfloat16", 16), [Span(3)], 1, seed=7), launches)
    launches.refuses_maps = True
    with pytest.raises(BackendError, match="cuTensorMapEncodeTiled"):
        side.kernels.prepare_attention(side.memory, side.decode_batch(), side.stream)
    assert not launches.launched
    launches.refuses_maps = False
    side.run()
    assert len(launches.launched) == 1


def test_maps_of_ever_new_pools_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pagedkv.backends.cuda_tensor_maps._MOST", 3)
    launches = Launches()
    batch = AttentionBatch(KVLayout(8, 1, 128, "bfloat16", 16), [Span(3)], 1, seed=7)
    side = Side(batch, launches)
    for layer in [*range(8), 7]:
        side.run(layer=layer)
        assert len(side.kernels._decode._maps._made) <= 3
    assert len(launches.maps) == 16


@pytest.mark.parametrize(
    ("capability", "driver", "early"), [((9, 0), 12030, True), ((9, 0), 12020, False), ((8, 6), 13000, False)]
)
def test_pieces_are_merged_by_a_launch_that_overlaps_where_there_is_one(
    capability: tuple[int, int], driver: int, early: bool
) -> None:
    launches = Launches(processors=132)
    launches.compute_capability, launches.version = capability, driver
    side = Side(AttentionBatch(KVLayout(1, 2, 64, "float16", 16), [Span(3000)], 4, seed=4), launches)
    side.run()
    assert [name for name, *_ in launches.launched] == ["decode_tensor", "decode_merge"]
    assert launches.early == (["decode_merge"] if early else [])


def test_plans_of_ever_new_shapes_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pagedkv.backends.cuda_attention._MOST_PLANS", 3)
    launches = Launches(processors=132)
    side = Side(AttentionBatch(KVLayout(1, 2, 64, "float16", 16), [Span(3000)], 4, seed=4), launches)
    for more in range(8):
        wide = np.full((1, side.batch.width + more), -1, np.int32)
        side.run(table=_place(wide, "int32"))
        assert len(side.kernels._decode._plans) <= 3
    assert len(launches.launched) == 16
    assert len(launches.allocated) == 1


def test_the_per_thread_stream_is_another_one_in_each_thread() -> None:
    launches = Launches(processors=132)
    side = Side(AttentionBatch(KVLayout(1, 2, 64, "float16", 16), [Span(3000)], 4, seed=4), launches, stream=2)
    side.run()
    thread = threading.Thread(target=side.run)
    thread.start()
    thread.join()
    side.run()
    assert [int(values[0][-1]) for name, _, _, values in launches.launched if name == "decode_merge"] == [
        1 << 40,
        2 << 40,
        1 << 40,
    ]


def test_what_a_layout_aligns_chooses_the_kernel() -> None:
    batch = AttentionBatch(
        KVLayout(2, 1, 64, "int8", 5, scales=True), [Span(7), Span(12, 3)], 3, seed=8, dtype="float16"
    )
    side = Side(batch, Launches())
    side.run()
    assert side.launches.launched[0][0] == "decode_attention"
    carry_out(side.launches.launched[0])
    assert error_of(side.found(), batch.dtype, batch.expected) < 2.0**-8


def test_threads_on_one_stream_keep_their_two_launches_together() -> None:
    launches = Launches(processors=132)
    side = Side(AttentionBatch(KVLayout(1, 2, 64, "float16", 16), [Span(3000)], 4, seed=4), launches)
    get, threads = launches.get, []

    def interrupted(name: str, types: Any, **macros: int) -> Any:
        kernel = get(name, types, **macros)
        launch = kernel.launch

        def launch_and_let_others_try(*arguments: Any, **options: Any) -> None:
            launch(*arguments, **options)
            if not threads:
                threads.append(threading.Thread(target=side.run))
                threads[0].start()
                threads[0].join(0.2)  # it ends only where nothing holds it back

        kernel.launch = launch_and_let_others_try
        return kernel

    launches.get = interrupted  # type: ignore[method-assign]
    side.run()
    threads[0].join()
    assert [name for name, *_ in launches.launched] == ["decode_tensor", "decode_merge"] * 2


def test_too_little_memory_for_pieces_is_found_out_before_anything_is_launched() -> None:
    launches = Launches(processors=132)
    side = Side(AttentionBatch(KVLayout(1, 2, 64, "float16", 16), [Span(3000)], 4, seed=5), launches)
    launches.full = True
    with pytest.raises(BackendError, match="OUT_OF_MEMORY"):
        side.kernels.prepare_attention(side.memory, side.decode_batch(), side.stream)
    assert launches.mode == "global"
    assert not launches.launched
    launches.full = False
    side.kernels.prepare_attention(side.memory, side.decode_batch(), side.stream)
    assert len(launches.allocated) == 1
    assert not launches.launched


@pytest.mark.parametrize(
    ("layout", "ratio"), [(KVLayout(1, 1, 96, "float16", 16), 1), (KVLayout(1, 1, 64, "int8", 16), 20)]
)
def test_a_shape_without_a_kernel_is_refused_before_anything_is_launched(layout: KVLayout, ratio: int) -> None:
    side = Side(AttentionBatch(layout, [Span(3)], ratio, seed=6, dtype="float16"), Launches())
    with pytest.raises(InvalidArgumentError, match="head size 64, 128, 256"):
        side.kernels.prepare_attention(side.memory, side.decode_batch(), side.stream)
    assert not side.launches.launched


def test_an_empty_batch_launches_nothing() -> None:
    side = Side(AttentionBatch(KVLayout(1, 1, 64, "float16", 16), [], 2, seed=7), Launches())
    side.run()
    assert not side.launches.launched
