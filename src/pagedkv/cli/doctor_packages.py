"""What the CUDA extra brought: versions of its packages, and whether they can be used."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

NVRTC = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")


@dataclass(frozen=True, slots=True)
class PackageFacts:
    """Versions as installed (None: not); compiler: what NVRTC says of itself; troubles: what cannot be used."""

    core: str | None = None
    bindings: str | None = None
    nvrtc: str | None = None
    compiler: tuple[int, int] | None = None
    troubles: tuple[str, ...] = ()

    @property
    def cuda_major(self) -> int | None:
        """The CUDA major version that the bindings are made for."""
        major = (self.bindings or "").partition(".")[0]
        return int(major) if major.isdigit() else None


def ask_packages() -> PackageFacts:
    """Look at the installed packages and load them. Modifies nothing."""
    from pagedkv.report.document import package_version

    core, bindings = package_version("cuda-core"), package_version("cuda-bindings")
    nvrtc = ", ".join(f"{name} {version}" for name in NVRTC if (version := package_version(name)))
    troubles = [
        *_unusable("cuda-core", core, "cuda.core"),
        *_unusable("cuda-bindings", bindings, "cuda.bindings.nvrtc"),
    ]
    compiler = None
    if bindings is not None and not troubles:
        try:
            from pagedkv.kernels.loader import nvrtc_version

            compiler = nvrtc_version()
        except Exception as error:  # a broken library can raise anything; a doctor reports it
            troubles.append(f"NVRTC: {error}")
    return PackageFacts(core, bindings, nvrtc or None, compiler, tuple(troubles))


def _unusable(package: str, version: str | None, module: str) -> list[str]:
    if version is None:
        return []
    try:
        import_module(module)
    except Exception as error:  # as above
        return [f"{package} {version} is installed and cannot be imported: {type(error).__name__}: {error}"]
    return []
