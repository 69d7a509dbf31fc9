"""Element types: one immutable record each, with torch's names and numpy's equivalents."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np


class dtype:  # noqa: N801 - torch's own name
    """An element type, such as ``float32``.

    Instances are unique: compare them with ``is``. ``name`` is torch's name, ``itemsize`` is in bytes and
    ``numpy`` is the matching numpy dtype (``ml_dtypes`` supplies bfloat16 and the eight-bit floats).

    >>> import flambeau as torch
    >>> torch.float32.itemsize, torch.bfloat16.is_floating_point
    (4, True)
    """

    __slots__ = ("category", "itemsize", "llvm", "name", "numpy", "short")

    def __init__(self, name: str, short: str, category: str, itemsize: int, llvm: str, numpy_type: object) -> None:
        self.name = name
        self.short = short
        self.category = category
        self.itemsize = itemsize
        self.llvm = llvm
        self.numpy = np.dtype(numpy_type)  # type: ignore[call-overload]

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return by_name, (self.name,)

    @property
    def is_floating_point(self) -> bool:
        return self.category == "float"

    @property
    def is_complex(self) -> bool:
        return self.category == "complex"

    @property
    def is_inexact(self) -> bool:
        """Whether it holds real or complex numbers with fractions: those that can be differentiated."""
        return self.category == "float" or self.category == "complex"

    @property
    def is_signed(self) -> bool:
        return self.category not in ("bool", "unsigned")

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer type; bool is not."""
        return self.category in ("signed", "unsigned")

    @property
    def is_bits_only(self) -> bool:
        """Whether nothing computes in it nor converts it: the rarer eight-bit floats, and pairs of float16."""
        return self in NAMED_ONLY

    @property
    def compute(self) -> dtype:
        """The type that bodies compute in: float32 for the 16-bit floats, the type itself otherwise."""
        return float32 if self is float16 or self is bfloat16 else self

    @property
    def is_float8(self) -> bool:
        """Whether it is an eight-bit float: these are stored, moved and converted, and have no arithmetic."""
        return self.category == "float" and self.itemsize == 1

    @property
    def scalar_name(self) -> str:
        """PyTorch's name of its numbers in error messages."""
        return _SCALAR_NAMES.get(self.name) or self.name.capitalize()

    def to_complex(self) -> dtype:
        return complex128 if self in (float64, complex128) else complex64

    def to_real(self) -> dtype:
        return {complex64: float32, complex128: float64}.get(self, self)


def by_name(name: str) -> dtype:
    """The dtype called ``name``; KeyError when there is none."""
    return BY_NAME[name]


# llvm: the type in registers; bool lives as i8 in memory and bfloat16 as i16.
bool_ = dtype("bool", "b8", "bool", 1, "i1", np.bool_)
uint8 = dtype("uint8", "u8", "unsigned", 1, "i8", np.uint8)
uint16 = dtype("uint16", "u16", "unsigned", 2, "i16", np.uint16)
uint32 = dtype("uint32", "u32", "unsigned", 4, "i32", np.uint32)
uint64 = dtype("uint64", "u64", "unsigned", 8, "i64", np.uint64)
int8 = dtype("int8", "i8", "signed", 1, "i8", np.int8)
int16 = dtype("int16", "i16", "signed", 2, "i16", np.int16)
int32 = dtype("int32", "i32", "signed", 4, "i32", np.int32)
int64 = dtype("int64", "i64", "signed", 8, "i64", np.int64)
float16 = dtype("float16", "f16", "float", 2, "half", np.float16)
bfloat16 = dtype("bfloat16", "bf16", "float", 2, "i16", ml_dtypes.bfloat16)
float32 = dtype("float32", "f32", "float", 4, "float", np.float32)
float64 = dtype("float64", "f64", "float", 8, "double", np.float64)
float8_e4m3fn = dtype("float8_e4m3fn", "f8e4", "float", 1, "i8", ml_dtypes.float8_e4m3fn)
float8_e5m2 = dtype("float8_e5m2", "f8e5", "float", 1, "i8", ml_dtypes.float8_e5m2)
complex64 = dtype("complex64", "c64", "complex", 8, "", np.complex64)
complex128 = dtype("complex128", "c128", "complex", 16, "", np.complex128)

