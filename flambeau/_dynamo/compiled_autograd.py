"""torch._dynamo.compiled_autograd: backward passes of compiled functions are compiled with them; nothing has to be switched on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["_disable", "_enable", "reset"]


@contextmanager
def _enable(compiler_fn: Callable[..., Any], dynamic: bool = True, ignore_active_disable_ctx: bool = True) -> Iterator[None]:
    """Accepted: what a backward pass does inside a compiled function is part of its graphs, and outside it runs as ever."""
    yield


@contextmanager
def _disable() -> Iterator[None]:
    """The same."""
    yield


def reset() -> None:
    """Nothing is kept."""
