"""Call: an operator with its arguments taken apart by their roles."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flambeau.core.context import context
from flambeau.core.numbers import is_word
from flambeau.core.symbolic import Expression
from flambeau.interp.tracing import NumberSlot, SizeSlot, Template, tensor_slots
from flambeau.ops.declare import Operator
from flambeau.tensor import overriding
from flambeau.tensor.base import TensorBase

__all__ = ["Call", "number_kind", "take_apart"]


@dataclass(slots=True)
class Call:
    """An operator with its arguments taken apart: what is static, and the tensors, numbers and sizes that are not."""

    operator: Operator
    template: Template
    tensors: list[Any]
    numbers: list[Any]
    sizes: list[int]
    positions: dict[int, int] = field(default_factory=dict)  # of the tensors, by id

    def key(self) -> tuple[Any, ...]:
        # types, because 1, 1.0 and True are equal
        types = tuple(map(type, self.template))
        return (self.operator, self.template, types, tuple([t.meta for t in self.tensors]), tuple(self.sizes))


def take_apart(operator: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
    """Sort the arguments of a call by their roles."""
    call = Call(operator, (), [], [], [])
    arguments = operator.bind(args, kwargs)
    call.template = tuple(
        _argument(call, name, role, value) for name, role, value in zip(operator.names, operator.roles, arguments, strict=True)
    )
    if not call.tensors and _needs_tensor(operator):
        kind = type(arguments[0]).__name__
        raise TypeError(f"{operator.name}(): argument 'input' (position 1) must be Tensor, not {kind}; wrap it in torch.tensor()")
    return call


def _needs_tensor(operator: Operator) -> bool:
    """Whether torch refuses calls without a tensor; arithmetic takes two numbers, and what makes tensors takes numbers alone."""
    first = operator.roles[:1] == ("value",) and operator.names[0] in ("x", "condition")
    return first and operator.names[1:2] not in (("other",), ("exponent",))


def _argument(call: Call, name: str, role: str, value: Any) -> Any:
    if role == "value":
        return _value(call, name, value)
    if role == "values":
        return None if value is None else _values(call, name, value)
    if role == "size":
        return _size(call, name, value)
    if role == "sizes":
        return tuple(_size(call, name, v) for v in value) if isinstance(value, (tuple, list)) else _size(call, name, value)
    if isinstance(value, TensorBase):
        return _static(value.item())  # type: ignore[attr-defined]
    return _static(value)


def _value(call: Call, name: str, value: Any) -> Any:
    if isinstance(value, TensorBase):
        position = call.positions.setdefault(id(value), len(call.tensors))
        if position == len(call.tensors):
            call.tensors.append(value)
        return tensor_slots(position, position + 1)[0]
    if value is None:
        return None
    if isinstance(value, (np.number, np.bool_)):
        value = value.item()
    if isinstance(value, Expression) and context.capture is not None:
        value = context.capture.host_number(value)
    if not isinstance(value, (bool, int, float, complex)):
        if overriding.overrides(type(value)):
            overriding.meet(sys._getframe(1))
        raise TypeError(f"{call.operator.name}(): argument '{name}' must be Tensor or Number, not {type(value).__name__}")
    if isinstance(value, int) and not is_word(value):
        value = _wide(call, value)
    defaults = call.operator.defaults
    if name in defaults and type(defaults[name]) is type(value) and defaults[name] == value:
        return value
    call.numbers.append(value)
    return NumberSlot(len(call.numbers) - 1, number_kind(value))


def _wide(call: Call, value: int) -> int | float:
    """An integer that int64 does not hold: torch takes those of uint64, also for floating point operands."""
    if not 0 <= value < 1 << 64:
        raise OverflowError(f"{call.operator.name}(): int too big to convert: {value}; give a float")
    return float(value) if any(t.meta.dtype.is_inexact for t in call.tensors) else value


def number_kind(value: Any) -> type:
    """bool, int, float or complex, also of numbers that know where they come from."""
    return next(k for k in (bool, int, float, complex) if isinstance(value, k))


def _values(call: Call, name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """As `_value` for each; optimizers bring hundreds."""
    tensors, positions = call.tensors, call.positions
    first = len(tensors)
    new = dict(zip(map(id, values), range(first, first + len(values)), strict=True))
    plain = all(issubclass(kind, TensorBase) for kind in set(map(type, values)))
    if plain and len(new) == len(values) and positions.keys().isdisjoint(new):
        positions.update(new)
        tensors.extend(values)
        return tensor_slots(first, len(tensors))
    return tuple([_value(call, name, v) for v in values])


def _size(call: Call, name: str, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, TensorBase):
        value = value.item()  # type: ignore[attr-defined]
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 2:
        call.sizes.append(int(value))
        return SizeSlot(len(call.sizes) - 1)
    if isinstance(value, (tuple, list)):
        return tuple(_size(call, name, v) for v in value)
    if isinstance(value, (float, complex, str)):
        raise TypeError(f"{call.operator.name}(): argument '{name}' must be int, not {type(value).__name__}")
    return int(value) if isinstance(value, np.integer) else value


def _static(value: Any) -> Any:
    if isinstance(value, Expression):
        return int(value)
    if isinstance(value, (list, tuple)):
        if hasattr(value, "_fields"):
            return value
        return tuple(_static(v) for v in value)
    return value
