"""How ``Module.compile`` reaches the compiler, which lies in a layer that modules do not import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["compile_function", "set_compile_function"]

_compile: list[Callable[..., Any]] = []


def set_compile_function(function: Callable[..., Any]) -> None:
    """Say what compiles a function: called once, when the compiler is imported."""
    _compile[:] = [function]


def compile_function() -> Callable[..., Any]:
    """The function behind ``compile``.

    Raises RuntimeError when the compiler has not been imported.
    """
    if not _compile:
        raise RuntimeError("Module.compile: the compiler is not loaded; import flambeau (or flambeau.capture) first.")
    return _compile[0]
