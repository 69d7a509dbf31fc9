"""torch.__config__: what this build is made of."""

from __future__ import annotations

from importlib.metadata import version

from flambeau.runtime.thread_pool import get_num_threads
from flambeau.version import __version__

__all__ = ["parallel_info", "show"]


def show() -> str:
    """What computes: the compiler of the kernels and the library that factors matrices."""
    parts = (f"flambeau {__version__} built with:", f"llvmlite {version('llvmlite')}", "OpenBLAS (LAPACK)", "USE_MKL=OFF, USE_CUDA=OFF")
    return "\n  - ".join(parts) + "\n"


def parallel_info() -> str:
    """How many threads compute."""
    return f"flambeau:\n\tget_num_threads() : {get_num_threads()}\n"
