"""torch.utils._python_dispatch: modes that see every operator that runs inside a block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from flambeau.core.context import context

__all__ = ["TorchDispatchMode", "is_in_torch_dispatch_mode"]


class TorchDispatchMode:
    """Operators inside a ``with`` block go to ``__torch_dispatch__``, where the mode itself is off; what it gives is their result.

    ``func`` is the operator, called as ``func(*args, **kwargs)``; its ``__name__`` ends in ``_`` where it writes into its first
    argument. Operators are flambeau's, forward ones: a function of torch may be one of them or several, and what backward runs is
    compiled for each operator and does not come here. History is recorded by ``func``.

    >>> import flambeau as torch
    >>> from flambeau.utils._python_dispatch import TorchDispatchMode
    >>> class Tell(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> x = torch.ones(2)
    >>> with Tell():
    ...     y = (x * 2).relu_()
    mul
    relu_
    """

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """The result of ``func(*args, **kwargs)``."""
        raise NotImplementedError(f"{type(self).__name__}: a TorchDispatchMode needs a method __torch_dispatch__")

    def __enter__(self) -> Self:
        context.operator_modes = (*context.operator_modes, self)
        return self

    def __exit__(self, *_: object) -> None:
        context.operator_modes = context.operator_modes[:-1]


def is_in_torch_dispatch_mode() -> bool:
    """Whether a mode of operators is active."""
    return bool(context.operator_modes)


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """The innermost mode of operators."""
    return context.operator_modes[-1] if context.operator_modes else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    """The active modes of operators, the innermost last."""
    return list(context.operator_modes)
