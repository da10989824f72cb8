"""Paged decode attention by graph replay, layers rotated: each call reads keys and values that no cache holds.

In the same run, over the same pools: the read ceiling, and other libraries' decode attention where they are installed.
"""

from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from benchmarks.gpu.attention_case import Case, Prepared
from benchmarks.gpu.attention_peers import Tensors, peers
from benchmarks.gpu.device import enter_context
from benchmarks.gpu.read_ceiling import read_ceiling
from benchmarks.report import Benchmark, Row, Settings, Target

U4096, U2048 = (4096,) * 64, (2048,) * 256
_MIXED = tuple(np.random.default_rng(3).integers(32, 8192, 64).tolist())
GOALS = (
    Case("B=64 L=4096, 32/8 heads", U4096, goal=85),
    Case("B=256 L=2048, 32/8 heads", U2048, goal=85),
    Case("B=64 L=4096, 64/8 heads", U4096, (64, 8), goal=85),
    Case("B=256 L=2048, 64/8 heads", U2048, (64, 8), goal=85),
    Case("B=64 L=4096, 32/32 heads", U4096, (32, 32), goal=95),
    Case("B=8 L=32768, 32/8 heads", (32768,) * 8, goal=80),
    Case("B=1 L=131072, 32/8 heads", (131072,), goal=80),
)
# What else peers have a path for.
BESIDE = (
    Case("2 query tokens, B=64 L=4096, 32/8", U4096, tokens=2),
    Case("4 query tokens, B=64 L=4096, 32/8", U4096, tokens=4),
    Case("4 query tokens, B=64 L=4096, 64/8", U4096, (64, 8), tokens=4),
    Case("B=64 L=4096, 128/8 heads", U4096, (128, 8)),
    Case("B=1 L=8192, 32/8 heads", (8192,)),
    Case("B=8 L=1000, 32/8 heads", (1000,) * 8),
    Case("B=256 L=100, 32/8 heads", (100,) * 256),
    Case("B=256 L=40, 32/8 heads", (40,) * 256),
    Case("4 query tokens, B=256 L=100, 32/8", (100,) * 256, tokens=4),
    Case("one of 65536, 255 of 1000, 32/8", (65536,) + (1000,) * 255),
    Case("64 of 32 to 8192, 32/8", _MIXED),
)
OTHERS = (
    Case("4 query tokens, B=64 L=4096, 32/32", U4096, (32, 32), tokens=4),
    Case("window 1024, B=256 L=4096, 32/8", (4096,) * 256, window=1024),
    Case("soft cap, B=64 L=4096, 32/8", U4096, softcap=50.0),
    Case("float8, B=64 L=4096, 32/8", U4096, stored="float8_e4m3fn"),
    Case("float8, own scales, B=64 L=4096, 32/8", U4096, stored="float8_e4m3fn", scales=True),
    Case("float8, own scales, HND, B=64 L=4096, 32/8", U4096, stored="float8_e4m3fn", scales=True, kv_layout="HND"),
    Case("int8, B=64 L=4096, 32/8", U4096, stored="int8"),
    Case("float8, B=64 L=4096, 64/8", U4096, (64, 8), stored="float8_e4m3fn"),
    Case("head size 64, B=64 L=4096, 32/8", U4096, head_dim=64),
    Case("head size 64, B=64 L=4096, 64/4", U4096, (64, 4), head_dim=64),
    Case("head size 256, B=64 L=4096, 16/8", U4096, (16, 8), head_dim=256),
    Case("head size 256, B=64 L=4096, 64/4", U4096, (64, 4), head_dim=256),
    Case("blocks of 32, B=64 L=4096, 32/8", U4096, block_size=32),
    Case("blocks of 64, B=64 L=4096, 32/8", U4096, block_size=64),
    Case("blocks of 256, B=64 L=4096, 32/8", U4096, block_size=256),
    Case("HND, B=64 L=4096, 32/8", U4096, kv_layout="HND"),
    Case("layer-major, B=64 L=4096, 32/8", U4096, order="layer"),
    Case("pool of 64 GiB, B=128 L=4096, 32/8", (4096,) * 128, pool_bytes=64 << 30),
    Case("one of 65536, 31 of 2000, 32/8", (65536,) + (2000,) * 31),
    Case("B=256 L=2048 in a table for 131072, 32/8", U2048, spare_columns=8064),
)

_TINY = (
    Case("B=2 L=256, 4/2 heads", (256, 256), (4, 2)),
    Case("HND, B=2 L=256, 4/2 heads", (256, 256), (4, 2), kv_layout="HND"),
)


def run(settings: Settings) -> Iterator[Row]:
    return _run(settings, _TINY[:1] if settings.tiny else GOALS + BESIDE)


def run_shapes(settings: Settings) -> Iterator[Row]:
    return _run(settings, _TINY[1:] if settings.tiny else OTHERS)


def _run(settings: Settings, cases: Sequence[Case]) -> Iterator[Row]:
    enter_context()
    for case in cases:
        yield from measure(case, settings)


def measure(case: Case, settings: Settings) -> list[Row]:
    prepared = Prepared(case, tiny=settings.tiny)
    count = settings.pick(8, 2)
    times = prepared.replays(prepared.work, count)
    prepared.check(prepared.result())
    ours = median(times)
    rate = case.kv_bytes / ours / 1e6
    note = f"{prepared.layers} layers a replay, {min(times):.1f} .. {max(times):.1f} us, medians of {len(times)}"
    rows = [Row(case.name, ours, "us", note=note), Row(f"{case.name}, KV read", rate, "TB/s")]
    if case.window is None:
        ceiling, which = read_ceiling(prepared, settings.pick(4, 1))
        target = None if case.goal is None or settings.tiny else Target(case.goal, at_least=True)
        note = f"{ceiling:.1f} us, {case.kv_bytes / ceiling / 1e6:.2f} TB/s: {which}"
        rows.append(Row(f"{case.name}, of the read ceiling", 100 * ceiling / ours, "%", target, note=note))
    if not settings.tiny:
        rows += beside(prepared, ours)
    prepared.close()
    for row in rows:  # a time limit leaves what there is
        print(f"  {row.case}: {row.value:.2f} {row.unit} {row.verdict} {row.note}", flush=True)
    return rows


def beside(prepared: Prepared, ours: float) -> list[Row]:
    """A row of the best peer, with what each took or why there is no figure of it."""
    try:
        tensors = Tensors(prepared)
    except ImportError:
        return []
    found: dict[str, float] = {}
    words = []
    for name, ready in peers(tensors):
        try:
            found[name] = median(tensors.replays(ready(), 6))
            words.append(f"{name} {found[name]:.1f} us")
        except Exception as error:  # whatever keeps a peer from running is a note, not the end of the run
            what = str(error).split(" at /")[0][:120]  # without paths
            words.append(f"{name}: {type(error).__name__} {what!r}")
    if not found:
        return [Row(f"{prepared.case.name}, peers", 0.0, "", note="; ".join(words))] if words else []
    best = min(found.values())
    target = Target(1.0)
    return [Row(f"{prepared.case.name}, of the best peer's time", ours / best, "x", target, note="; ".join(words))]


BENCHMARK = Benchmark("decode-attention", "paged decode attention beside its ceiling and peers", run, in_process=False)
SHAPES = Benchmark("decode-attention-shapes", "the same for other layouts and masks", run_shapes, in_process=False)
