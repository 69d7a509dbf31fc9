"""Stances: whether calls of compiled functions compile, run what is compiled, or run eagerly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self

from flambeau.capture import pytree
from flambeau.capture.compiled import CompiledFunction
from flambeau.core.context import context

__all__ = ["set_stance"]

STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")
_compiled_call = CompiledFunction.__call__
_stance = ["default"]


class set_stance:  # noqa: N801 - used as a function
    """Set what calls of compiled functions do from now on; as a context or a decorator, inside the block or function.

    ``"default"``: compile what is not compiled yet. ``"force_eager"``: call the function itself. ``"eager_on_recompile"``: run what is
    compiled where it fits, else the function itself. ``"fail_on_recompile"``: RuntimeError where nothing compiled fits, once
    something is. RuntimeError for other stances, and inside a capture.

    >>> import flambeau as torch
    >>> f = torch.compile(lambda x: x * 2)
    >>> with torch.compiler.set_stance("force_eager"):
    ...     f(torch.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None) -> None:
        if stance not in STANCES:
            raise RuntimeError(f"set_stance: invalid stance {stance!r}; use one of {', '.join(STANCES)}")
        if skip_guard_eval_unsafe or force_backend is not None:
            raise NotImplementedError("set_stance: skip_guard_eval_unsafe and force_backend are not supported; leave them out")
        if context.capture is not None:
            raise RuntimeError("set_stance: cannot be called inside a function that is being compiled; call it outside")
        self.stance, self._before = stance, _stance[0]
        _take(stance)

    def __enter__(self) -> Self:
        _take(self.stance)
        return self

    def __exit__(self, *_: object) -> None:
        _take(self._before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        _take(self._before)  # the decorator alone sets nothing

        @functools.wraps(function)
        def in_stance(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return function(*args, **kwargs)

        return in_stance


def _take(stance: str) -> None:
    """Compiled functions have a slower way to be called while the stance is not the default one."""
    _stance[0] = stance
    CompiledFunction.__call__ = _compiled_call if stance == "default" else _call_in_stance  # type: ignore[method-assign]


def _call_in_stance(compiled: CompiledFunction, *args: Any, **kwargs: Any) -> Any:
    stance = _stance[0]
    if stance == "force_eager":
        return compiled.function(*args, **kwargs)
    if context.capture is None and not _fits(compiled, args, kwargs):
        if stance == "eager_on_recompile":
            return compiled.function(*args, **kwargs)
        if stance == "fail_on_recompile" and compiled.artifacts:
            raise RuntimeError(
                f"Detected recompile when torch.compile stance is 'fail_on_recompile': nothing that was compiled of {compiled.name} fits "
                "this call; set the stance 'default' to compile again"
            )
    return _compiled_call(compiled, *args, **kwargs)


def _fits(compiled: CompiledFunction, args: Any, kwargs: Any) -> bool:
    """Whether something that was compiled serves a call."""
    tensors: list[Any] = []
    description = pytree.take_apart((args, kwargs), tensors)
    return any(a.failed(description, tensors) is None for a in compiled.artifacts)
