"""Stances: whether calls of compiled functions compile, run what is compiled, or run eagerly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self

from flambeau.capture.compiled import stance as present
from flambeau.core.context import context

__all__ = ["set_stance"]

STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")


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
        self.stance, self._before = stance, present[0]
        present[0] = stance

    def __enter__(self) -> Self:
        present[0] = self.stance
        return self

    def __exit__(self, *_: object) -> None:
        present[0] = self._before

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        present[0] = self._before  # the decorator alone sets nothing

        @functools.wraps(function)
        def in_stance(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return function(*args, **kwargs)

        return in_stance
