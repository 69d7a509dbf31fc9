"""Types, and what the namespace can do."""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

from flambeau.core import dtypes
from flambeau.core.device import Device
from flambeau.tensor import type_info
from flambeau.tensor.creation import empty
from flambeau.tensor.tensor_class import Tensor

_ALL = (
    dtypes.bool_, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.float32, dtypes.float64, dtypes.complex64,
    dtypes.complex128,
)  # fmt: skip
_KINDS = {
    "bool": {"bool"}, "signed integer": {"signed"}, "unsigned integer": {"unsigned"}, "integral": {"signed", "unsigned"},
    "real floating": {"float"}, "complex floating": {"complex"}, "numeric": {"signed", "unsigned", "float", "complex"},
}  # fmt: skip


class finfo_object(NamedTuple):  # noqa: N801 - the standard's name
    """The limits of a real floating point type."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


class iinfo_object(NamedTuple):  # noqa: N801 - the standard's name
    """The limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: Any


def finfo(type: Any, /) -> finfo_object:
    """The limits of a floating point type or of an array's; of complex ones those of their parts."""
    kind = type.dtype if isinstance(type, Tensor) else type
    found = type_info.finfo(kind)
    return finfo_object(found.bits, found.eps, found.max, found.min, found.smallest_normal, kind.to_real())


def iinfo(type: Any, /) -> iinfo_object:
    """The limits of an integer type or of an array's."""
    kind = type.dtype if isinstance(type, Tensor) else type
    found = type_info.iinfo(kind)
    return iinfo_object(found.bits, found.max, found.min, kind)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a type is of a kind, is that type, or fits one of a tuple of these."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: {kind!r} is no kind of types; use one of {', '.join(_KINDS)}")
        return dtype.category in _KINDS[kind]
    return dtype == kind


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The elements in another type."""
    return x.to(dtype=dtype, device=device, copy=copy) if device is not None else x.to(dtype, copy=copy)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a type goes into another without loss of kind or range: whether they meet in the latter."""
    source = from_.dtype if isinstance(from_, Tensor) else from_
    return type_info.promote_types(source, to) == to


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The type that these arrays, types and Python numbers meet in."""
    numbers = [value for value in arrays_and_dtypes if isinstance(value, complex | float | int)]
    others = [value for value in arrays_and_dtypes if not isinstance(value, complex | float | int)]
    kinds = [value.dtype if isinstance(value, Tensor) else value for value in others]
    if not kinds:
        raise ValueError("result_type: needs an array or a type beside Python numbers")
    found = reduce(type_info.promote_types, kinds)
    for number in numbers:
        found = type_info.result_type(empty(1, dtype=found), number)
    return found


class _Info:
    """What `__array_namespace_info__` gives."""

    def capabilities(self) -> dict[str, Any]:
        """Which optional parts are there."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Where arrays are made."""
        return Device("cpu")

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The types of numbers that say none."""
        real = type_info.get_default_dtype()
        return {"real floating": real, "complex floating": real.to_complex(), "integral": dtypes.int64, "indexing": dtypes.int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The types by name, those of a kind alone if one is given."""
        return {d.name.removeprefix("torch."): d for d in _ALL if kind is None or isdtype(d, kind)}

    def devices(self) -> list[Device]:
        """The devices."""
        return [Device("cpu")]


def __array_namespace_info__() -> _Info:  # noqa: N807 - the standard's name
    """What the namespace can do: capabilities, devices and types."""
    return _Info()
