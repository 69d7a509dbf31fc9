"""cond: one of two functions, chosen by a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.tensor.base import TensorBase
from flambeau.utils._pytree import tree_all

__all__ = ["cond"]


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """``true_fn(*operands)`` where ``pred``, a bool or a tensor of one element, is true, else ``false_fn(*operands)``.

    RuntimeError for another ``pred``, for functions that cannot be called, and for operands that are not tensors in containers.

    >>> import flambeau as torch
    >>> x = torch.tensor([1.0, -2.0])
    >>> torch.cond(x.sum() > 0, torch.cos, torch.abs, (x,))
    tensor([1., 2.])
    """
    check_value("cond", "pred", pred)
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("cond: Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)) or not tree_all(_is_operand, operands):
        raise RuntimeError(
            "cond: Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, but got "
            f"{operands}."
        )
    return (true_fn if pred else false_fn)(*operands)


def _is_operand(value: Any) -> bool:
    return isinstance(value, (TensorBase, int, bool))


def check_value(function: str, name: str, value: Any) -> None:
    """RuntimeError for what is neither a bool nor a tensor of one element."""
    if not isinstance(value, (bool, int, TensorBase)):
        raise RuntimeError(f"{function}: Expected {name} to be bool or tensor, but got {value}.")
    if isinstance(value, TensorBase) and value.meta.numel != 1:
        raise RuntimeError(f"{function}: Expected {name} to be bool or single-element tensor, but got {value}.")
