"""torch.overrides: what can be overridden by ``__torch_function__``, and modes that override everything inside a block."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from flambeau.core.context import context
from flambeau.tensor import overriding
from flambeau.tensor.base import TensorBase

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "get_default_nowrap_functions", "get_ignored_functions", "get_overridable_functions",
    "handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode is active or an argument's class overrides public functions.

    >>> import flambeau as torch
    >>> torch.overrides.has_torch_function((torch.ones(1), 2))
    False
    """
    overriding.arm()
    return bool(context.function_modes) or (context.overriding and bool(overriding.arguments_that_override(relevant_args)))


def has_torch_function_unary(argument: Any) -> bool:
    """`has_torch_function` for one argument."""
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments: Any) -> bool:
    """`has_torch_function` for the arguments given."""
    return has_torch_function(arguments)


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """What the innermost mode, or else the arguments' classes, make of the call ``public_api(*args, **kwargs)``.

    TypeError where all of them give NotImplemented. Functions of one's own begin with it, so that they can be overridden as well:

    >>> import flambeau as torch
    >>> from flambeau.overrides import handle_torch_function, has_torch_function
    >>> def double(x):
    ...     if has_torch_function((x,)):
    ...         return handle_torch_function(double, (x,), x)
    ...     return x * 2
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    return overriding.handle(public_api, overriding.arguments_that_override(relevant_args), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function so that it can be overridden; ``dispatcher`` gets its arguments and names those that may override it."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = list(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether ``inp`` is a tensor or has a ``__torch_function__``."""
    return isinstance(inp, TensorBase) or hasattr(type(inp), "__torch_function__")


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """What can be overridden: for each public module and for Tensor the functions, methods and accessors of attributes.

    The keys are the names of the modules in torch.
    """
    found: dict[Any, list[Callable[..., Any]]] = {}
    for space in overriding.published():
        members = overriding.overridable(space).values()
        found[space] = [m.__get__ if isinstance(m, property) else m for m in members]
    return found


def get_ignored_functions() -> set[str]:
    """The names of public functions that are not overridden: they neither take nor make tensors."""
    return set(overriding.SETTINGS)


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Accessors whose results a subclass does not turn into its own kind."""
    return set(overriding.unchanged())


def resolve_name(f: Any) -> str | None:
    """The name of a public function in torch, as ``"torch.Tensor.add"``; None for another.

    >>> import flambeau as torch
    >>> torch.overrides.resolve_name(torch.relu)
    'torch.relu'
    """
    return overriding.name_of(f)


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether the function is a method of Tensor, or the accessor of an attribute of it."""
    name = overriding.name_of(func)
    return name is not None and name.startswith("torch.Tensor.")


class TorchFunctionMode:
    """Overrides all public functions inside a ``with`` block: calls go to ``__torch_function__``, where the mode itself is off.

    Modes nest, the innermost is asked first. What it gives is the call's result, unless that is NotImplemented.

    >>> import flambeau as torch
    >>> class Tell(torch.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(torch.overrides.resolve_name(func))
    ...         return func(*args, **(kwargs or {}))
    >>> with Tell():
    ...     x = torch.ones(2) + 1
    torch.ones
    torch.Tensor.add
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """The result of ``func(*args, **kwargs)``; ``types`` are the classes of arguments that override it too."""
        raise NotImplementedError(f"{type(self).__name__}: a TorchFunctionMode needs a method __torch_function__")

    def __enter__(self) -> Self:
        overriding.arm()
        context.function_modes = (*context.function_modes, self)
        return self

    def __exit__(self, *_: object) -> None:
        context.function_modes = context.function_modes[:-1]

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """The mode made of the arguments, to be entered."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_function_mode() -> TorchFunctionMode | None:
    """The innermost mode."""
    return context.function_modes[-1] if context.function_modes else None


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    """The active modes, the innermost last."""
    return list(context.function_modes)
