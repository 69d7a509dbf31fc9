"""The standard's array: a Tensor whose operators promote types by types alone, and take negative steps and masks of no dimensions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from flambeau.tensor import functions_pointwise as pointwise
from flambeau.tensor import functions_shape
from flambeau.tensor.creation import empty, full
from flambeau.tensor.functions_index import where
from flambeau.tensor.tensor_class import Tensor
from flambeau.tensor.type_info import promote_types, result_type

NUMBERS = (bool, int, float, complex)
VERSIONS = (None, "2021.12", "2022.12", "2023.12", "2024.12")


def met(x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    """Both operands in the type that they meet in: of arrays by their types, whatever their shapes; a number goes to its array's."""
    if isinstance(x1, Tensor) and isinstance(x2, Tensor):
        kind = promote_types(x1.dtype, x2.dtype)
    else:
        array, number = (x1, x2) if isinstance(x1, Tensor) else (x2, x1)
        kind = result_type(empty(1, dtype=array.dtype), number)
    return _as(x1, kind), _as(x2, kind)


def _as(value: Any, kind: Any) -> Tensor:
    return value.to(kind) if isinstance(value, Tensor) else full((), value, dtype=kind)


def floor_divide(x1: Any, x2: Any, /) -> Tensor:
    """The quotient rounded down; infinite dividends and divisors follow their quotient."""
    x1, x2 = met(x1, x2)
    out = pointwise.floor_divide(x1, x2)
    if not x1.is_floating_point():
        return out
    return where(pointwise.logical_or(pointwise.isinf(x1), pointwise.isinf(x2)), pointwise.floor(pointwise.divide(x1, x2)), out)


def remainder(x1: Any, x2: Any, /) -> Tensor:
    """What `floor_divide` leaves; it has the divisor's sign, also where it is zero."""
    x1, x2 = met(x1, x2)
    out = pointwise.remainder(x1, x2)
    return where(pointwise.eq(out, 0), pointwise.copysign(out, x2), out) if x1.is_floating_point() else out


def _operator(function: Callable[..., Any], swapped: bool = False) -> Any:
    def operate(self: Any, other: Any) -> Any:
        if not isinstance(other, (Tensor, *NUMBERS)):
            return NotImplemented
        return function(*met(other, self)) if swapped else function(*met(self, other))

    return operate


def _in_place(function: Callable[..., Any]) -> Any:
    def operate(self: Any, other: Any) -> Any:
        return self.copy_(function(self, other)) if isinstance(other, (Tensor, *NUMBERS)) else NotImplemented

    return operate


class Array(Tensor):
    """An array of the standard. What functions of torch give for it are arrays too."""

    __add__, __radd__ = _operator(pointwise.add), _operator(pointwise.add, True)
    __sub__, __rsub__ = _operator(pointwise.sub), _operator(pointwise.sub, True)
    __mul__, __rmul__ = _operator(pointwise.mul), _operator(pointwise.mul, True)
    __truediv__, __rtruediv__ = _operator(pointwise.true_divide), _operator(pointwise.true_divide, True)
    __floordiv__, __rfloordiv__ = _operator(floor_divide), _operator(floor_divide, True)
    __mod__, __rmod__ = _operator(remainder), _operator(remainder, True)
    __pow__, __rpow__ = _operator(pointwise.pow), _operator(pointwise.pow, True)
    __and__, __rand__ = _operator(pointwise.bitwise_and), _operator(pointwise.bitwise_and, True)
    __or__, __ror__ = _operator(pointwise.bitwise_or), _operator(pointwise.bitwise_or, True)
    __xor__, __rxor__ = _operator(pointwise.bitwise_xor), _operator(pointwise.bitwise_xor, True)
    __lshift__, __rlshift__ = _operator(pointwise.bitwise_left_shift), _operator(pointwise.bitwise_left_shift, True)
    __rshift__, __rrshift__ = _operator(pointwise.bitwise_right_shift), _operator(pointwise.bitwise_right_shift, True)
    __eq__, __ne__ = _operator(pointwise.eq), _operator(pointwise.ne)  # type: ignore[assignment]
    __lt__, __le__ = _operator(pointwise.lt), _operator(pointwise.le)
    __gt__, __ge__ = _operator(pointwise.gt), _operator(pointwise.ge)
    __ifloordiv__, __imod__ = _in_place(floor_divide), _in_place(remainder)
    __hash__ = Tensor.__hash__

    def __matmul__(self, other: Any) -> Any:
        return Tensor.__matmul__(*met(self, other)) if isinstance(other, Tensor) else NotImplemented

    def __getitem__(self, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        if not self.ndim and len(keys) == 1 and isinstance(keys[0], Tensor):
            return self.reshape(1)[keys[0].reshape(1)]
        turned, keys = _forward(self, keys)
        return Tensor.__getitem__(turned, keys if isinstance(key, tuple) else keys[0])

    def __setitem__(self, key: Any, value: Any) -> None:
        if not self.ndim and isinstance(key, Tensor):
            self.copy_(where(key, _as(value, self.dtype), self))
        else:
            Tensor.__setitem__(self, key, value)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """The standard's functions; ValueError for another version of it."""
        if api_version not in VERSIONS:
            raise ValueError(f"__array_namespace__: version {api_version!r} of the array API is not supported; use {VERSIONS[-1]!r}")
        return sys.modules["flambeau.array_api"]

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """The array on a device."""
        if stream is not None:
            raise ValueError(f"to_device: streams are not supported, got {stream!r}; leave stream out")
        return self.to(device)


def _forward(x: Tensor, keys: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
    """Slices with negative steps as slices with positive ones of the array turned round."""
    if not any(isinstance(k, slice) and k.step is not None and k.step < 0 for k in keys):
        return x, keys
    taken = sum(k is not None and k is not Ellipsis for k in keys)
    found, axis, turned = [], 0, []
    for k in keys:
        if k is Ellipsis:
            axis += x.ndim - taken
        elif k is not None:
            if isinstance(k, slice) and k.step is not None and k.step < 0:
                start, stop, step = k.indices(x.shape[axis])
                last = x.shape[axis] - 1
                k = slice(last - start, last - stop, -step)
                turned.append(axis)
            axis += 1
        found.append(k)
    return functions_shape.flip(x, turned), tuple(found)