ALL: tuple[dtype, ...] = (
    bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64, float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64,
    complex64, complex128,
)  # fmt: skip
# Types that tensors may have, to hold and view bits; nothing promotes them or computes in them.
NAMED_ONLY: tuple[dtype, ...] = (
    *(
        dtype(f"float8_{form}", f"f8_{form}", "float", 1, "", getattr(ml_dtypes, f"float8_{form}"))
        for form in ("e4m3fnuz", "e5m2fnuz", "e8m0fnu")
    ),
    dtype("complex32", "c32", "complex", 4, "", [("real", np.float16), ("imag", np.float16)]),
)
float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu, complex32 = NAMED_ONLY
BY_NAME: dict[str, dtype] = {d.name: d for d in (*ALL, *NAMED_ONLY)}
# Python's types, which are taken for the types of their numbers wherever a dtype is asked for.
_OF_PYTHON: dict[Any, dtype] = {bool: bool_, int: int64, float: float64, complex: complex128}


def dtype_of(kind: Any) -> Any:
    """A dtype for one of Python's types of numbers; all else as it is.

    >>> from flambeau.core.dtypes import dtype_of
    >>> dtype_of(float), dtype_of(None)
    (torch.float64, None)
    """
    return _OF_PYTHON.get(kind, kind) if type(kind) is type else kind


BY_NUMPY: dict[np.dtype, dtype] = {d.numpy: d for d in ALL}

_SCALAR_NAMES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "uint16": "UInt16",
    "uint32": "UInt32", "uint64": "UInt64", "float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double",
    "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip
_RANK = {d: i for i, d in enumerate(ALL)}


def promote(a: dtype, b: dtype) -> dtype:
    """The type that ``a`` and ``b`` meet in, by torch's table."""
    if a is b:
        return a
    for kinds, matters in (("Float8 Types", a.is_float8 or b.is_float8), ("uint16, uint32, uint64 types", _meets_no_integer(a, b))):
        if matters:
            names = f"{a.scalar_name} and {b.scalar_name}"
            raise RuntimeError(f"Promotion for {kinds} is not supported, attempted to promote {names}; convert one with .to(dtype)")
    if a.is_bits_only or b.is_bits_only:
        raise RuntimeError(f"Promotion is not supported, attempted to promote {a.name} and {b.name}: nothing computes in these")
    low, high = (a, b) if _RANK[a] < _RANK[b] else (b, a)
    if high.category == "complex":
        return complex128 if low is float64 or low is complex128 else high
    if high.category == "float":
        # float16 and bfloat16 meet in float32
        return float32 if low is float16 and high is bfloat16 else high
    if low is uint8:  # meets a signed type in one that holds both
        return int16 if high is int8 else high
    return high


def require_numbers(*kinds: dtype) -> None:
    """NotImplementedError where nothing computes in one of the types."""
    for kind in kinds:
        if kind.is_bits_only:
            raise NotImplementedError(f"nothing computes in {kind} yet; keep float16 or bfloat16 numbers")


def _meets_no_integer(a: dtype, b: dtype) -> bool:
    return a.is_integer and b.is_integer and any(d.category == "unsigned" and d.itemsize > 1 for d in (a, b))


def converted_array(array: np.ndarray, to: dtype) -> np.ndarray:
    """numpy's conversion, but that what float8_e4m3fn cannot hold becomes its largest number, as in torch."""
    if to.is_float8:
        array = array.astype(np.float32)
    return (np.clip(array, -448, 448) if to is float8_e4m3fn else array).astype(to.numpy)


_CATEGORIES = {"bool": 0, "unsigned": 1, "signed": 1, "float": 2, "complex": 3}


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether a result of one type may be written into a tensor of another: not from floats into integers, nor from numbers into bools.

    >>> import flambeau as torch
    >>> torch.can_cast(torch.int64, torch.float16), torch.can_cast(torch.float32, torch.int64)
    (True, False)
    """
    return _CATEGORIES[from_.category] <= _CATEGORIES[to.category]
