"""Arguments as torch takes them: sizes one by one or in a tuple, numpy's names for dimensions, ``out=``."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from flambeau import ops
from flambeau.core.context import context
from flambeau.tensor import dispatch
from flambeau.tensor.base import TensorBase
from flambeau.tensor.overriding import OverridingObject

Function = TypeVar("Function", bound=Callable[..., Any])

# What the operators of Python (+, <, ...) take beside tensors; for anything else the other operand is asked.
OPERANDS = (TensorBase, int, float, complex, np.number, np.bool_, OverridingObject)
TENSORS = (TensorBase, OverridingObject)

_TORCH_NAMES = {"axis": "dim", "keepdims": "keepdim", "axes": "dim"}


def given_sizes(sizes: tuple[Any, ...], named: Any = None) -> tuple[Any, ...]:
    """``(2, 3)`` of all of ``f(2, 3)``, ``f((2, 3))`` and, as ``named``, ``f(size=(2, 3))``."""
    if named is not None:
        sizes = (named,)
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        return tuple(sizes[0])
    return sizes


def numpy_names(function: Function) -> Function:
    """Let ``function`` take ``axis`` for ``dim`` and ``keepdims`` for ``keepdim``, as numpy's callers write."""

    @functools.wraps(function)
    def renamed(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = {_TORCH_NAMES.get(name, name): value for name, value in kwargs.items()}
        return function(*args, **kwargs)

    return renamed  # type: ignore[return-value]


def write_out(out: Any, result: Any) -> Any:
    """Write ``result`` into ``out``, resized to its shape: what ``out=`` asks for. Several results go into as many outputs.

    RuntimeError when gradients would be lost or the type of ``out`` cannot hold the result's.
    """
    if isinstance(result, (tuple, list)):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(f"out= needs {len(result)} tensors, got {type(out).__name__}")
        written = [write_out(o, r) for o, r in zip(out, result, strict=True)]
        return type(result)(*written) if hasattr(result, "_fields") else type(result)(written)
    if not isinstance(out, TensorBase):
        raise TypeError(f"argument 'out' must be Tensor, not {type(out).__name__}")
    if context.grad_enabled and (result._requires_grad or dispatch.wants_gradient(out)):
        raise RuntimeError(
            "functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad. "
            "Leave out= away."
        )
    target: Any = out
    if target.meta.shape != result.meta.shape:
        before = target.meta
        target.resize_(result.meta.shape)
        if before.numel:
            warnings.warn(
                f"An output with one or more elements was resized since it had shape {list(before.shape)}, which does not match the "
                f"required output shape {list(target.meta.shape)}. Resize it to zero elements with out.resize_(0) first.",
                stacklevel=3,
            )
    dispatch.check_target("out=", result, target)
    if result is not target:
        dispatch.call_into(ops.assign, target, (target, result), {})
    return target


def given(out: Any, result: Any) -> Any:
    """``result``, written into ``out`` where that is given."""
    return result if out is None else write_out(out, result)


def as_sequence(value: Any) -> Sequence[Any]:
    """One tensor as a list of one."""
    return [value] if isinstance(value, TensorBase) else list(value)


def need_tensor(operator: str, name: str, value: Any) -> None:
    """TypeError as torch's where a number is given for a tensor."""
    if not isinstance(value, TENSORS):
        raise TypeError(f"{operator}(): argument '{name}' must be Tensor, not {type(value).__name__}; wrap it in torch.tensor()")


def need_single(operator: str, name: str, value: Any) -> None:
    """RuntimeError as torch's where a tensor with dimensions is given for a number."""
    if isinstance(value, TensorBase) and value.meta.shape:
        rank = len(value.meta.shape)
        raise RuntimeError(f"{operator} only supports a 0-dimensional {name} tensor, but got tensor with {rank} dimension(s).")


def need_some_tensor(operator: str, first: Any, second: Any) -> None:
    """TypeError as torch's where both operands are numbers."""
    if not isinstance(first, TENSORS) and not isinstance(second, TENSORS):
        raise TypeError(f"{operator}(): needs a tensor among its operands, got {type(first).__name__} and {type(second).__name__}")
