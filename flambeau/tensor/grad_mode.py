"""Switches for recording the tape: no_grad, enable_grad, inference_mode, set_grad_enabled."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from flambeau.core.context import context


class _GradMode:
    """A context manager and decorator that sets grad mode and puts the old one back."""

    mode = True

    def __init__(self, orig_func: Callable[..., Any] | None = None) -> None:
        self._previous: list[tuple[bool, bool]] = []
        self._function = orig_func
        if orig_func is not None:
            functools.update_wrapper(self, orig_func)

    def __enter__(self) -> Self:
        self._previous.append((context.grad_enabled, context.inference))
        context.grad_enabled = self.mode
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        context.grad_enabled, inference = self._previous.pop()
        if inference is not context.inference:
            context.inference = inference

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Decorate a function, or call the one decorated without parentheses."""
        if self._function is not None:
            with type(self)():
                return self._function(*args, **kwargs)
        (function,) = args
        settings = self

        @functools.wraps(function)
        def wrapped(*inner: Any, **options: Any) -> Any:
            with settings.renewed():
                return function(*inner, **options)

        return wrapped

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None or self._function is None else functools.partial(self, instance)

    def renewed(self) -> _GradMode:
        """A fresh manager of the same setting, for one entry."""
        return type(self)()


class no_grad(_GradMode):  # noqa: N801 - torch's own name
    """Inside, operators record nothing for backward.

    >>> import flambeau as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    mode = False


class enable_grad(_GradMode):  # noqa: N801
    """Inside, operators record for backward, also within ``no_grad``."""

    mode = True


class set_grad_enabled(_GradMode):  # noqa: N801
    """Set grad mode now; as a context manager also put it back."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = bool(mode)
        self._before = (context.grad_enabled, context.inference)
        context.grad_enabled = self.mode

    def __enter__(self) -> Self:
        self._previous.append(self._before)
        context.grad_enabled = self.mode
        return self

    def renewed(self) -> _GradMode:
        return set_grad_enabled(self.mode)


class inference_mode(_GradMode):  # noqa: N801
    """Like ``no_grad``; results can never take part in autograd later."""

    def __init__(self, mode: bool | Callable[..., Any] = True) -> None:
        super().__init__(None if isinstance(mode, bool) else mode)
        self.enabled = mode if isinstance(mode, bool) else True
        self.mode = not self.enabled

    def __enter__(self) -> Self:
        self._previous.append((context.grad_enabled, context.inference))
        if self.enabled:
            context.grad_enabled, context.inference = False, True
        return self

    def renewed(self) -> _GradMode:
        return inference_mode(self.enabled)


def is_grad_enabled() -> bool:
    """Whether operators record for backward now."""
    return context.grad_enabled


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on."""
    return context.inference
