"""torch._assert, torch._check and their like: conditions that programs state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.tensor.overriding import arguments_that_override, handle

__all__: list[str] = []


def _assert(condition: Any, message: str) -> None:
    """AssertionError with the message unless the condition holds."""
    if overriding := arguments_that_override([condition]):
        handle(_assert, overriding, (condition, message), {})
    else:
        assert condition, message


def _assert_async(condition: Any, message: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """RuntimeError with the message unless the tensor of one element is true."""
    if not condition:
        raise RuntimeError(message)


def _check_with(error_type: type[Exception], condition: Any, message: Callable[[], str] | None = None) -> None:
    """``error_type`` with the message that a function gives, unless the condition holds."""
    if not condition:
        raise error_type("Expected condition to be True" if message is None else message() if callable(message) else message)


def _check(condition: Any, message: Any = None) -> None:
    """RuntimeError unless the condition holds."""
    _check_with(RuntimeError, condition, message)


def _check_index(condition: Any, message: Any = None) -> None:
    """IndexError unless the condition holds."""
    _check_with(IndexError, condition, message)


def _check_value(condition: Any, message: Any = None) -> None:
    """ValueError unless the condition holds."""
    _check_with(ValueError, condition, message)


def _check_type(condition: Any, message: Any = None) -> None:
    """TypeError unless the condition holds."""
    _check_with(TypeError, condition, message)


def _check_is_size(i: Any, message: Any = None, *, max: Any = None) -> None:
    """RuntimeError unless ``i`` can be a size."""
    _check_with(RuntimeError, i >= 0 and (max is None or i <= max), message)


def _check_tensor_all(condition: Any, message: Any = None) -> None:
    """RuntimeError unless every element is true."""
    _check_with(RuntimeError, condition.all(), message)
