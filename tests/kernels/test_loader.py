"""Compiling at run time: what is kept, what is compiled again, and what is said when it cannot be done."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pagedkv.errors import BackendError, InvalidArgumentError
from pagedkv.kernels import loader
from pagedkv.kernels.cubin_cache import KernelCacheWarning, cache_path, cache_size
from pagedkv.kernels.loader import compile_kernel, compile_source, cubin_key, kernel_names, kernel_source

from .compiler import needs_nvrtc

_MACROS = {"THREADS": 256}


@needs_nvrtc
def test_the_second_time_comes_from_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    cubin = compile_kernel("scatter_table", "sm_90", _MACROS)
    assert cubin.startswith(b"\x7fELF")
    assert b"scatter_table" in cubin
    assert cache_size() > len(cubin)
    monkeypatch.setattr(loader, "compile_source", None)
    assert compile_kernel("scatter_table", "sm_90", _MACROS) == cubin


@needs_nvrtc
def test_a_damaged_entry_is_compiled_again() -> None:
    cubin = compile_kernel("scatter_table", "sm_90", _MACROS)
    (entry,) = cache_path().iterdir()
    stored = entry.read_bytes()
    entry.write_bytes(stored[:-100])
    assert compile_kernel("scatter_table", "sm_90", _MACROS) == cubin
    assert len(entry.read_bytes()) == len(stored)


@needs_nvrtc
def test_without_a_cache_directory_it_compiles_all_the_same() -> None:
    cache_path().mkdir(parents=True)
    cache_path().chmod(0o777)
    with pytest.warns(KernelCacheWarning):
        assert compile_kernel("scatter_table", "sm_90", _MACROS).startswith(b"\x7fELF")
    assert list(cache_path().iterdir()) == []


@needs_nvrtc
def test_a_warm_cache_needs_no_large_import() -> None:
    """A cubin on disk is found without cuda.core; and nothing of CUDA is imported before a kernel is asked for."""
    compile_kernel("scatter_table", "sm_90", _MACROS)
    done = _python(
        "import sys\n"
        "from pagedkv.kernels.loader import compile_kernel\n"
        "assert not [name for name in sys.modules if name.startswith('cuda')]\n"
        "assert compile_kernel('scatter_table', 'sm_90', {'THREADS': 256})\n"
        "assert 'cuda.core' not in sys.modules\n"
    )
    assert done.returncode == 0, done.stderr


@needs_nvrtc
def test_processes_that_start_together() -> None:
    program = "from pagedkv.kernels.loader import compile_kernel as c\nimport hashlib\n"
    program += "print(hashlib.sha256(c('grow_table', 'sm_90', {'THREADS': 256})).hexdigest())"
    started = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(3)]
    outputs = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(set(outputs)) == 1
    assert len(list(cache_path().iterdir())) == 1


def test_the_key_holds_all_that_matters() -> None:
    base = ("source", "sm_90", {"A": 1, "B": 2}, (13, 5))
    others = [
        ("source ", "sm_90", {"A": 1, "B": 2}, (13, 5)),
        ("source", "sm_80", {"A": 1, "B": 2}, (13, 5)),
        ("source", "sm_90", {"A": 1, "B": 3}, (13, 5)),
        ("source", "sm_90", {"A": 1}, (13, 5)),
        ("source", "sm_90", {"A": 12}, (13, 5)),
        ("source", "sm_90", {"A": 1, "B": 2}, (13, 6)),
        ("source", "sm_90", {"A": 1, "B": 2}, (12, 5)),
    ]
    assert cubin_key(*base) == cubin_key("source", "sm_90", {"B": 2, "A": 1}, (13, 5))
    assert len({cubin_key(*inputs) for inputs in [base, *others]}) == len(others) + 1


@needs_nvrtc
def test_what_does_not_compile_says_why_and_where() -> None:
    with pytest.raises(BackendError) as caught:
        compile_kernel("scatter_table", "sm_90", {"LANES": 7})
    error = caught.value
    assert error.name == "NVRTC_ERROR_COMPILATION"
    assert error.call == "compiling scatter_table.cu for sm_90"
    assert 'identifier "THREADS" is undefined' in error.text
    assert "LANES=7" in error.text
    assert cache_size() == 0


@needs_nvrtc
def test_an_architecture_that_the_compiler_does_not_know() -> None:
    with pytest.raises(BackendError, match="sm_10 failed with NVRTC_ERROR_INVALID_OPTION"):
        compile_source(kernel_source("slots"), "slots.cu", "sm_10", {**_MACROS, "POSITION_BYTES": 4})


@pytest.mark.parametrize("package", ["cuda", "cuda.bindings"])
def test_without_the_packages_it_says_what_to_install(package: str) -> None:
    done = _python(
        f"import sys; sys.modules['{package}'] = None\n"
        "from pagedkv.errors import BackendError\n"
        "from pagedkv.kernels.loader import compile_kernel\n"
        "try: compile_kernel('slots', 'sm_90', {})\n"
        "except BackendError as error: print(error.name, error)\n"
    )
    assert done.stdout.startswith("NO_COMPILER "), done.stderr
    assert "pip install 'pagedkv[cuda]'" in done.stdout


@pytest.mark.parametrize("name", ["no_such", "../kernels/slots", "slots.cu", ""])
def test_a_kernel_that_there_is_not(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="there is no kernel"):
        compile_kernel(name, "sm_90", _MACROS)


def test_kernels_are_self_contained() -> None:
    """No header is included, the entry point is the file's name, and nothing is left to C++ name mangling."""
    for name in kernel_names():
        source = kernel_source(name)
        assert "#include" not in source
        assert source.count("__global__") == source.count('extern "C"') == 1
        assert f"{name}(" in source.split("__global__")[1]


def _python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
