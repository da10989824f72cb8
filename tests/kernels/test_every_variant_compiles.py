"""Every kernel in every variant that a launch can choose compiles, for four architectures, without a GPU.

No thread may keep registers in memory: a spill there would cost more than what the kernel moves.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping

import pytest

from pagedkv.kernels.launch_shapes import (
    INLINE_CAPACITIES,
    SCAN_THREADS,
    TABLE_THREADS,
    copy_variants,
    piece_variants,
    row_shape,
)
from pagedkv.kernels.loader import compile_source, kernel_names, kernel_source, nvrtc_version
from pagedkv.layout import Extents

from .attention_variants import FIRST_ARCHITECTURE, attention_variants
from .compiler import needs_nvrtc
from .kv_variants import kv_variants

pytestmark = needs_nvrtc

Macros = Mapping[str, int]
_ARCHITECTURES = ["sm_75", "sm_80", "sm_90", "sm_100"]
_WIDTHS = [1, 2, 4, 8, 16]
# Elements of a row on both sides of each choice; odd ones keep the access as narrow as the factor makes it.
_WORDS = [1, 33, 65, 129, 257, 512, 513, 2048, 4096, 8 * 2048 + 1]
_TABLE_KERNELS = ["scatter_table", "grow_table", "gather_table", "csr_indices"]


def _copies() -> list[Macros]:
    whole = [macros for w in _WIDTHS for n in _WORDS for macros in copy_variants(w * n)]
    pieces = [macros for w in _WIDTHS for n in _WORDS for macros in piece_variants(Extents(3, w, (w * n, w), (0, w)))]
    return list({tuple(macros.items()): macros for macros in whole + pieces}.values())


def _rows() -> list[Macros]:
    shapes = [row_shape(width * words, 1).macros for width in _WIDTHS for words in (1, 17, 257)]
    return [{**macros, "POSITIONS": at, "PIECES": pieces} for macros in shapes for at in (0, 1) for pieces in (0, 1)]


def _variants() -> dict[str, list[Macros]]:
    variants: dict[str, list[Macros]] = {name: [{"THREADS": TABLE_THREADS}] for name in _TABLE_KERNELS}
    variants |= {"copy_blocks": _copies(), "scrub": _copies(), "fill_rows": _rows(), "verify_rows": _rows()}
    floats: list[Macros] = [{"THREADS": TABLE_THREADS, "PIECES": pieces} for pieces in (0, 1)]
    variants |= {"fill_float": floats, "verify_float": floats}
    variants["slots"] = [{"THREADS": TABLE_THREADS, "POSITION_BYTES": size} for size in (4, 8)]
    variants["scatter_inline"] = [{"THREADS": TABLE_THREADS, "CAPACITY": size} for size in INLINE_CAPACITIES]
    variants["csr_indptr"] = [{"THREADS": SCAN_THREADS}]
    variants |= kv_variants()
    variants |= attention_variants()
    return variants


def _all() -> Iterator[tuple[str, Macros]]:
    return ((name, macros) for name, several in _variants().items() for macros in several)


def _compile(name: str, arch: str, macros: Macros) -> str:
    """What ptxas says of the kernel."""
    from cuda.core import Program, ProgramOptions

    defines = [(macro, str(value)) for macro, value in macros.items()]
    options = ProgramOptions(arch=arch, std="c++17", name=f"{name}.cu", define_macro=defines, ptxas_options=["-v"])
    log = io.StringIO()
    Program(kernel_source(name), "c++", options).compile("cubin", logs=log)
    return log.getvalue()


def _spills_allowed(macros: Macros) -> int:
    """Bytes. A tile of heads of 256, or sums of 32 columns, leave so few registers that some are kept in memory.

    Of other tiles with all registers in use, it is what lies outside the loop over tiles on sm_90, where they were
    measured; on sm_100 a few lie in it.
    """
    if "DRAFTS" not in macros:
        return 0
    if macros["HEAD_DIM"] == 256:
        return 352
    return 96 if macros["COLUMNS"] == 32 or macros["STORED"] > 2 else 48 if macros["COLUMNS"] == 16 else 0


def test_no_kernel_is_left_out() -> None:
    assert sorted(_variants()) == kernel_names()


def test_the_rows_kernels_have_every_width_and_number_of_lanes() -> None:
    assert {(m["LANES"], m["VEC"]) for m in _rows()} == {(n, width) for n in (8, 32, 256) for width in _WIDTHS}


@pytest.mark.parametrize("arch", _ARCHITECTURES)
@pytest.mark.parametrize("name", kernel_names())
def test_compiles_without_spills(name: str, arch: str) -> None:
    if int(arch[3:]) < int(FIRST_ARCHITECTURE.get(name, "sm_0")[3:]):
        pytest.skip(f"{name} is for {FIRST_ARCHITECTURE[name]} and later")
    for macros in _variants()[name]:
        if macros.get("STAGES") and int(arch[3:]) < 90:
            continue  # the bulk copy engine
        log = _compile(name, arch, macros)
        figures = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log)
        assert figures is not None, log
        assert max(map(int, figures.groups())) <= _spills_allowed(macros), (macros, log)
        assert "warning" not in log, (macros, log)


def test_the_oldest_architecture_of_the_compiler_at_hand() -> None:
    """CUDA 12 compiles for compute capability 5.0 as well."""
    if nvrtc_version() >= (13, 0):
        pytest.skip("NVRTC 13 starts at sm_75; sm_50 needs NVRTC 12")
    for name, macros in _all():
        if name in FIRST_ARCHITECTURE:
            continue
        assert compile_source(kernel_source(name), f"{name}.cu", "sm_50", macros).startswith(b"\x7fELF")
