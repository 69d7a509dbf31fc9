"""A captured function: replays its tree, and interprets where the tree does not go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.capture.machine import Unsupported
from flambeau.capture.residual import Exit, Residual, generate
from flambeau.capture.session import Session, modes, set_modes
from flambeau.capture.tree import Tree
from flambeau.core.context import context

__all__ = ["Captured"]

MOST_CAPTURES = 64


class Captured:
    """A function with the tree of what it does."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function = function
        self.name = name
        self.tree = Tree(name)
        self.residual: Residual | None = None
        self.unsupported: str | None = None
        self.notes: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if context.capture is not None or self.unsupported is not None:
            return self.function(*args, **kwargs)
        if self.residual is None:
            return self._interpret(args, kwargs, None)
        start = modes()
        try:
            found = self.residual.replay(args, kwargs)
        except Exception as error:
            step, variables = self.residual.step_of(error)
            if step is None:
                raise
            found = Exit(step, variables, error)
        if type(found) is not Exit:
            return found
        set_modes(start)
        return self._interpret(args, kwargs, found)

    def _interpret(self, args: tuple[Any, ...], kwargs: dict[str, Any], found: Exit | None) -> Any:
        session = Session(self.tree, self.function, found)
        try:
            return session.run(args, kwargs)
        except Unsupported as reason:
            if session.trace.ghost or self.residual is not None:
                raise
            self.unsupported = str(reason)
            self.tree = Tree(self.name)
            return self.function(*args, **kwargs)
        finally:
            if self.unsupported is None:
                self.residual = generate(self.tree)

