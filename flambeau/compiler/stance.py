"""Stances: whether calls of compiled functions compile, run what is compiled, or run eagerly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self

from flambeau.capture.compiled import CompiledFunction, why
from flambeau.capture.residual import Exit
from flambeau.capture.tree import Block, Check
from flambeau.core.context import context

__all__ = ["set_stance"]

STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")
_call, _interpret = CompiledFunction.__call__, CompiledFunction._interpret
_stance = ["default"]


class set_stance:  # noqa: N801 - used as a function
    """Set what calls of compiled functions do from now on; as a context or a decorator, inside the block or function.

    ``"default"``: compile what is not compiled yet. ``"force_eager"``: call the function itself. ``"eager_on_recompile"``: run what is
    compiled where it fits, else the function itself; a call that meets what is new after it has done something is compiled further.
    ``"fail_on_recompile"``: RuntimeError where nothing compiled fits, once something is. RuntimeError for other stances, and inside
    a capture.

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
    """Compiled functions are called, and go on where nothing compiled fits, in another way while the stance is not the default one."""
    _stance[0] = stance
    CompiledFunction.__call__ = _call_eagerly if stance == "force_eager" else _call  # type: ignore[method-assign]
    CompiledFunction._interpret = _interpret if stance in ("default", "force_eager") else _go_on  # type: ignore[method-assign]


def _call_eagerly(compiled: CompiledFunction, *args: Any, **kwargs: Any) -> Any:
    return compiled.function(*args, **kwargs)


def _go_on(compiled: CompiledFunction, args: tuple[Any, ...], kwargs: dict[str, Any], found: Exit | None) -> Any:
    """Where nothing compiled fits a call, from its begin or from ``found``."""
    if _stance[0] == "fail_on_recompile":
        if not compiled.tree.captures:
            return _interpret(compiled, args, kwargs, found)
        raise RuntimeError(
            f"Detected recompile when torch.compile stance is 'fail_on_recompile': {compiled.name} met {why(found) if found else 'a call'} "
            "that it is not compiled for; set the stance 'default' to compile again"
        )
    begun = found is not None and any(step.place is None for block in _block_of(found).line() for step in block.steps)
    return _interpret(compiled, args, kwargs, found) if begun else compiled.function(*args, **kwargs)


def _block_of(found: Exit) -> Block:
    """The block that a replay left."""
    at = found.at
    return at if isinstance(at, Block) else at.block if isinstance(at, Check) else at.parent
