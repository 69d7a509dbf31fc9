"""Where the functions of BLAS and LAPACK are in memory: OpenBLAS, as the package scipy-openblas32 brings it."""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
from functools import cache

__all__ = ["address"]

_PREFIX = "scipy_"


@cache
def _library() -> ctypes.CDLL:
    found = importlib.util.find_spec("scipy_openblas32")
    folders = list(found.submodule_search_locations or ()) if found is not None else []
    paths = [path for folder in folders for path in sorted(glob.glob(os.path.join(folder, "lib", "libscipy_openblas*")))]
    if not paths:
        raise ImportError("factorizations of matrices need scipy-openblas32, which is not installed: pip install scipy-openblas32")
    library = ctypes.CDLL(paths[0])
    # Batches are spread over our own threads; its own would wait for the same cores.
    getattr(library, _PREFIX + "openblas_set_num_threads")(1)
    return library


@cache
def address(symbol: str) -> int:
    """The address of a function by its Fortran name, such as ``dgetrf_``; ImportError when the library is not installed.

    >>> address("dgetrf_") != address("sgetrf_")
    True
    """
    return ctypes.cast(getattr(_library(), _PREFIX + symbol), ctypes.c_void_p).value or 0
