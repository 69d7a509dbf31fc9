"""What programs make tensors of: numbers and nested sequences of numbers, numpy's arrays and tensors, as one numpy array."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.ops.declare import number_type
from flambeau.tensor.base import TensorBase

_NUMBERS = frozenset((bool, int, float, complex))
_TYPED = (np.ndarray, np.generic)


def as_array(data: Any, wanted: dtype | None) -> tuple[Any, dtype]:
    """Data as a numpy array, and its type: ``wanted`` or, without one, what the elements meet in.

    Python's floats count as the default type, its ints as int64; elements of numpy and tensors keep their types. ValueError for sequences
    that do not fit together and for tensors of several elements in them, RuntimeError for what is no number and for numbers that the
    type does not hold.
    """
    if isinstance(data, (str, bytes)):
        raise TypeError(f"tensor: invalid data type '{type(data).__name__}'; needs numbers, sequences of numbers, arrays or tensors")
    if isinstance(data, _TYPED) or hasattr(type(data), "__array__"):
        array, kinds = np.asarray(data), set()
    else:
        data, kinds = _plain(data)
        array = _nested_array(data, wanted)
    kind = wanted or _common(kinds, array)
    if kind is None or array.dtype.kind in "USVMm" or (array.dtype.kind == "O" and not kinds):
        raise TypeError(
            f"can't convert data of numpy type {array.dtype} to a tensor. The only supported types are: float64, float32, float16, int64, "
            "int32, int16, int8, uint8, and bool."
        )
    if kinds:
        _check_range(array, kind)
    with np.errstate(all="ignore"):
        return dtypes.converted_array(array, kind), kind


def _common(kinds: Iterable[Any], array: Any) -> dtype | None:
    """The type of an array made of elements of such types, classes of Python's numbers and types of tensors; its own without any."""
    found = [k if isinstance(k, dtype) else number_type(k()) for k in kinds]
    return reduce(dtypes.promote, found) if found else dtypes.BY_NUMPY.get(array.dtype)


def _plain(data: Any) -> tuple[Any, set[Any]]:
    """Data with Python's numbers and lists in place of tensors and other sequences; and what types its elements have."""
    kinds: set[Any] = set()
    plain = _walk(data, kinds)
    return plain, kinds or {float}


def _walk(data: Any, kinds: set[Any]) -> Any:
    if not isinstance(data, (list, tuple)):
        return _element(data, kinds)
    here = set(map(type, data))
    kinds |= here & _NUMBERS
    return data if here <= _NUMBERS else [d if type(d) in _NUMBERS else _walk(d, kinds) for d in data]


def _element(value: Any, kinds: set[Any]) -> Any:
    """What is no list, as a number, an array or a list; notes its type."""
    if isinstance(value, TensorBase):
        if value.meta.numel != 1:
            raise ValueError(
                f"tensor: only one element tensors can be converted to Python scalars, got {list(value.meta.shape)}; use torch.stack()"
            )
        kinds.add(value.meta.dtype)
        return value.array().item()  # type: ignore[attr-defined]
    if isinstance(value, _TYPED):
        kinds.add(dtypes.BY_NUMPY.get(value.dtype, dtypes.float64))
        return value
    for kind in (bool, int, float, complex):
        if isinstance(value, kind):
            kinds.add(kind)
            return value
    if isinstance(value, (str, bytes)):
        raise ValueError(f"tensor: too many dimensions '{type(value).__name__}'; needs numbers")
    if hasattr(type(value), "__getitem__") and hasattr(type(value), "__len__") and not isinstance(value, Mapping):
        return _walk([value[i] for i in range(len(value))], kinds)
    raise RuntimeError(f"Could not infer dtype of {type(value).__name__}; needs numbers, sequences of numbers, arrays or tensors")


def _nested_array(data: Any, wanted: dtype | None) -> Any:
    try:  # numpy takes integers from 2**63 on for floats where others are beside them
        array = np.array(data, np.uint64 if wanted is dtypes.uint64 and not _holds_floats(data) else None)
    except ValueError as error:
        raise ValueError(f"tensor: expected sequences of equal lengths at each depth; {error}") from None
    except OverflowError as error:
        raise ValueError(f"tensor: Overflow when unpacking long long: {error}") from None
    whole = wanted is None or not wanted.is_inexact
    if array.dtype.kind in "Ou" and array.size and whole and wanted is not dtypes.uint64 and _beyond(data):
        raise ValueError("tensor: Overflow when unpacking long long; integers of 64 bits reach from -2**63 to 2**63 - 1")
    return array


def _holds_floats(data: Any) -> bool:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (float, complex))


def _beyond(data: Any) -> bool:
    """Whether a Python integer is among the data that int64 does not hold."""
    if isinstance(data, (list, tuple)):
        return any(map(_beyond, data))
    return isinstance(data, int) and not -(1 << 63) <= data < 1 << 63


def _check_range(array: Any, kind: dtype) -> None:
    """Errors for numbers that the type does not hold; unsigned types take the negatives of what they hold, as in torch."""
    if array.dtype.kind == "c" and not kind.is_complex:
        raise TypeError(f"tensor: must be real number, not complex, for {kind}")
    if kind.is_inexact or kind is dtypes.bool_ or array.dtype.kind not in "iuf" or not array.size:
        return
    limits = np.iinfo(kind.numpy)
    low = -int(limits.max) if limits.min == 0 else int(limits.min)
    least, most = array.min(), array.max()
    if not (np.isfinite(least) and np.isfinite(most) and low <= int(least) and int(most) <= limits.max):
        raise RuntimeError(f"tensor: value cannot be converted to type {kind.name} without overflow; the numbers are {least} to {most}")
