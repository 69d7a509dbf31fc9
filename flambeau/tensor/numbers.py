"""Single elements in memory as Python numbers."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

from flambeau.core import dtypes
from flambeau.core.dtypes import dtype

__all__ = ["read_number", "write_number"]

_TYPES: dict[dtype, Any] = {
    dtypes.bool_: ctypes.c_bool, dtypes.uint8: ctypes.c_uint8, dtypes.int8: ctypes.c_int8, dtypes.int16: ctypes.c_int16,
    dtypes.int32: ctypes.c_int32, dtypes.int64: ctypes.c_int64, dtypes.uint16: ctypes.c_uint16,
    dtypes.uint32: ctypes.c_uint32, dtypes.uint64: ctypes.c_uint64, dtypes.float32: ctypes.c_float, dtypes.float64: ctypes.c_double,
}  # fmt: skip


def read_number(address: int, kind: dtype) -> Any:
    """The element of type ``kind`` at an address, as a bool, an int, a float or a complex number."""
    if kind.is_complex:
        real, half = kind.to_real(), kind.itemsize // 2
        return complex(read_number(address, real), read_number(address + half, real))
    simple = _TYPES.get(kind)
    if simple is not None:
        return simple.from_address(address).value
    if kind.is_float8:
        return float(np.frombuffer(ctypes.string_at(address, 1), kind.numpy)[0])
    bits = ctypes.c_uint16.from_address(address).value
    if kind is dtypes.float16:
        return struct.unpack("<e", struct.pack("<H", bits))[0]
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def write_number(address: int, kind: dtype, value: float) -> None:
    """Store a number at an address; ``kind`` is bool, int64, float32 or float64 and holds it."""
    _TYPES[kind].from_address(address).value = value
