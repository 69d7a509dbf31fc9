"""Calls of operators that go to the innermost mode of operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flambeau.core.context import context
from flambeau.ops.declare import Operator
from flambeau.tensor.base import TensorBase


def ask(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Have the innermost mode, which is off meanwhile, do a call."""
    modes = context.operator_modes
    if context.capture is not None:
        context.capture.flush("a __torch_dispatch__ of the program is called")
    context.operator_modes = modes[:-1]
    try:
        types = tuple({type(a): None for a in args if isinstance(a, TensorBase)})
        return modes[-1].__torch_dispatch__(function, types, args, dict(kwargs))
    finally:
        context.operator_modes = modes


def ask_into(call_into: Callable[..., Any], operator: Operator, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """`ask` for a result that is written into ``target``, which is given first."""
    apart = not args or args[0] is not target
    return ask(InPlace(call_into, operator, apart), (target, *args) if apart else args, kwargs)


@dataclass(frozen=True, slots=True)
class InPlace:
    """An operator whose result is written into its first argument, which is no operand where it is ``apart``."""

    call_into: Callable[..., Any]
    operator: Operator
    apart: bool

    @property
    def __name__(self) -> str:
        return "copy_" if self.operator.name == "assign" else f"{self.operator.name}_"

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        return self.call_into(self.operator, target, args if self.apart else (target, *args), kwargs)
